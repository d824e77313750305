package main

import (
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

// rates gives the median and the range of repeated rates.
func rates(list []float64) (median float64, text string) {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	median = sorted[len(sorted)/2]
	return median, fmt.Sprintf("%.0f/s (%.0f to %.0f)", median, sorted[0], sorted[len(sorted)-1])
}

// calibrate measures the disk: an append with fsync.
func calibrate(dir string) (sample, error) {
	f, err := os.Create(filepath.Join(dir, "calibration"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s sample
	block := make([]byte, 4096)
	for range 300 {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		s = append(s, time.Since(began))
	}
	return s, nil
}
