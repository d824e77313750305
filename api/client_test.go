package api

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// line is a network that does with the n-th call what is said of it.
type line struct {
	calls int
	last  *http.Request
	do    func(n int) (string, error)
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.calls++
	l.last = r
	text, err := l.do(l.calls)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: r, Header: http.Header{}}, nil
}

// What a call was held before its server died is no time for which the server could not be reached.
func TestClientIsPatientFromTheFirstFailureOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := NewClient("http://farm", "")
		if err != nil {
			t.Fatal(err)
		}
		l := &line{do: func(n int) (string, error) {
			switch {
			case n == 1:
				time.Sleep(40 * time.Second) // It is held.
				return "", io.ErrUnexpectedEOF
			case n < 5:
				return "", errors.New("connection refused")
			}
			return `{"ended": "2026-01-01T00:00:00Z"}`, nil
		}}
		c.HTTP.Transport = l
		if b, err := c.AwaitBuild(t.Context(), job.ID{1}); err != nil || b.Ended == nil {
			t.Errorf("told %+v, %v after %d calls", b, err, l.calls)
		}
		began := time.Now()
		l.do = func(int) (string, error) { return "", errors.New("connection refused") }
		var retry *queue.RetryError
		if _, err := c.AwaitBuild(t.Context(), job.ID{1}); !errors.As(err, &retry) {
			t.Errorf("told %v by a server that is gone", err)
		}
		if took := time.Since(began); took > DefaultPatience || took < DefaultPatience/2 {
			t.Errorf("it tried for %v", took)
		}
	})
}

// A server that stands still is one that does not answer, whatever it was asked; one that holds an answer, as it was asked to, is not.
func TestClientGivesUpOnAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := NewClient("http://farm", "")
		if err != nil {
			t.Fatal(err)
		}
		for name, ask := range map[string]func() error{
			"show":   func() error { _, err := c.Build(t.Context(), job.ID{1}); return err },
			"cancel": func() error { return c.CancelBuild(t.Context(), job.ID{1}, false) },
			"await":  func() error { _, err := c.AwaitBuild(t.Context(), job.ID{1}); return err },
			"log":    func() error { _, _, err := c.Log(t.Context(), job.ID{1}, LogOptions{Follow: true}); return err },
			"submit": func() error { _, err := c.Submit(t.Context(), &Submission{}); return err },
		} {
			c.HTTP.Transport = still{}
			began := time.Now()
			var retry *queue.RetryError
			if err := ask(); !errors.As(err, &retry) || !strings.Contains(err.Error(), "it does not answer") {
				t.Errorf("%s: told %v", name, err)
			}
			took := time.Since(began)
			most := 2*answerWithin + DefaultPatience
			switch name {
			case "await":
				most += 2 * waitAtOnce
			case "submit":
				most += 2 * submitWithin
			}
			if took < answerWithin || took > most {
				t.Errorf("%s: given up after %v, want %v at most", name, took, most)
			}
		}
		// What comes late of an answer that has begun is waited for.
		l := &line{do: func(int) (string, error) { return "", nil }}
		c.HTTP.Transport = l
		slow, _, err := c.Log(t.Context(), job.ID{1}, LogOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := l.last.Context().Err(); err != nil {
			t.Errorf("a request whose answer had begun was ended: %v", err)
		}
		if err := slow.Close(); err != nil || l.last.Context().Err() == nil {
			t.Errorf("closed: %v; its request goes on: %v", err, l.last.Context().Err() == nil)
		}
	})
}

// still is a network behind which somebody takes calls, and does nothing.
type still struct{}

// RoundTrip implements http.RoundTripper.
func (still) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		go func() { _, _ = io.Copy(io.Discard, r.Body); _ = r.Body.Close() }() // As a network would.
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}
