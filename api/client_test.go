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
	do    func(n int) (string, error)
}

// RoundTrip implements http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.calls++
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
