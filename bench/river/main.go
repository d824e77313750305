// Command river measures the queue River, as a program that uses it as a library would: it inserts no-op jobs, then works
// them off, and prints what it saw as JSON. The benchmark of headrace runs it beside its own.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // database/sql's driver "sqlite"
)

// figures are what is printed.
type figures struct {
	Insert float64 // jobs a second
	Drain  float64 // jobs a second
	// Of single jobs on an idle queue, from the call of Insert, in milliseconds, sorted.
	Started  []float64
	Finished []float64
}

// args is a no-op job with as much to carry as headrace's have.
type args struct {
	Payload string `json:"payload"`
}

// Kind implements river.JobArgs.
func (args) Kind() string { return "noop" }

// work does nothing; it tells when it began, to whoever asks.
type work struct {
	river.WorkerDefaults[args]
	began chan time.Time
}

// Work implements river.Worker.
func (w *work) Work(context.Context, *river.Job[args]) error {
	select {
	case w.began <- time.Now():
	default: // nobody asks
	}
	return nil
}

type settings struct {
	address  string
	jobs     int
	workers  int
	singles  int
	cooldown time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.address, "database", "", "a PostgreSQL URL, or the path of a new SQLite file")
	flag.IntVar(&s.jobs, "jobs", 10_000, "how many jobs to insert and work off")
	flag.IntVar(&s.workers, "workers", 2000, "MaxWorkers of the queue")
	flag.IntVar(&s.singles, "singles", 0, "how many single jobs to time on the idle queue afterwards")
	flag.DurationVar(&s.cooldown, "cooldown", 0, "FetchCooldown; 0: River's default")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	if strings.HasPrefix(s.address, "postgres:") {
		pool, err := pgxpool.New(ctx, s.address)
		if err != nil {
			return err
		}
		defer pool.Close()
		return measure(ctx, s, riverpgxv5.New(pool))
	}
	// As River's own tests open it; SQLite syncs each commit by default (synchronous=FULL).
	db, err := sql.Open("sqlite", "file:"+s.address+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // the driver's documentation asks for it
	return measure(ctx, s, riversqlite.New(db))
}

func measure[T any](ctx context.Context, s settings, driver riverdriver.Driver[T]) error {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	m, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	w := &work{began: make(chan time.Time, 1)}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown: s.cooldown, Logger: quiet, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.workers}},
	})
	if err != nil {
		return err
	}
	events, cancel := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: s.jobs + s.singles + 1, Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed},
	})
	defer cancel()
	var f figures
	if f.Insert, err = insert(ctx, client, s.jobs); err != nil {
		return err
	}
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return err
	}
	for range s.jobs {
		if err := ended(events); err != nil {
			return err
		}
	}
	f.Drain = float64(s.jobs) / time.Since(began).Seconds()
	for range s.singles {
		select {
		case <-w.began: // of a job before
		default:
		}
		began := time.Now()
		if _, err := client.Insert(ctx, job(), nil); err != nil {
			return err
		}
		f.Started = append(f.Started, milliseconds((<-w.began).Sub(began)))
		if err := ended(events); err != nil {
			return err
		}
		f.Finished = append(f.Finished, milliseconds(time.Since(began)))
	}
	slices.Sort(f.Started)
	slices.Sort(f.Finished)
	return errors.Join(client.Stop(ctx), json.NewEncoder(os.Stdout).Encode(f))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func job() args { return args{Payload: strings.Repeat("0", 100)} }

// insert puts the jobs in by River's fastest way, and gives how many it did in a second.
func insert[T any](ctx context.Context, client *river.Client[T], n int) (float64, error) {
	const piece = 5000
	began := time.Now()
	for from := 0; from < n; from += piece {
		list := make([]river.InsertManyParams, min(piece, n-from))
		for i := range list {
			list[i].Args = job()
		}
		if _, err := client.InsertManyFast(ctx, list); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// ended waits for the end of a job, which River tells once it is stored.
func ended(events <-chan *river.Event) error {
	const patience = 2 * time.Minute
	select {
	case e := <-events:
		if e == nil || e.Kind != river.EventKindJobCompleted {
			return errors.New("a job failed")
		}
		return nil
	case <-time.After(patience):
		return errors.New("a job did not end: too few slots, or an event was lost")
	}
}
