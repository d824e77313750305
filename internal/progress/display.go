package progress

import (
	"context"
	"io"
	"sync"
	"time"
)

// Display shows a run.
type Display interface {
	// Event shows what happened; one goroutine calls it, and it may wait for a slow reader.
	Event(e Event)
	// Line tells of a line of output of the job of that index. It never blocks, and any goroutine may call it.
	Line(index int, text []byte)
	// Run keeps the display up to date until ctx ends, then leaves everything in order. Events that come
	// after that are shown plainly.
	Run(ctx context.Context)
}

// Output is where a display writes. It keeps the first error, for nobody can be told of it where it happens.
type Output struct {
	w      io.Writer
	mu     sync.Mutex
	err    error
	failed chan struct{}
}

// NewOutput gives an Output on w.
func NewOutput(w io.Writer) *Output { return &Output{w: w, failed: make(chan struct{})} }

// Failed is closed once a write has failed.
func (o *Output) Failed() <-chan struct{} { return o.failed }

// Err gives the first error.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Write drops what comes after an error, and never reports one: see Failed.
func (o *Output) Write(p []byte) (int, error) {
	if o.Err() != nil {
		return len(p), nil
	}
	if _, err := o.w.Write(p); err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
			close(o.failed)
		}
	}
	return len(p), nil
}

// JSON shows a run to a program: one event a line.
type JSON struct{ out *Output }

// NewJSON gives a JSON display.
func NewJSON(out *Output) *JSON { return &JSON{out} }

// Event implements Display.
func (j *JSON) Event(e Event) {
	line, err := marshal(e, time.Now())
	if err != nil {
		// Events are strings and numbers: only a fault of this program can bring us here.
		panic(err)
	}
	_, _ = j.out.Write(line) // Output keeps the error.
}

// Line implements Display: programs find the output in the logs.
func (j *JSON) Line(int, []byte) {}

// Run implements Display.
func (j *JSON) Run(ctx context.Context) { <-ctx.Done() }
