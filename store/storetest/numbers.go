package storetest

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/queue"
)

func testNumbers(t *testing.T, open func(t testing.TB) Reopener) {
	ctx := t.Context()
	place := open(t)
	s := place.Open(t)
	for _, n := range []uint64{0, 2} {
		if err := s.Commit(ctx, &queue.Batch{Number: n, At: start}); !errors.Is(err, queue.ErrNumber) {
			t.Errorf("first batch with number %d: %v, want ErrNumber", n, err)
		}
	}
	for n := uint64(1); n <= 3; n++ {
		if err := s.Commit(ctx, &queue.Batch{Number: n, At: start}); err != nil {
			t.Fatalf("batch %d: %v", n, err)
		}
		for _, again := range []uint64{n, n + 2} {
			if err := s.Commit(ctx, &queue.Batch{Number: again, At: start}); !errors.Is(err, queue.ErrNumber) {
				t.Errorf("batch %d after %d: %v, want ErrNumber", again, n, err)
			}
		}
		s = place.Open(t)
		for look := uint64(0); look <= n+1; look++ {
			got, err := s.Committed(ctx, look)
			if want := look <= n; got != want || err != nil {
				t.Errorf("Committed(%d) after %d = %v, %v; want %v", look, n, got, err, want)
			}
		}
	}
}
