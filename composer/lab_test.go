package composer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(serverEnv); address != "" {
		if err := serve(address); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}

// worker is declared as composer's is.
type worker struct {
	ID      uuid.UUID
	Channel string
	Arch    string
}

// store is what every backend gives.
type store interface {
	queue.Store
	queue.History
}

// place keeps a store.
type place interface {
	open(t testing.TB) store
	// damage makes the record of a job unreadable while no store is open: what never changes of it.
	damage(t testing.TB, id uuid.UUID)
}

// backends are the places that each test is run on.
var backends = []struct {
	name string
	make func(t testing.TB) place
}{
	{"memory", func(testing.TB) place { return &disk{memory.NewDisk()} }},
	{"sqlite", func(t testing.TB) place { return &file{filepath.Join(t.TempDir(), "store.db")} }},
	{"postgres", func(t testing.TB) place { return &database{newDatabase(t)} }},
}

type disk struct{ *memory.Disk }

func (d *disk) open(testing.TB) store { return d.Open() }

func (d *disk) damage(t testing.TB, id uuid.UUID) {
	if !d.Damage("job", id.String()) {
		t.Fatalf("there is no job %s to damage", id)
	}
}

type file struct{ path string }

func (f *file) open(t testing.TB) store {
	s, err := sqlite.Open(context.Background(), f.path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *file) damage(t testing.TB, id uuid.UUID) {
	c, err := zombie.OpenConn(f.path, zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing rests on it
	err = sqlitex.Execute(c, "UPDATE job SET spec = x'ff' WHERE lower(hex(id)) = ?", &sqlitex.ExecOptions{
		Args: []any{strings.ReplaceAll(id.String(), "-", "")},
	})
	if err != nil || c.Changes() != 1 {
		t.Fatalf("damage job %s: %d rows, %v", id, c.Changes(), err)
	}
}

type database struct{ address string }

var template struct {
	sync.Once
	name string
}

// newDatabase gives the address of a database with an empty store of its own.
func newDatabase(t testing.TB) string {
	t.Helper()
	c := pgtest.Shared(t)
	template.Do(func() {
		address, err := c.Create(context.Background())
		if err != nil {
			return
		}
		s, err := postgres.Open(context.Background(), address, postgres.Options{})
		if err == nil && s.Close() == nil {
			template.name = pgtest.Name(address)
		}
	})
	if template.name == "" {
		t.Fatal("there is no template database: its store could not be made")
	}
	address, err := c.Clone(t.Context(), template.name)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func (d *database) open(t testing.TB) store {
	s, err := postgres.Open(context.Background(), d.address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *database) damage(t testing.TB, id uuid.UUID) {
	c, err := pgx.Connect(t.Context(), d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	tag, err := c.Exec(t.Context(), "UPDATE headrace.job SET spec = decode('ff', 'hex') WHERE id::text = $1", id.String())
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("damage job %s: %v, %v", id, tag, err)
	}
}

// lab is a queue on a place, with the engine below it.
type lab struct {
	testing.TB
	place  place
	store  store
	engine *queue.Queue
	*composer.JobQueue[worker]
	stop     func()
	patience time.Duration // of the engine with its store; 0: the usual
}

// onEach runs a test on each backend, each time with an empty queue.
func onEach(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Parallel()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, newLab(t, b.make(t)))
		})
	}
}

func newLab(t testing.TB, p place) *lab {
	l := &lab{TB: t, place: p}
	l.start()
	t.Cleanup(func() { l.stop() })
	return l
}

// start opens the store and runs the engine.
func (l *lab) start() {
	l.Helper()
	l.store = l.place.open(l)
	e, err := queue.Open(queue.Config{Store: l.store, History: l.store, Patience: l.patience})
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	l.engine, l.JobQueue = e, composer.New[worker](e, l.store, composer.Errors{})
	s := l.store
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			l.Errorf("the engine ended: %v", err)
		}
		if err := s.Close(); err != nil {
			l.Errorf("close the store: %v", err)
		}
	})
}

// restart has another process take over. between is done while none has the store.
func (l *lab) restart(between ...func()) {
	l.Helper()
	l.stop()
	for _, f := range between {
		f()
	}
	l.start()
}

// enqueue asks for a job without arguments, which must be granted.
func (l *lab) enqueue(jobType, channel string, deps ...uuid.UUID) uuid.UUID {
	l.Helper()
	id, err := l.Enqueue(jobType, nil, deps, channel)
	if err != nil {
		l.Fatal(err)
	}
	return id
}

// soon is more than anything takes that is going to happen.
const soon = time.Minute

// dequeue takes the next job of a type in a channel, which must come.
func (l *lab) dequeue(jobType, channel string) (id, token uuid.UUID) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), soon)
	defer cancel()
	id, token, _, _, _, err := l.Dequeue(ctx, uuid.Nil, []string{jobType}, []string{channel})
	if err != nil {
		l.Fatalf("dequeue %s from %q: %v", jobType, channel, err)
	}
	return id, token
}

// finish ends a job that runs, which must be granted.
func (l *lab) finish(id uuid.UUID, result any) {
	l.Helper()
	requeued, err := l.RequeueOrFinishJob(id, 0, result)
	if err != nil || requeued {
		l.Fatalf("finish %s: requeued %t, %v", id, requeued, err)
	}
}

// status is what JobStatus gives.
type status struct {
	Type, Channel             string
	Result                    string // "" where there is none
	Queued, Started, Finished time.Time
	Canceled                  bool
	Deps, Dependents          []uuid.UUID
}

// status reads a job's status, which must be there.
func (l *lab) status(id uuid.UUID) status {
	l.Helper()
	typ, channel, result, queued, started, finished, canceled, deps, dependents, err := l.JobStatus(id)
	if err != nil {
		l.Fatalf("status of %s: %v", id, err)
	}
	if result != nil && !json.Valid(result) {
		l.Fatalf("result of %s: %q is no JSON", id, result)
	}
	return status{typ, channel, string(result), queued, started, finished, canceled, deps, dependents}
}

// state puts the status in a word.
func (s status) state() string {
	switch {
	case s.Canceled:
		return "canceled"
	case !s.Finished.IsZero():
		return "finished"
	case !s.Started.IsZero():
		return "running"
	}
	return "pending"
}

func (s status) String() string { return fmt.Sprintf("%s, result %q", s.state(), s.Result) }
