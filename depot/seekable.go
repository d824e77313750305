package depot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A sealed log follows the Zstandard seekable format, version 0.1.0 (contrib/seekable_format in the zstd repository), so
// that `zstd -dc` prints it: frames (RFC 8878) of frameSize bytes of the log each, the last of what remains, with checksums;
// a skippable frame with the arrival times; and the seek table, a skippable frame as well:
//
//	magic 0x184D2A5E, length (4)
//	each frame: compressed size (4), size (4)
//	number of frames (4), descriptor (1) = 0: no checksums, magic 0x8F92EAB1
//
// All numbers are little-endian. The checksum of the times stands before them.
const (
	frameSize   = 256 << 10
	tableMagic  = 0x184D2A5E
	timesFrame  = 0x184D2A50
	footerMagic = 0x8F92EAB1
	headSize    = 8 // of a skippable frame
	footerSize  = 9
	tableEntry  = 8
	maxTimes    = 2*binary.MaxVarintLen64*maxArrivals + 4
	maxStored   = frameSize + 1024 // what a frame may have; incompressible bytes gain some
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packer compresses and decompresses, for several goroutines at once.
type packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newPacker() (*packer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(frameSize), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(frameSize), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &packer{enc, dec}, nil
}

// pack writes the log and its times to w in the form of a sealed log, and gives how many bytes that is.
func (p *packer) pack(ctx context.Context, w io.WriterAt, log io.ReaderAt, size int64, times []arrival) (int64, error) {
	var at int64
	put := func(b []byte) error {
		n, err := w.WriteAt(b, at)
		at += int64(n)
		return err
	}
	plain := make([]byte, min(size, frameSize))
	var packed, table []byte
	for begin := int64(0); begin < size; begin += frameSize {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		b := plain[:min(frameSize, size-begin)]
		if n, err := log.ReadAt(b, begin); n < len(b) {
			return at, fmt.Errorf("read the log at %d: %w", begin, err)
		}
		packed = p.enc.EncodeAll(b, packed[:0])
		if err := put(packed); err != nil {
			return at, err
		}
		table = binary.LittleEndian.AppendUint32(table, uint32(len(packed)))
		table = binary.LittleEndian.AppendUint32(table, uint32(len(b)))
	}
	tail := appendSkippable(nil, timesFrame, sealTimes(times))
	frames := len(table) / tableEntry
	table = binary.LittleEndian.AppendUint32(table, uint32(frames))
	table = append(table, 0)
	table = binary.LittleEndian.AppendUint32(table, footerMagic)
	err := put(appendSkippable(tail, tableMagic, table))
	return at, err
}

func appendSkippable(b []byte, magic uint32, content []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	return append(b, content...)
}

func sealTimes(times []arrival) []byte {
	packed := packTimes(times)
	return append(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(packed, castagnoli)), packed...)
}

// seekable reads a sealed log, for several goroutines at once.
type seekable struct {
	r       io.ReaderAt
	dec     *zstd.Decoder
	size    int64
	offsets []int64 // where each frame begins, and where the last one ends

	mu      sync.Mutex
	cached  int64 // the number of the frame in cache; -1: none
	cache   []byte
	packed  []byte
	decoded int // frames decoded in all
}

// openSeekable reads the table of a sealed log of that many bytes, and the times. Its error wraps ErrDamaged if it is none.
func (p *packer) openSeekable(r io.ReaderAt, length int64) (*seekable, ledger, error) {
	s := &seekable{r: r, dec: p.dec, cached: -1}
	table, err := readTable(r, length)
	if err != nil {
		return nil, ledger{}, err
	}
	frames := len(table) / tableEntry
	s.offsets = make([]int64, 1, frames+1)
	for i := range frames {
		entry := table[tableEntry*i:]
		stored, size := int64(binary.LittleEndian.Uint32(entry)), int64(binary.LittleEndian.Uint32(entry[4:]))
		// All are full but the last, so that no search is needed.
		if stored == 0 || stored > maxStored || size > frameSize || size == 0 || (size < frameSize && i < frames-1) {
			return nil, ledger{}, fmt.Errorf("frame %d: %d bytes of %d: %w", i, size, stored, ErrDamaged)
		}
		s.offsets = append(s.offsets, s.offsets[i]+stored)
		s.size += size
	}
	begin, end := s.offsets[frames], length-int64(headSize+len(table)+footerSize)
	if begin+headSize+4 > end || end-begin-headSize > maxTimes {
		return nil, ledger{}, fmt.Errorf("the table of frames does not fit: %w", ErrDamaged)
	}
	b := make([]byte, end-begin)
	if err := readFull(r, b, begin); err != nil {
		return nil, ledger{}, err
	}
	packed := b[headSize+4:]
	if binary.LittleEndian.Uint32(b) != timesFrame || int(binary.LittleEndian.Uint32(b[4:])) != len(b)-headSize {
		return nil, ledger{}, fmt.Errorf("want the times at %d: %w", begin, ErrDamaged)
	}
	if crc32.Checksum(packed, castagnoli) != binary.LittleEndian.Uint32(b[headSize:]) {
		return s, ledger{}, nil // The log itself is worth more than when it came.
	}
	return s, unpackTimes(packed, s.size), nil
}

// readTable gives the entries of the seek table at the end.
func readTable(r io.ReaderAt, length int64) ([]byte, error) {
	bad := func(what string) error { return fmt.Errorf("%s: %w", what, ErrDamaged) }
	if length < headSize+footerSize {
		return nil, bad("no room for a seek table")
	}
	foot := make([]byte, footerSize)
	if err := readFull(r, foot, length-footerSize); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(foot[5:]) != footerMagic || foot[4] != 0 {
		return nil, bad("no seek table at the end")
	}
	n := tableEntry*int64(binary.LittleEndian.Uint32(foot)) + headSize
	if n > length-footerSize {
		return nil, bad("the seek table is longer than the file")
	}
	b := make([]byte, n)
	if err := readFull(r, b, length-footerSize-n); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(b) != tableMagic || int64(binary.LittleEndian.Uint32(b[4:])) != n-headSize+footerSize {
		return nil, bad("the seek table does not begin where it must")
	}
	return b[headSize:], nil
}

func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("it ends at %d: %w", at+int64(n), ErrDamaged)
	default:
		return err
	}
}

// ReadAt decodes the frames that it needs. The last one is kept for the next call.
func (s *seekable) ReadAt(p []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, errors.New("read before the beginning of a log")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		if at >= s.size {
			return n, io.EOF
		}
		frame := at / frameSize
		if frame != s.cached {
			if err := s.decode(frame); err != nil {
				return n, err
			}
		}
		m := copy(p[n:], s.cache[at%frameSize:])
		n, at = n+m, at+int64(m)
	}
	return n, nil
}

// decode needs the lock.
func (s *seekable) decode(frame int64) error {
	s.cached = -1
	if s.cache == nil {
		s.cache = make([]byte, 0, min(frameSize, s.size))
	}
	begin, end := s.offsets[frame], s.offsets[frame+1]
	s.packed = append(s.packed[:0], make([]byte, end-begin)...)
	if err := readFull(s.r, s.packed, begin); err != nil {
		return err
	}
	b, err := s.dec.DecodeAll(s.packed, s.cache[:0])
	s.decoded++
	if err != nil || int64(len(b)) != min(frameSize, s.size-frame*frameSize) {
		return fmt.Errorf("frame %d: %d bytes, %v: %w", frame, len(b), err, ErrDamaged)
	}
	s.cache, s.cached = b, frame
	return nil
}
