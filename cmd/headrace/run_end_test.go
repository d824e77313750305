package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// The last line of a run promises what the next one will find, and no more.
func TestFateOfTheStore(t *testing.T) {
	t.Parallel()
	file := func(f sqlite.Fault) error {
		return fmt.Errorf("commit: %w", &sqlite.FileError{Path: "st/store.db", Fault: f, Err: errors.New("why")})
	}
	for _, c := range []struct {
		err  error
		want progress.StoreFate
	}{
		{nil, progress.StoreSound},
		{context.Canceled, progress.StoreSound},
		{queue.ErrClosed, progress.StoreSound},
		{fmt.Errorf("commit: %w", queue.ErrFenced), progress.StoreSound},
		{file(sqlite.Gone), progress.StoreLost},
		{file(sqlite.Damaged), progress.StoreLost},
		{file(sqlite.Full), progress.StoreFailed},
		{file(sqlite.Denied), progress.StoreFailed},
		{errors.New("disk I/O error"), progress.StoreFailed},
	} {
		if got := fateOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}
