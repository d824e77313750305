package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// What an executor and the supervisor of an attempt say to each other, over a pair of sockets, in frames:
// kind (1 byte), length (4 bytes, little endian), payload. The socket's end says that the other is dead.
const (
	frameStart byte = 's' // executor: run this (startSpec)
	frameTerm  byte = 't' // executor: SIGTERM to the whole tree
	frameKill  byte = 'k' // executor: SIGKILL to the whole tree
	frameError byte = 'e' // supervisor: the command could not be started (startError)
	frameDone  byte = 'd' // supervisor: the whole tree is gone (ended)
)

// maxFrame bounds a payload; Linux takes no more arguments and environment than 6 MiB.
const maxFrame = 16 << 20

func writeFrame(w io.Writer, kind byte, payload []byte) error {
	b := make([]byte, 5, 5+len(payload))
	b[0] = kind
	binary.LittleEndian.PutUint32(b[1:], uint32(len(payload)))
	_, err := w.Write(append(b, payload...))
	return err
}

func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame %q of %d bytes", head[0], n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}

var errFrame = errors.New("malformed frame")

// encode joins the parts with NUL, which none of them can hold.
func (s startSpec) encode() []byte {
	parts := []string{s.dir, s.path, s.cgroup, s.script, s.shortage, strconv.FormatUint(s.number, 10), strconv.Itoa(len(s.argv))}
	parts = append(append(parts, s.argv...), s.env...)
	return []byte(strings.Join(parts, "\x00"))
}

func decodeStart(b []byte) (startSpec, error) {
	const head = 7
	p := strings.Split(string(b), "\x00")
	if len(p) < head {
		return startSpec{}, errFrame
	}
	number, err := strconv.ParseUint(p[5], 10, 64)
	if err != nil {
		return startSpec{}, errFrame
	}
	n, err := strconv.Atoi(p[6])
	if err != nil || n < 1 || n > len(p)-head {
		return startSpec{}, errFrame
	}
	return startSpec{
		dir: p[0], path: p[1], cgroup: p[2], script: p[3], shortage: p[4], number: number,
		argv: p[head : head+n], env: p[head+n:],
	}, nil
}

// ended is how a tree of processes ended.
type ended struct {
	wait  uint32 // the command's wait status, as the system encodes it
	asked bool   // the command still ran when a term or kill came
	oom   bool   // the system killed for lack of memory in the attempt's own control group
	short bool   // it did so somewhere, perhaps there
	extra int    // processes that the command left running, which were killed
	stuck int    // processes that did not die
	names string // some names of extra or stuck
}

func (e ended) encode() []byte {
	var flags byte
	if e.asked {
		flags |= 1
	}
	if e.oom {
		flags |= 2
	}
	if e.short {
		flags |= 4
	}
	b := binary.LittleEndian.AppendUint32([]byte{flags}, e.wait)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.extra))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.stuck))
	return append(b, e.names...)
}

func decodeEnded(b []byte) (ended, error) {
	if len(b) < 13 {
		return ended{}, errFrame
	}
	return ended{
		asked: b[0]&1 != 0,
		oom:   b[0]&2 != 0,
		short: b[0]&4 != 0,
		wait:  binary.LittleEndian.Uint32(b[1:]),
		extra: int(binary.LittleEndian.Uint32(b[5:])),
		stuck: int(binary.LittleEndian.Uint32(b[9:])),
		names: string(b[13:]),
	}, nil
}
