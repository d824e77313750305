package codec

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/headrace/headrace/job"
)

var (
	errTruncated = errors.New("truncated")
	errTrailing  = errors.New("trailing bytes")
	errRange     = errors.New("value out of range")
	errVersion   = errors.New("unknown version")
	errChange    = errors.New("unknown change")
)

// coder walks over fields in one direction: it appends them to b, or takes them from b's front. The
// first error sticks; what is read after it stays zero.
type coder struct {
	b       []byte
	reading bool
	// feed: what must not reach the change feed is left out.
	feed bool
	from byte // the version that is read
	err  error
}

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.b = nil
}

// take gives the next n bytes, which stay part of the input.
func (c *coder) take(n int) []byte {
	if n > len(c.b) {
		c.fail(errTruncated)
		return nil
	}
	t := c.b[:n]
	c.b = c.b[n:]
	return t
}

func (c *coder) uint(p *uint64) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, *p)
		return
	}
	v, n := binary.Uvarint(c.b)
	switch {
	case n > 0:
		c.b = c.b[n:]
		*p = v
	case n == 0:
		c.fail(errTruncated)
	default:
		c.fail(errRange)
	}
}

// integer carries any signed integer.
func integer[T ~int32 | ~int64](c *coder, p *T) {
	if !c.reading {
		c.b = binary.AppendVarint(c.b, int64(*p))
		return
	}
	v, n := binary.Varint(c.b)
	switch {
	case n == 0:
		c.fail(errTruncated)
	case n < 0 || int64(T(v)) != v:
		c.fail(errRange)
	default:
		c.b = c.b[n:]
		*p = T(v)
	}
}

// word carries one of a small set of named values; that it is one of them is checked by the reader's
// methods on it, since a later version may know more.
func word[T ~uint8](c *coder, p *T) {
	if !c.reading {
		c.b = append(c.b, byte(*p))
		return
	}
	if t := c.take(1); t != nil {
		*p = T(t[0])
	}
}

func (c *coder) bool(p *bool) {
	var v byte
	if *p {
		v = 1
	}
	word(c, &v)
	switch {
	case !c.reading: // What is written belongs to the caller, and others may read it.
	case v > 1:
		c.fail(errRange)
	default:
		*p = v == 1
	}
}

func (c *coder) float(p *float64) {
	if !c.reading {
		c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(*p))
		return
	}
	if t := c.take(8); t != nil {
		*p = math.Float64frombits(binary.LittleEndian.Uint64(t))
	}
}

// count carries the number of elements that follow, each of which takes at least size bytes: so no
// count makes the reader allocate what the input cannot hold.
func (c *coder) count(n, size int) int {
	v := uint64(n)
	c.uint(&v)
	if c.reading && v > uint64(len(c.b)/size) {
		c.fail(errTruncated)
		return 0
	}
	if c.err != nil {
		return 0
	}
	return int(v)
}

func (c *coder) string(p *string) {
	n := c.count(len(*p), 1)
	if c.reading {
		*p = string(c.take(n))
		return
	}
	c.b = append(c.b, *p...)
}

func (c *coder) bytes(p *[]byte) {
	n := c.count(len(*p), 1)
	if !c.reading {
		c.b = append(c.b, *p...)
		return
	}
	*p = nil
	if n > 0 {
		*p = slices.Clone(c.take(n))
	}
}

// id takes one byte for the zero ID, which is common, and 17 for the others.
func (c *coder) id(p *job.ID) {
	set := !p.IsZero()
	c.bool(&set)
	if !set {
		return
	}
	if !c.reading {
		c.b = append(c.b, p[:]...)
		return
	}
	copy(p[:], c.take(len(p)))
}

// token is a secret: the feed does not carry it.
func (c *coder) token(p *job.Token) {
	if !c.feed {
		c.id((*job.ID)(p))
	}
}

// payload is opaque and may be secret: the feed does not carry it.
func (c *coder) payload(p *[]byte) {
	if !c.feed {
		c.bytes(p)
	}
}

// list carries the elements in order; each of them takes at least size bytes.
func list[T any](c *coder, p *[]T, size int, each func(*coder, *T)) {
	n := c.count(len(*p), size)
	if c.reading {
		*p = nil
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		if c.err != nil {
			return
		}
		each(c, &(*p)[i])
	}
}

func (c *coder) strings(p *[]string) { list(c, p, 1, (*coder).string) }

// table carries a map, sorted by key so that equal maps give equal bytes.
func table[V any](c *coder, p *map[string]V, each func(*coder, *V)) {
	n := c.count(len(*p), 2)
	if !c.reading {
		for _, k := range slices.Sorted(maps.Keys(*p)) {
			v := (*p)[k]
			c.string(&k)
			each(c, &v)
		}
		return
	}
	*p = nil
	if n == 0 {
		return
	}
	m := make(map[string]V, n)
	for i := 0; i < n && c.err == nil; i++ {
		var k string
		var v V
		c.string(&k)
		each(c, &v)
		m[k] = v
	}
	*p = m
}

// pointer carries whether there is a value, and the value.
func pointer[T any](c *coder, p **T, each func(*coder, *T)) {
	set := *p != nil
	c.bool(&set)
	if !set {
		return
	}
	if c.reading {
		*p = new(T)
	}
	each(c, *p)
}
