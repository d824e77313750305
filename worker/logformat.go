package worker

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// The form of a log file, version 2.
//
//	file   = "hrlog\x00\x02\n" record*
//	record = head time? check text
//
// head is a varint of length<<3 | same<<2 | kind: length counts the bytes of text, at most MaxLineText. kind is 1
// for a line of output, 2 for a piece of one after which no newline came, 3 for a note; 0, with same and no text, is
// the end marker. So no record begins with a zero byte.
//
// time is there unless same is set: a zigzag varint of the microseconds since the record before, or since 1970 UTC for
// the first of a block. Lines that are read at once have the same time.
//
// check has the 16 low bits, little endian, of a CRC-32C over all of the block's records up to this one, without
// their checks. It is short as most lines are; a fault that it misses at first, once in 65,536 times, shows at the next record.
//
// The file is seen as blocks of 64 KiB. No record crosses the end of a block: what does not fit goes
// into the next one, and zeros fill the gap. So a reader can start at any block, which makes
// the last lines of a large log cheap, and damage costs at most the rest of its block.
//
// What the framing costs: a line of up to 15 bytes takes 3 bytes over its text if it came with the line before; a
// longer one 1 or 2 more; one that came later 1 to 3 more for gaps below a second. Thus a log takes at most twice its
// output if no line is empty and lines come together, and six times it at the very worst (empty lines, each alone).
//
// A file is only ever appended to. A writer that died leaves a torn last record or no end marker: a
// reader stops before the torn record, and the missing marker says that the writer did not finish.
const (
	logMagic  = "hrlog\x00\x02\n"
	blockSize = 64 << 10
	// minRecord and maxRecord are the sizes between which a record's is.
	minRecord = 1 + 2
	maxRecord = 3 + binary.MaxVarintLen64 + 2 + MaxLineText
)

// kind is what a record holds.
type kind byte

const (
	kindEnd kind = iota
	kindLine
	kindPiece
	kindNote

	kindMask  = 3
	sameTime  = 4
	lengthBit = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// chain is what the next record of a block builds on. It is zero where a block begins.
type chain struct {
	at  int64 // microseconds since 1970 UTC
	sum uint32
}

// append encodes one record. Text longer than MaxLineText is the caller's mistake.
func (c *chain) append(b []byte, k kind, at int64, text []byte) []byte {
	start := len(b)
	head := uint64(len(text))<<lengthBit | uint64(k)
	if at == c.at || k == kindEnd {
		b = binary.AppendUvarint(b, head|sameTime)
	} else {
		b = binary.AppendVarint(binary.AppendUvarint(b, head), at-c.at)
		c.at = at
	}
	c.add(b[start:], text)
	b = binary.LittleEndian.AppendUint16(b, uint16(c.sum))
	return append(b, text...)
}

func (c *chain) add(head, text []byte) {
	c.sum = crc32.Update(crc32.Update(c.sum, castagnoli, head), castagnoli, text)
}

// found is what lies at a place in a block.
type found uint8

const (
	foundRecord  found = iota
	foundPadding       // zeros up to the end of the block
	foundNothing       // a torn, missing or damaged record
)

// record is a decoded record; text points into the block.
type record struct {
	kind kind
	at   int64
	text []byte
	size int
}

// decode reads the record at the start of b, which is the rest of a block or of what is there of it. Only a record that it
// found moves the chain on.
func (c *chain) decode(b []byte) (record, found) {
	if len(b) > 0 && b[0] == 0 {
		return record{}, foundPadding
	}
	head, n := binary.Uvarint(b)
	if n <= 0 {
		return record{}, foundNothing
	}
	r, next := record{kind: kind(head & kindMask)}, *c
	if head&sameTime == 0 {
		gap, m := binary.Varint(b[n:])
		if m <= 0 {
			return record{}, foundNothing
		}
		next.at += gap
		n += m
	}
	length := head >> lengthBit
	if length > MaxLineText || r.kind == kindEnd && head != sameTime || len(b) < n+2+int(length) {
		return record{}, foundNothing
	}
	r.at, r.size = next.at, n+2+int(length)
	r.text = b[n+2 : r.size]
	next.add(b[:n], r.text)
	if uint16(next.sum) != binary.LittleEndian.Uint16(b[n:]) {
		return record{}, foundNothing
	}
	*c = next
	return r, foundRecord
}

// kindOf gives how a line is kept.
func kindOf(l *Line) kind {
	switch {
	case l.Stream == Note:
		return kindNote
	case l.Partial:
		return kindPiece
	}
	return kindLine
}

// line gives the record as a Line with a text of its own.
func (r record) line() Line {
	l := Line{
		Time: time.UnixMicro(r.at).UTC(), Stream: Stdout, Text: append([]byte{}, r.text...), Partial: r.kind == kindPiece,
	}
	if r.kind == kindNote {
		l.Stream = Note
	}
	return l
}
