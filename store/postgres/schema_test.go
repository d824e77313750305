package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/store/postgres"
)

// What is not ours to change is refused, says why, and stays as it is.
func TestDatabaseThatIsNotForThisHeadrace(t *testing.T) {
	t.Parallel()
	newer, empty := database(t), ""
	run(t, newer, "UPDATE headrace.version SET version = 99")
	foreign, err := pgtest.Shared(t).Create(t.Context())
	if err == nil {
		empty, err = pgtest.Shared(t).Create(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, foreign, "CREATE SCHEMA headrace CREATE TABLE others (n integer)")
	for _, c := range []struct{ address, want string }{
		{newer, "version 99 and this headrace knows no version after"},
		{foreign, "not a store of headrace"},
	} {
		if s, err := postgres.Open(t.Context(), c.address, postgres.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open: %v, %v; want %q", s, err, c.want)
		}
		if r, err := postgres.OpenReadOnly(t.Context(), c.address); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("OpenReadOnly: %v, %v; want %q", r, err, c.want)
		}
	}
	if n := run(t, newer, "UPDATE headrace.version SET version = 99 WHERE version = 99"); n != 1 {
		t.Error("the newer store was changed")
	}
	if n := run(t, foreign, "SELECT FROM pg_tables WHERE schemaname = 'headrace'"); n != 1 {
		t.Error("the foreign schema was changed")
	}
	if _, err := postgres.OpenReadOnly(t.Context(), empty); !errors.Is(err, postgres.ErrNoStore) {
		t.Errorf("to read where there is no store: %v, want ErrNoStore", err)
	}
}
