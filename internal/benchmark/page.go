package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// figure is one line of the results.
type figure struct {
	what  string
	value string
	bar   string // what is asked for; empty: nothing
	met   bool
}

// section is a table of the results.
type section struct {
	title         string
	note          string
	rows          []figure
	before, after calibration
}

func (s *section) add(what, value string) { s.rows = append(s.rows, figure{what: what, value: value}) }

func (s *section) judge(what, value, bar string, met bool) {
	s.rows = append(s.rows, figure{what, value, bar, met})
}

func heading() string {
	return fmt.Sprintf("# Figures\n\nWritten by `make bench`. %s, %d cores, %s, %.0f GiB of memory, %s.\n",
		runtime.GOARCH, runtime.NumCPU(), processor(), memory(), runtime.Version()) +
		"Rates and times are medians, with their range. Under each table stands how noisy the machine was just before and just after it.\n"
}

func (s *section) text() string {
	var w strings.Builder
	fmt.Fprintf(&w, "\n## %s\n\n", s.title)
	if s.note != "" {
		fmt.Fprintf(&w, "%s\n\n", s.note)
	}
	fmt.Fprintf(&w, "| what | measured | bar |\n|---|---|---|\n")
	for _, r := range s.rows {
		bar := r.bar
		switch {
		case bar == "":
		case r.met:
			bar += ": met"
		default:
			bar += ": **missed**"
		}
		fmt.Fprintf(&w, "| %s | %s | %s |\n", r.what, r.value, bar)
	}
	fmt.Fprintf(&w, "\nNoise: %s before, %s after.\n", s.before, s.after)
	return w.String()
}

// processor names the processor as Linux does.
func processor() string {
	if name := fieldOf("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	return runtime.GOOS
}

// memory gives the machine's memory in GiB, as Linux tells it; 0: not known.
func memory() (gib float64) {
	var kib float64
	if _, err := fmt.Sscanf(fieldOf("/proc/meminfo", "MemTotal"), "%f kB", &kib); err != nil {
		return 0 // not Linux
	}
	return kib / (1 << 20)
}

func fieldOf(path, field string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
