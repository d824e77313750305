package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measurement makes a section.
type measurement struct {
	name string
	run  func(ctx context.Context, l *lab) (section, error)
}

var measurements = []measurement{
	{"lifecycles", lifecycles},
	{"enqueue", enqueues},
	{"drain", drains},
	{"river", rivers},
	{"idle", idle},
	{"memory", memoryPerJob},
	{"decision", decisions},
	{"ahead", ahead},
	{"recovery", recovery},
	{"people", people},
	{"makespan", makespans},
	{"held", held},
	{"past", past},
	{"composer", composers},
	{"server", servers},
}

// sizes are how much is measured.
type sizes struct {
	window       time.Duration // of each rate
	rounds       int           // repetitions, of which the median is given
	callers      []int         // of a rate
	slots        int           // of the worker that drains
	drain        int           // jobs
	rivers       map[kind]int  // jobs that are drained beside River
	riverSingles int           // jobs that River runs alone
	single       int           // jobs that are run alone
	chain        int           // jobs
	many         int           // jobs in memory
	decided      int           // leases in memory
	ahead        []int         // jobs that a worker cannot run
	leases       int           // of which the latency is told
	waiting      []int         // jobs in a store that is recovered
	bump, cancel int           // jobs, and builds
	tasks        int           // of the graph
	farm         []int         // slots
	held         time.Duration // how long others read
	past         int           // finished jobs
	door         doorSizes     // of composer's queue
	web          webSizes      // of the server
	hasty        bool          // the server need not sync
}

var full = sizes{
	window: 3 * time.Second, rounds: 3, callers: []int{1, 8, 64, 512},
	slots: 2000, drain: 100_000, rivers: map[kind]int{onSQLite: 20_000, onPostgres: 50_000}, riverSingles: 20,
	single: 1000, chain: 50, many: 1_000_000, decided: 20_000, ahead: []int{1000, 100_000, 1_000_000}, leases: 2000,
	waiting: []int{10_000, 100_000, 1_000_000}, bump: 100_000, cancel: 50_000,
	tasks: 100_000, farm: []int{16, 64, 256}, held: 2 * time.Minute, past: 10_000_000, door: fullDoor, web: fullWeb,
}

// quick sizes show that a measurement works, and nothing else.
var quick = sizes{
	window: 10 * time.Millisecond, rounds: 1, callers: []int{2},
	slots: 20, drain: 100, rivers: map[kind]int{onSQLite: 50, onPostgres: 50}, riverSingles: 1,
	single: 3, chain: 5, many: 1000, decided: 20, ahead: []int{100, 200}, leases: 60,
	waiting: []int{100}, bump: 2100, cancel: 70, tasks: 300, farm: []int{4, 16}, held: time.Millisecond, past: 20_000, door: quickDoor, web: quickWeb, hasty: true,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := error(nil)
	if text := os.Getenv(serverVariable); text != "" {
		err = serve(ctx, text)
	} else {
		err = run(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	l := &lab{sizes: full, kinds: []kind{onSQLite, onPostgres}}
	flags := flag.NewFlagSet("benchmark", flag.ContinueOnError)
	out := flags.String("o", filepath.Join("bench", "RESULTS.md"), "file to write the results to")
	only := flags.String("only", "", "names of measurements, separated by commas; empty: all")
	flags.StringVar(&l.graph, "graph", filepath.Join("bench", "data", "debian-bookworm-build-graph.tsv.gz"), "file with the graph whose makespan is measured")
	flags.StringVar(&l.river, "river", filepath.Join("bench", "river"), "folder of the program that measures River")
	flags.BoolFunc("quick", "measure next to nothing, to see that it works; give it before the flags for sizes", func(string) error { l.sizes = quick; return nil })
	flags.Func("store", "measure on this store alone: sqlite or postgres", func(s string) error {
		for _, k := range []kind{onSQLite, onPostgres} {
			if strings.HasPrefix(strings.ToLower(string(k)), s) {
				l.kinds = []kind{k}
				return nil
			}
		}
		return errors.New("want sqlite or postgres")
	})
	flags.Func("window", "how long each rate is measured", func(s string) (err error) { l.window, err = time.ParseDuration(s); return err })
	flags.Func("rounds", "how often each is repeated", func(s string) (err error) { l.rounds, err = strconv.Atoi(s); return err })
	number := func(name, usage string, set func(n int)) {
		flags.Func(name, usage, func(s string) error {
			n, err := strconv.Atoi(s)
			set(n)
			return err
		})
	}
	number("callers", "a number of callers, instead of several", func(n int) { l.callers = []int{n} })
	number("waiting", "a number of jobs in the store that is recovered, instead of several", func(n int) { l.waiting = []int{n} })
	number("ahead", "a number of jobs that the worker cannot run, to compare with a thousand", func(n int) { l.ahead = []int{1000, n} })
	number("drain", "how many jobs are drained", func(n int) { l.drain = n })
	number("past", "how many jobs have finished before", func(n int) { l.past = n })
	number("pending", "how many jobs at most are pending in composer's queue, and have finished", func(n int) {
		l.door.pending, l.door.finished = []int{0, n}, n
	})
	flags.Func("held", "how long others hold a snapshot", func(s string) (err error) { l.held, err = time.ParseDuration(s); return err })
	flags.StringVar(&l.parts, "parts", "", "names of parts of the section server, separated by commas; empty: all")
	flags.Func("rest", "how long the server's idle workers are watched", func(s string) (err error) { l.web.rest, err = time.ParseDuration(s); return err })
	flags.StringVar(&l.profiles, "serverprofiles", "", "folder to write profiles of the server's process to; they cost some time themselves")
	flags.BoolVar(&l.watched, "statements", false, "tell after each measurement which statements cost PostgreSQL most; that costs some time itself")
	profile := flags.String("cpuprofile", "", "file to write a processor profile to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
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
	l.dir = dir
	return errors.Join(l.measure(ctx, chosen, *out), l.close(), os.RemoveAll(dir))
}

// choose finds the measurements of these names.
func choose(names string) ([]measurement, error) {
	if names == "" {
		return measurements, nil
	}
	var chosen []measurement
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no measurement %q", name)
		}
		chosen = append(chosen, measurements[i])
	}
	return chosen, nil
}

// measure writes the page after each section: what was measured is there, whatever becomes of the rest.
func (l *lab) measure(ctx context.Context, chosen []measurement, out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	began := time.Now()
	page := heading()
	for _, m := range chosen {
		fmt.Fprintf(os.Stderr, "%4.0f s  measuring %s\n", time.Since(began).Seconds(), m.name)
		before, err := calibrate(l.dir)
		if err != nil {
			return err
		}
		s, err := m.run(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		after, err := calibrate(l.dir)
		if err != nil {
			return err
		}
		s.before, s.after = before, after
		text := s.text()
		fmt.Fprint(os.Stderr, text)
		if l.watched {
			costs, err := l.statements(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintln(os.Stderr, costs)
		}
		page += text
		if err := os.WriteFile(out, []byte(page), 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%4.0f s  in all; written to %s\n", time.Since(began).Seconds(), out)
	return nil
}
