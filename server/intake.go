package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
)

// readDocument reads a submission as one document, job by job.
func readDocument(from io.Reader, in *api.Submission) error {
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	if err := opens(d, '{', "body"); err != nil {
		return err
	}
	rest := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return misread(err, "body")
		}
		key, _ := name.(string)
		if key == "jobs" {
			if err := readJobs(d, in); err != nil {
				return err
			}
			continue
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return misread(err, "body."+clip(key))
		}
		rest[key] = v
	}
	if _, err := d.Token(); err != nil {
		return misread(err, "body")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Invalid("body", "want one JSON object and nothing after it")
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return misread(err, "body")
	}
	b := json.NewDecoder(strings.NewReader(string(text)))
	b.DisallowUnknownFields()
	if err := b.Decode(&in.BuildSpec); err != nil {
		return misread(err, "body")
	}
	return nil
}

func opens(d *json.Decoder, want json.Delim, at string) error {
	t, err := d.Token()
	if err != nil {
		return misread(err, at)
	}
	if t != want {
		kind := "an object"
		if want == '[' {
			kind = "a list"
		}
		return api.Invalid(at, "want "+kind)
	}
	return nil
}

func readJobs(d *json.Decoder, in *api.Submission) error {
	if in.Jobs != nil {
		return api.Invalid("body.jobs", "is there twice")
	}
	if err := opens(d, '[', "body.jobs"); err != nil {
		return err
	}
	in.Jobs = []api.JobSpec{}
	for d.More() {
		if err := readJob(d, in); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return misread(err, "body.jobs")
	}
	return nil
}

// errNull says that there is nothing where a job is wanted.
var errNull = errors.New("want an object, got null")

func readJob(d *json.Decoder, in *api.Submission) error {
	n := len(in.Jobs)
	if n == maxSubmissionJobs {
		return tooManyJobs()
	}
	if n == cap(in.Jobs) {
		// By half as much again: append would copy a large submission twice as often.
		in.Jobs = slices.Grow(in.Jobs, max(n/2, 64))
	}
	// In its place: a job as it is asked for has half a kilobyte.
	in.Jobs = in.Jobs[:n+1]
	in.Jobs[n] = api.JobSpec{}
	into := &in.Jobs[n]
	err := d.Decode(&into)
	if err == nil && into != nil {
		return nil
	}
	in.Jobs = in.Jobs[:n]
	if err == nil {
		err = errNull
	}
	return misread(err, placeOf(n))
}

// errGoesOn says that a value does not end in the line in which it begins.
var errGoesOn = errors.New("goes on in the next line, want one line")

// readLines reads a submission as lines of JSON: the build, then its jobs. Decoding is most of the work, so that several portions of a large
// one are decoded at once.
func readLines(from io.Reader, in *api.Submission) error {
	lines := &lineReader{from: from}
	const usual = 4 << 10 // most have a few jobs
	first := lines.next(usual)
	d := json.NewDecoder(bytes.NewReader(first.text))
	d.DisallowUnknownFields()
	err := d.Decode(&in.BuildSpec)
	skipped := d.InputOffset()
	switch {
	case err == nil && bytes.IndexByte(bytes.TrimLeft(first.text[:skipped], " \t\r\n"), '\n') >= 0:
		err = errGoesOn
	case err != nil:
		err = first.cut(err, 0)
	}
	if err != nil {
		return misread(err, "body")
	}
	first.text, first.at = first.text[skipped:], first.at+skipped
	first.decode()
	whole, n, err := lines.decodeAll(first)
	if err != nil || n == 0 {
		return err
	}
	if in.Jobs = whole[0].jobs; len(whole) > 1 {
		// At once, as there are many, and each has half a kilobyte.
		in.Jobs = make([]api.JobSpec, 0, n)
		for _, p := range whole {
			in.Jobs = append(in.Jobs, p.jobs...)
		}
	}
	return nil
}

// decodeAll decodes the rest of the lines, after a first portion that is decoded, and counts the jobs.
func (l *lineReader) decodeAll(first *portion) (whole []*portion, jobs int, err error) {
	under := []*portion{first} // in order
	defer func() {
		for _, p := range under {
			<-p.done
		}
	}()
	for p := first; ; {
		for len(under) > runtime.GOMAXPROCS(0) || p.end != nil && len(under) > 0 {
			next := under[0]
			<-next.done
			under = under[1:]
			if jobs += len(next.jobs); jobs > maxSubmissionJobs {
				return nil, 0, tooManyJobs()
			}
			if next.err != nil {
				return nil, 0, misread(next.err, placeOf(jobs))
			}
			whole = append(whole, next)
		}
		if p.end != nil {
			return whole, jobs, nil
		}
		p = l.next(portionSize)
		under = append(under, p)
		go p.decode()
	}
}

// portionSize is about how many bytes of a large submission are decoded at once.
const portionSize = 256 << 10

// usualJob is about how many bytes a short job has, as it is asked for.
const usualJob = 64

// lineReader cuts a body into portions of whole lines.
type lineReader struct {
	from io.Reader
	rest []byte // of what was read
	at   int64  // where that is in the body
}

// next gives about as many bytes as are wanted, and at least one line.
func (l *lineReader) next(size int) *portion {
	text := append(make([]byte, 0, max(size, 2*len(l.rest))), l.rest...)
	p := &portion{at: l.at, done: make(chan struct{})}
	for p.end == nil {
		if len(text) == cap(text) {
			if at := bytes.LastIndexByte(text, '\n'); at >= 0 {
				l.rest, text = text[at+1:], text[:at+1]
				break
			}
			text = slices.Grow(text, len(text)) // One line can be very long.
		}
		var n int
		n, p.end = l.from.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
	}
	l.at += int64(len(text))
	p.text = text
	return p
}

// portion is some lines of a body, with the jobs that they are.
type portion struct {
	text []byte
	at   int64 // where it begins in the body
	end  error // after it: io.EOF or another; nil: there is more
	jobs []api.JobSpec
	err  error         // of the job that comes after these
	done chan struct{} // closed when jobs and err are set
}

// decode makes the jobs.
func (p *portion) decode() {
	defer close(p.done)
	d := json.NewDecoder(bytes.NewReader(p.text))
	d.DisallowUnknownFields()
	if lines := bytes.Count(p.text, []byte{'\n'}); lines > 1 {
		p.jobs = make([]api.JobSpec, 0, min(lines, len(p.text)/usualJob)) // about as many
	}
	for p.err == nil && d.More() {
		n, from := len(p.jobs), d.InputOffset()
		p.jobs = append(p.jobs, api.JobSpec{})
		into := &p.jobs[n] // In its place: a job as it is asked for has half a kilobyte.
		switch err := d.Decode(&into); {
		case err != nil:
			p.err = p.cut(err, from)
		case into == nil:
			p.err = errNull
		case bytes.IndexByte(p.text[from:d.InputOffset()], '\n') >= 0:
			p.err = errGoesOn
		}
		if p.err != nil {
			p.jobs = p.jobs[:n]
		}
	}
	if p.err != nil {
		return
	}
	from := d.InputOffset()
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // There is what begins no value.
		p.err = p.cut(err, from)
	} else if p.end != nil && !errors.Is(p.end, io.EOF) {
		p.err = p.end
	}
}

// cut says what is wrong with the value that begins there, of which the rest may be missing.
func (p *portion) cut(err error, from int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		until := min(max(syntax.Offset, from), int64(len(p.text)))
		if bytes.IndexByte(bytes.TrimLeft(p.text[from:until], " \t\r\n"), '\n') >= 0 {
			return errGoesOn
		}
		placed := *syntax
		placed.Offset += p.at
		return &placed
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return err
	case p.end == nil:
		return errGoesOn
	case errors.Is(p.end, io.EOF):
		return err
	}
	return p.end
}

func tooManyJobs() error {
	return api.Invalid(placeOf(maxSubmissionJobs), fmt.Sprintf("want at most %d jobs", maxSubmissionJobs))
}

// paced reads a body that may be large, but must not stand still, nor go on for ever.
type paced struct {
	c     *http.ResponseController
	from  io.Reader
	piece time.Duration // for the next piece
	end   time.Time
	over  bool // nothing more comes
}

func (s *Server) newPaced(w http.ResponseWriter, from io.Reader, patience time.Duration) *paced {
	return &paced{
		c: http.NewResponseController(w), from: from, piece: s.BodyPatience, end: time.Now().Add(patience),
	}
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	at := time.Now().Add(p.piece)
	if at.After(p.end) {
		at = p.end
	}
	_ = p.c.SetReadDeadline(at) // A server that cannot has none.
	n, err := p.from.Read(b)
	p.over = err != nil
	return n, err
}

// drain reads what is left of a body that is refused, within bounds: many clients read no answer before they have sent all.
func (p *paced) drain() {
	if p.over {
		return
	}
	const patience, most = 5 * time.Second, 64 << 20
	_ = p.c.SetReadDeadline(time.Now().Add(patience)) // A server that cannot has none.
	_, _ = io.CopyN(io.Discard, p.from, most)         // What is not read in time is not waited for.
}

// done takes the deadline away once the body has come: it would end the request while that is answered.
func (p *paced) done() { _ = p.c.SetReadDeadline(time.Time{}) }
