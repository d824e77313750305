package depot

import (
	"encoding/binary"
	"slices"
	"time"
)

const (
	maxArrivals  = 4096
	arrivalEvery = 100 * time.Millisecond
	timesMagic   = "HRtimes1"
	arrivalSize  = 16
)

// arrival is an Arrival as it is kept: the time in milliseconds since 1970.
type arrival struct{ offset, ms int64 }

// ledger is when a log came in: at most maxArrivals entries, offsets rising, times never falling.
type ledger struct {
	entries []arrival
	every   time.Duration // two entries are at least this far apart
	stored  int           // how many of them are on disk; -1: what is there must be replaced
}

// note takes down that what follows the offset came in now, and reports whether that made an entry.
func (l *ledger) note(offset int64, now time.Time) bool {
	ms := now.UnixMilli()
	if n := len(l.entries); n > 0 {
		last := l.entries[n-1]
		// So also if the clock was set back: what came is called as old as what came before it.
		if ms-last.ms < max(l.every, arrivalEvery).Milliseconds() || offset <= last.offset {
			return false
		}
		if n >= maxArrivals {
			l.thin()
		}
	}
	l.entries = append(l.entries, arrival{offset, ms})
	return true
}

// thin drops every second entry, and has further ones come half as often.
func (l *ledger) thin() {
	kept := l.entries[:0]
	for i := 0; i < len(l.entries); i += 2 {
		kept = append(kept, l.entries[i])
	}
	l.entries, l.every, l.stored = kept, 2*max(l.every, arrivalEvery), -1
}

func (l *ledger) list() []Arrival {
	out := make([]Arrival, len(l.entries))
	for i, a := range l.entries {
		out[i] = Arrival{a.offset, time.UnixMilli(a.ms).UTC()}
	}
	return out
}

// cost is how many bytes it has beside a log.
func (l *ledger) cost() int64 {
	if len(l.entries) == 0 {
		return 0
	}
	return int64(len(timesMagic) + arrivalSize*len(l.entries))
}

func appendArrival(b []byte, a arrival) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(a.offset))
	return binary.LittleEndian.AppendUint64(b, uint64(a.ms))
}

// encodeTimes is the form beside a log.
func encodeTimes(entries []arrival) []byte {
	b := []byte(timesMagic)
	for _, a := range entries {
		b = appendArrival(b, a)
	}
	return b
}

// decodeTimes reads the form beside a log of that size, up to what cannot be so: a torn end, or one that tells of bytes which
// were lost.
func decodeTimes(b []byte, size int64) ledger {
	if len(b) < len(timesMagic) || string(b[:len(timesMagic)]) != timesMagic {
		return ledger{stored: -1}
	}
	var l ledger
	rest := b[len(timesMagic):]
	for len(rest) >= arrivalSize {
		a := arrival{int64(binary.LittleEndian.Uint64(rest)), int64(binary.LittleEndian.Uint64(rest[8:]))}
		if !l.follows(a, size) {
			break
		}
		l.entries = append(l.entries, a)
		rest = rest[arrivalSize:]
	}
	l.stored = len(l.entries)
	if len(rest) > 0 {
		l.stored = -1
	}
	return l
}

func (l *ledger) follows(a arrival, size int64) bool {
	if a.offset < 0 || a.offset >= size || a.ms < 0 || len(l.entries) >= maxArrivals {
		return false
	}
	if n := len(l.entries); n > 0 {
		last := l.entries[n-1]
		return a.offset > last.offset && a.ms >= last.ms
	}
	return true
}

// packTimes is the form in a sealed log: differences as varints.
func packTimes(entries []arrival) []byte {
	var b []byte
	var last arrival
	for _, a := range entries {
		b = binary.AppendUvarint(b, uint64(a.offset-last.offset))
		b = binary.AppendUvarint(b, uint64(a.ms-last.ms))
		last = a
	}
	return b
}

// unpackTimes reads what packTimes wrote, up to what cannot be so.
func unpackTimes(b []byte, size int64) ledger {
	var l ledger
	var last arrival
	for len(b) > 0 {
		offset, n := binary.Uvarint(b)
		if n <= 0 {
			break
		}
		ms, m := binary.Uvarint(b[n:])
		a := arrival{last.offset + int64(offset), last.ms + int64(ms)}
		if m <= 0 || !l.follows(a, size) {
			break
		}
		l.entries = append(l.entries, a)
		last, b = a, b[n+m:]
	}
	l.entries = slices.Clip(l.entries)
	return l
}
