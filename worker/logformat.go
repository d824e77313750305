package worker

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// The form of a log file, version 1. All numbers are little endian.
//
//	file   = "hrlog\x00\x01\n" record*
//	record = kind(1) length(2) time(8) crc(4) text(length)
//
// kind is a Stream, or 4 for the end marker; its bit 7 says Partial. length counts the bytes of text,
// at most MaxLineText. time is microseconds since 1970 UTC. crc is CRC-32C of kind, length, time and text.
//
// The file is seen as blocks of 64 KiB. No record crosses the end of a block: what does not fit goes
// into the next one, and zeros (kind 0) fill the gap. So a reader can start at any block, which
// makes the last lines of a large log cheap, and damage costs at most the rest of its block.
//
// A file is only ever appended to. A writer that died leaves a torn last record or no end marker: a
// reader stops before the torn record, and the missing marker says that the writer did not finish.
const (
	logMagic    = "hrlog\x00\x01\n"
	blockSize   = 64 << 10
	recordHead  = 1 + 2 + 8 + 4
	kindPadding = 0
	kindEnd     = 4
	kindPartial = 0x80
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord encodes one record. Text longer than MaxLineText is the caller's mistake.
func appendRecord(b []byte, kind byte, at time.Time, text []byte) []byte {
	start := len(b)
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	b = binary.LittleEndian.AppendUint64(b, uint64(at.UnixMicro()))
	sum := crc32.Update(crc32.Checksum(b[start:], castagnoli), castagnoli, text)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return append(b, text...)
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
	kind byte
	at   int64
	text []byte
	size int
}

// decodeRecord reads the record at the start of b, which is the rest of a block or of what is there of it.
func decodeRecord(b []byte) (record, found) {
	if len(b) > 0 && b[0] == kindPadding {
		return record{}, foundPadding
	}
	if len(b) < recordHead {
		return record{}, foundNothing
	}
	length := int(binary.LittleEndian.Uint16(b[1:]))
	kind := b[0] &^ kindPartial
	if kind > kindEnd || length > MaxLineText || len(b) < recordHead+length {
		return record{}, foundNothing
	}
	text := b[recordHead : recordHead+length]
	sum := crc32.Update(crc32.Checksum(b[:recordHead-4], castagnoli), castagnoli, text)
	if kind == kindPadding || sum != binary.LittleEndian.Uint32(b[recordHead-4:]) {
		return record{}, foundNothing
	}
	at := int64(binary.LittleEndian.Uint64(b[3:]))
	return record{kind: b[0], at: at, text: text, size: recordHead + length}, foundRecord
}

// line gives the record as a Line with a text of its own.
func (r record) line() Line {
	return Line{
		Time:    time.UnixMicro(r.at).UTC(),
		Stream:  Stream(r.kind &^ kindPartial),
		Text:    append([]byte{}, r.text...),
		Partial: r.kind&kindPartial != 0,
	}
}
