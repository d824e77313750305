package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/queue"
)

// sink takes one log, as a server does, and fails as one may.
type sink struct {
	mu    sync.Mutex
	have  []byte
	calls int
	// whim is asked before a call is answered: it may lose what is there, or have the call fail after all was taken.
	whim func(s *sink) (fail bool)
}

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	chunk, err := io.ReadAll(r.Body)
	offset, nerr := strconv.Atoi(r.URL.Query().Get("offset"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	fail := s.whim != nil && s.whim(s)
	gap := offset > len(s.have)
	if n := len(s.have) - offset; !gap && n < len(chunk) {
		s.have = append(s.have, chunk[n:]...)
	}
	size := int64(len(s.have))
	var problem *api.Problem
	switch {
	case err != nil || nerr != nil:
		problem = api.Plain(http.StatusBadRequest, "no")
	case gap:
		problem = api.ProblemOf(api.ErrMismatch)
		problem.Size = &size
	case fail:
		problem = api.ProblemOf(&queue.RetryError{Cause: io.ErrUnexpectedEOF})
	}
	if problem != nil {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(problem.Status)
		_ = json.NewEncoder(w).Encode(problem) // Whoever is gone asks again.
		return
	}
	_ = json.NewEncoder(w).Encode(api.LogSize{Size: size}) // As above.
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.have)
}

// dock ships one log to a sink.
func dock(t *testing.T, s *sink) (*Shipper, *shipment, *LogWriter) {
	t.Helper()
	web := httptest.NewServer(s)
	home := openHome(t, t.TempDir())
	client := caller(t, web.URL)
	ship := &Shipper{Client: client, Home: home}
	ctx, cancel := context.WithCancel(context.Background())
	ship.init()
	var run sync.WaitGroup
	run.Go(func() { ship.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		run.Wait()
		client.HTTP.CloseIdleConnections()
		web.Close()
		shut(t, home)
	})
	l := lease(t)
	if err := os.MkdirAll(filepath.Dir(home.logOf(l)), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := CreateLog(home.logOf(l))
	if err != nil {
		t.Fatal(err)
	}
	return ship, ship.begin(ctx, l), w
}

func arrives(t *testing.T, sh *shipment) {
	t.Helper()
	select {
	case <-sh.done:
	case <-time.After(time.Minute):
		t.Fatal("the log does not arrive")
	}
}

// Whatever the server forgets, and whichever answers are lost, the log arrives whole, each byte once.
func TestShipperHealsWhatTheServerForgets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rnd, other := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 5))
			s := &sink{whim: func(s *sink) bool {
				switch other.IntN(4) {
				case 0:
					s.have = s.have[:other.IntN(len(s.have)+1)] // its machine died: what was not synced is gone
				case 1:
					return true
				}
				return false
			}}
			_, sh, w := dock(t, s)
			var want strings.Builder
			for i := range 3000 {
				line := Line{Time: time.UnixMicro(int64(i)), Stream: Stdout, Text: []byte(strings.Repeat("x", rnd.IntN(900))), Partial: rnd.IntN(5) == 0}
				want.Write(line.Text)
				if !line.Partial {
					want.WriteByte('\n')
				}
				if err := w.Append(line); err != nil {
					t.Fatal(err)
				}
				if i%100 == 0 {
					if err := w.Flush(); err != nil {
						t.Fatal(err)
					}
					select {
					case sh.grew <- struct{}{}:
					default:
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			calls := s.calls
			s.mu.Unlock()
			close(sh.ended)
			arrives(t, sh)
			// What the whim took last may be missing at the end: nobody sends what was acknowledged and forgotten unless more comes.
			if got := s.text(); !strings.HasPrefix(want.String(), got) || len(got) == 0 {
				t.Errorf("the log differs: %d bytes of %d, after %d and %d calls", len(got), want.Len(), calls, s.calls)
			}
		})
	}
}

// While a log grows, the server is called at most five times a second; at the end at once.
func TestShipperGathers(t *testing.T) {
	t.Parallel()
	s := &sink{}
	ship, sh, w := dock(t, s)
	began := time.Now()
	a := &Attempt{}
	a.Lease = sh.lease
	for i := range 500 {
		if err := w.Append(Line{Stream: Stdout, Text: strconv.AppendInt(nil, int64(i), 10)}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		ship.Grew(a)
	}
	if err := w.Append(Line{Stream: Stdout, Text: []byte("half"), Partial: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(Line{Stream: Note, Text: []byte("no output for 5m0s")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	close(sh.ended)
	arrives(t, sh)
	// The first, one each shipEvery, one under way at the end, and the last.
	if most := int(time.Since(began)/shipEvery) + 3; s.calls > most {
		t.Errorf("%d calls, want at most %d", s.calls, most)
	}
	if got := s.text(); !strings.HasPrefix(got, "0\n1\n2\n") || !strings.HasSuffix(got, "\n499\nhalf\nheadrace: no output for 5m0s\n") {
		t.Errorf("the log: %.40q ... of %d bytes", got, len(got))
	}
	if left := journal(t, ship.Home); len(left) != 1 {
		t.Errorf("left %v; want the log, as its attempt has not been told", left)
	}
}
