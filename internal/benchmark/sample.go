package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// sample is a number of durations.
type sample []time.Duration

// at gives the quantile q, from 0 to 1.
func (s sample) at(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// tails tells the median and the 99th percentile.
func (s sample) tails() string { return round(s.at(0.5)) + " median, " + round(s.at(0.99)) + " p99" }

// span tells the median and the range.
func (s sample) span() string {
	return fmt.Sprintf("%s (%s to %s)", round(s.at(0.5)), round(slices.Min(s)), round(slices.Max(s)))
}

func round(d time.Duration) string {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond).String()
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Nanosecond).String()
	}
}

// rates are repeated ones.
type rates []float64

func (r rates) median() float64 {
	sorted := slices.Clone(r)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

func (r rates) text() string {
	return fmt.Sprintf("%.0f/s (%.0f to %.0f)", r.median(), slices.Min(r), slices.Max(r))
}

// calibration is how fast the machine is at this moment at what does not depend on what is measured.
type calibration struct {
	sync  sample // appends of 4 KiB with fsync
	think sample // hashes of 1 MiB
}

func (c calibration) String() string {
	return fmt.Sprintf("an append of 4 KiB with fsync took %s, a SHA-256 of 1 MiB %s", c.sync.tails(), c.think.tails())
}

// calibrate measures the disk and the processor.
func calibrate(dir string) (c calibration, err error) {
	f, err := os.Create(filepath.Join(dir, "calibration"))
	if err != nil {
		return c, err
	}
	defer f.Close()
	block := make([]byte, 4096)
	for range 300 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return c, err
		}
		if err := f.Sync(); err != nil {
			return c, err
		}
		c.sync = append(c.sync, time.Since(began))
	}
	large := make([]byte, 1<<20)
	for range 50 {
		began := time.Now()
		sha256.Sum256(large)
		c.think = append(c.think, time.Since(began))
	}
	return c, nil
}
