package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
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
	title string
	note  string
	rows  []figure
}

// measurement makes a section.
type measurement struct {
	name string
	run  func(ctx context.Context, o options) (section, error)
}

var measurements = []measurement{
	{"lifecycles", lifecycles},
	{"memory", memoryPerJob},
	{"decision", decisions},
}

// options are the flags.
type options struct {
	dir     string        // for stores
	window  time.Duration // of each rate
	rounds  int           // repetitions, of which the median is given
	callers []int         // numbers of callers of a rate
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := flag.String("o", filepath.Join("bench", "RESULTS.md"), "file to write the results to")
	only := flag.String("only", "", "names of measurements, separated by commas; empty: all")
	o := options{}
	flag.DurationVar(&o.window, "window", 3*time.Second, "how long each rate is measured")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is repeated")
	o.callers = []int{1, 8, 64, 512}
	flag.Func("callers", "a number of callers, instead of 1, 8, 64 and 512", func(s string) error {
		n, err := strconv.Atoi(s)
		o.callers = []int{n}
		return err
	})
	profile := flag.String("cpuprofile", "", "file to write a processor profile to")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	dir, err := os.MkdirTemp("", "headrace-benchmark-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir

	var page bytes.Buffer
	fmt.Fprintf(&page, "# Figures\n\nWritten by `make bench`. %s, %d cores, %s, %s.\n", runtime.GOARCH, runtime.NumCPU(), processor(), runtime.Version())
	sync, err := calibrate(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(&page, "One 4 KiB append with fsync on this disk: %s median, %s at the 99th percentile.\n", round(sync.at(0.5)), round(sync.at(0.99)))
	for _, m := range measurements {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), m.name) {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", m.name)
		s, err := m.run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		s.print(&page)
	}
	if _, err := os.Stdout.Write(page.Bytes()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(*out, page.Bytes(), 0o644)
}

func (s *section) print(w *bytes.Buffer) {
	fmt.Fprintf(w, "\n## %s\n\n", s.title)
	if s.note != "" {
		fmt.Fprintf(w, "%s\n\n", s.note)
	}
	fmt.Fprintf(w, "| what | measured | bar |\n|---|---|---|\n")
	for _, r := range s.rows {
		bar := r.bar
		switch {
		case bar == "":
		case r.met:
			bar += ": met"
		default:
			bar += ": **missed**"
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", r.what, r.value, bar)
	}
}

// processor names the processor as Linux does.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOOS
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOOS
}
