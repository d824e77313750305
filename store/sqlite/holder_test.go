package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/store/sqlite"
)

func TestHolderTellsWhoOwnedTheFileLast(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	if h, err := sqlite.Holder(path); h != nil || err != nil {
		t.Fatalf("before anybody did: %v, %v", h, err)
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"open", "closed"} {
		h, err := sqlite.Holder(path)
		if err != nil || h == nil || h.PID != os.Getpid() || h.Host == "" || h.Since.IsZero() {
			t.Errorf("%s: %+v, %v; want process %d", when, h, err, os.Getpid())
		}
		if when == "open" {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
