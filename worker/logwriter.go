package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrLogLimit says that with a line there would have been more output in the log than its limit.
var ErrLogLimit = errors.New("log limit reached")

// flushAt is the amount of waiting records, in bytes, that is written without being asked.
const flushAt = 32 << 10

// LogWriter writes the log of one attempt. It is for one goroutine at a time. After its first write
// error it stays failed, and each call gives that error again.
type LogWriter struct {
	w       io.WriteCloser
	waiting []byte
	chain   chain
	size    int64 // of the file, with what waits
	output  int64 // bytes of output in it
	limit   int64 // on output; 0: none
	err     error
}

// CreateLog makes the log file at path, readable by all. It refuses to replace a file: the error then is
// fs.ErrExist.
func CreateLog(path string) (*LogWriter, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	return NewLogWriter(f), nil
}

// NewLogWriter writes a log to w, which must be empty; Close closes it.
func NewLogWriter(w io.WriteCloser) *LogWriter {
	return &LogWriter{w: w, waiting: []byte(logMagic), size: int64(len(logMagic))}
}

// SetLimit bounds the output in the log, text and newlines, to n bytes; 0 means no bound. Notes do not count, so that
// the log can say why it ends. The file is larger than that: logformat.go says by how much.
func (l *LogWriter) SetLimit(n int64) { l.limit = n }

// Size gives the size of the file in bytes, with what Flush has not written yet.
func (l *LogWriter) Size() int64 { return l.size }

// Append adds a line, which a reader sees after the next Flush. It reports ErrLogLimit, and adds
// nothing, if the line does not fit into the limit. Time is cut to microseconds.
func (l *LogWriter) Append(line Line) error {
	if l.err != nil {
		return l.err
	}
	if line.Stream != Stdout && line.Stream != Note {
		return fmt.Errorf("append to log: stream %d is unknown", line.Stream)
	}
	if line.Pending || line.Stream == Note && line.Partial {
		return errors.New("append to log: a line that is pending, or a note that is not whole")
	}
	if len(line.Text) > MaxLineText {
		return fmt.Errorf("append to log: text of %d bytes; at most %d", len(line.Text), MaxLineText)
	}
	if line.Stream == Stdout {
		after := l.output + int64(len(line.Text))
		if !line.Partial {
			after++
		}
		if l.limit > 0 && after > l.limit {
			return ErrLogLimit
		}
		l.output = after
	}
	l.record(kindOf(&line), line.Time.UnixMicro(), line.Text)
	if len(l.waiting) >= flushAt {
		return l.Flush()
	}
	return nil
}

// Flush writes what waits, so that readers see it. It does not sync: a log is a witness, not state,
// and a crash of the whole machine may take its last seconds.
func (l *LogWriter) Flush() error {
	if l.err != nil || len(l.waiting) == 0 {
		return l.err
	}
	if _, err := l.w.Write(l.waiting); err != nil {
		l.err = fmt.Errorf("write log: %w", err)
	}
	l.waiting = l.waiting[:0]
	return l.err
}

// Close writes what waits and the end marker, by which followers know that nothing more comes, and
// closes the file. The file is closed also if that fails.
func (l *LogWriter) Close() error {
	if l.err == nil {
		l.record(kindEnd, 0, nil)
	}
	err := l.Flush()
	if cerr := l.w.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close log: %w", cerr)
	}
	if l.err == nil {
		l.err = os.ErrClosed
	}
	return err
}

// record adds a record, in the next block if it does not fit into this one.
func (l *LogWriter) record(k kind, at int64, text []byte) {
	begin := len(l.waiting)
	l.waiting = l.chain.append(l.waiting, k, at, text)
	room := blockSize - int(l.size%blockSize)
	if len(l.waiting)-begin > room {
		// The end of a block begins the chain anew, so that it is encoded once more.
		l.waiting, l.chain = append(l.waiting[:begin], make([]byte, room)...), chain{}
		l.waiting = l.chain.append(l.waiting, k, at, text)
	} else if len(l.waiting)-begin == room {
		l.chain = chain{}
	}
	l.size += int64(len(l.waiting) - begin)
}
