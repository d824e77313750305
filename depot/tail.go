package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// tailBlock divides frameSize, so that a block is in one frame.
const tailBlock = 64 << 10

// Tail gives the offset at which the last lines of a log of that size begin. A line ends with its line feed; what stands
// after the last one is a line, too. It reads blocks from the end back, at most reach bytes of them (0: the whole log): if the lines are longer
// than that, it gives an offset in the midst of a line, reach bytes before the end. It keeps one block in memory, however
// long lines are.
func Tail(r io.ReaderAt, size int64, lines int, reach int64) (offset int64, err error) {
	if lines <= 0 || size <= 0 {
		return max(size, 0), nil
	}
	floor := int64(0)
	if reach > 0 {
		floor = max(0, size-reach)
	}
	block := make([]byte, min(tailBlock, size))
	// The line feed that ends the last line begins no further one.
	for end := size; end > floor; {
		begin := max(floor, (end-1)/tailBlock*tailBlock)
		b := block[:end-begin]
		if n, err := r.ReadAt(b, begin); n < len(b) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // The log is shorter than the caller said.
			}
			return 0, fmt.Errorf("read the last lines: %w", err)
		}
		if end == size {
			b = b[:len(b)-1]
		}
		for {
			i := bytes.LastIndexByte(b, '\n')
			if i < 0 {
				break
			}
			if lines--; lines == 0 {
				return begin + int64(i) + 1, nil
			}
			b = b[:i]
		}
		end = begin
	}
	return floor, nil
}
