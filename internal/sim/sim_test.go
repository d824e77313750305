package sim

import (
	"bytes"
	"flag"
	"sync"
	"testing"
	"testing/synctest"
)

var (
	seeds = flag.Uint64("seeds", usual, "how many seeds to run")
	first = flag.Uint64("first", 1, "the first seed")
	// The default is a compromise: long enough that everything meets, short enough to read.
	steps = flag.Int("steps", 200, "how many steps to take in each")
)

// enough seeds from the first on for everything to happen in some. Elsewhere as many may miss what happens seldom.
const enough = 300

// run plays one seed in a bubble of its own.
func run(t *testing.T, seed uint64) (res Result) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		if res, err = Run(seed, *steps, synctest.Wait); err != nil {
			t.Error(err)
		}
	})
	return res
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{}
	t.Run("all", func(t *testing.T) {
		for half := range uint64(2) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := *first + half; seed < *first+*seeds && !t.Failed(); seed += 2 {
					res := run(t, seed)
					mu.Lock()
					for k, n := range res.Seen {
						seen[k] += n
					}
					mu.Unlock()
					if again := seed%10 == 0; again && !t.Failed() && !bytes.Equal(run(t, seed).Feed, res.Feed) {
						t.Errorf("seed %d: two runs left different histories", seed)
					}
				}
			})
		}
	})
	if *first == 1 && *seeds >= enough && !t.Failed() {
		for _, k := range covered {
			if seen[k] == 0 {
				t.Errorf("no seed of %d made %q happen", *seeds, k)
			}
		}
	}
	if testing.Verbose() {
		t.Log(seen)
	}
}
