package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMain has the test program be a server, where it starts itself as one.
func TestMain(m *testing.M) {
	if text := os.Getenv(serverVariable); text != "" {
		if err := serve(context.Background(), text); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// small is a lab that measures next to nothing, with all that belongs to it closed after the test.
func small(t *testing.T) *lab {
	t.Helper()
	l := &lab{
		sizes: quick, dir: t.TempDir(), kinds: []kind{onSQLite, onPostgres},
		graph: filepath.Join("..", "..", "bench", "data", "debian-bookworm-build-graph.tsv.gz"), river: filepath.Join("..", "..", "bench", "river"),
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// What each measured is left to `make bench`: here it must only have run to its end, and found what it expects.
func TestEachMeasurementRuns(t *testing.T) {
	t.Parallel()
	l := small(t)
	for _, m := range measurements {
		s, err := m.run(t.Context(), l)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if s.title == "" || len(s.rows) == 0 {
			t.Errorf("%s gives no table", m.name)
		}
		for _, r := range s.rows {
			if r.what == "" || r.value == "" {
				t.Errorf("%s: a line says nothing: %+v", m.name, r)
			}
		}
	}
}

// lattice is a graph whose bound can be told by hand: 0 before 1 and 2, which are before 3.
var lattice = []task{{took: 10}, {took: 20, needs: []int{0}}, {took: 30, needs: []int{0}}, {took: 5, needs: []int{1, 2}}}

func times(tasks []task) []time.Duration {
	var list []time.Duration
	for _, t := range tasks {
		list = append(list, t.took)
	}
	return list
}

func TestDescendantsAreCountedOnce(t *testing.T) {
	t.Parallel()
	got := descendants(lattice, times(lattice))
	for i, want := range []time.Duration{55, 5, 5, 0} {
		if got[i] != want {
			t.Errorf("the work after %d is %d, want %d", i, got[i], want)
		}
	}
	// More than one block of them.
	chain := make([]task, 5000)
	for i := range chain {
		if chain[i].took = 1; i > 0 {
			chain[i].needs = []int{i - 1}
		}
	}
	for i, got := range descendants(chain, times(chain)) {
		if want := time.Duration(len(chain) - 1 - i); got != want {
			t.Fatalf("the work after %d of the chain is %d, want %d", i, got, want)
		}
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	for slots, want := range map[int]time.Duration{1: 65, 2: 45, 100: 45} {
		if got := bound(lattice, times(lattice), slots); got != want {
			t.Errorf("the bound with %d slots is %d, want %d", slots, got, want)
		}
	}
}

func TestMakespanMeetsBoundWhereOneScheduleIsBest(t *testing.T) {
	t.Parallel()
	scaled := make([]task, len(lattice))
	for i, v := range lattice {
		scaled[i] = task{took: v.took * time.Second, needs: v.needs}
	}
	for slots, want := range map[int]time.Duration{1: 65 * time.Second, 2: 45 * time.Second} {
		for _, o := range []order{firstCome, byWeight, byPath} {
			got, err := makespan(scaled, times(scaled), times(scaled), slots, o)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s with %d slots takes %s, want %s", o, slots, got, want)
			}
		}
	}
}

func TestReadTaskRefusesWhatIsNoTask(t *testing.T) {
	t.Parallel()
	if got, err := readTask("a\t200000\t1024\t0 1", 2); err != nil || got.took != 32*time.Second || len(got.needs) != 2 {
		t.Errorf("readTask gives %+v, %v", got, err)
	}
	for _, line := range []string{"", "a\t1\t1", "a\tx\t1\t", "a\t1\t\t", "a\t1\t1\t2", "a\t1\t1\t-1", "a\t1\t1\tb"} {
		if got, err := readTask(line, 2); err == nil {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}

func TestQuantilesAndMedians(t *testing.T) {
	t.Parallel()
	s := sample{5, 1, 4, 2, 3}
	if s.at(0.5) != 3 || s.at(0.99) != 5 || s.at(0) != 1 {
		t.Errorf("quantiles of %v: %d, %d, %d", s, s.at(0), s.at(0.5), s.at(0.99))
	}
	if m := (rates{3, 1, 2}).median(); m != 2 {
		t.Errorf("the median is %v", m)
	}
}
