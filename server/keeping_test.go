package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
)

// keepingLab is a server with a depot in virtual time.
type keepingLab struct {
	t       *testing.T
	store   *memory.Store
	history queue.History // of the servers
	queue   *queue.Queue
	depot   *depot.Folder
	dir     string
	keep    time.Duration
	builds  time.Duration
	session job.ID
}

// inKeepingLab runs a test in a synctest bubble.
func inKeepingLab(t *testing.T, keep time.Duration, test func(t *testing.T, l *keepingLab)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "depot")
	synctest.Test(t, func(t *testing.T) {
		l := &keepingLab{t: t, store: memory.New(), dir: dir, keep: keep}
		l.history = l.store
		var err error
		if l.depot, err = depot.Open(dir, depot.Options{}); err != nil {
			t.Fatal(err)
		}
		if l.queue, err = queue.Open(queue.Config{Store: l.store, History: l.store}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.queue.Run(ctx) }()
		stop := l.serve()
		l.session = l.queue.NewID()
		l.must(l.queue.Register(ctx, job.Worker{Name: "w", Session: l.session, Channels: []string{""}, Kinds: []string{"k"}, Slots: 9}))
		test(t, l)
		stop()
		cancel()
		l.must(errors.Join(<-ended, l.depot.Close()))
	})
}

// serve has a server run until it is stopped.
func (l *keepingLab) serve() (stop func()) {
	l.t.Helper()
	s, err := New(Config{Queue: l.queue, History: l.history, Failures: l.store, Depot: l.depot, Keep: l.keep, KeepBuilds: l.builds})
	l.must(err)
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		l.t.Helper()
		cancel()
		l.must(<-ended)
	}
}

func (l *keepingLab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// run has a job run that writes a log and, if that is wanted, an artifact; ended says whether it ends.
func (l *keepingLab) run(artifact, ended bool) depot.Attempt {
	l.t.Helper()
	ctx := l.t.Context()
	_, err := l.queue.Submit(ctx, queue.Submission{Jobs: []job.Spec{{Kind: "k"}}})
	l.must(err)
	got, err := l.queue.Lease(ctx, "w", l.session, 1, 0)
	l.must(err)
	at := depot.Attempt{Job: got[0].Lease.Job, Number: 1}
	_, err = l.depot.Append(ctx, at, 0, []byte(strings.Repeat("a line of the log\n", 500)), 0)
	l.must(err)
	if artifact {
		u := depot.Upload{Name: "out", Size: 3, Sum: sha256.Sum256([]byte("abc"))}
		_, err := l.depot.Put(ctx, at, u, 0, strings.NewReader("abc"))
		l.must(err)
	}
	if ended {
		l.must(l.queue.Finish(ctx, job.Report{Lease: got[0].Lease, Outcome: job.Succeeded}))
	}
	return at
}

// sealed tells whether a log is, and whether it is kept at all.
func (l *keepingLab) sealed(at depot.Attempt) (sealed, kept bool) {
	l.t.Helper()
	log, err := l.depot.OpenLog(l.t.Context(), at)
	if errors.Is(err, depot.ErrNotKept) {
		return false, false
	}
	l.must(err)
	defer log.Close()
	return log.Sealed(), true
}

// elapse lets time pass, in a synctest bubble.
func (l *keepingLab) elapse(d time.Duration) {
	l.t.Helper()
	synctest.Wait() // Nobody else is at the disk.
	now := time.Now()
	l.must(filepath.WalkDir(l.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && info.ModTime().After(now) { // The disk knows the true time.
			return os.Chtimes(path, now, now)
		}
		return nil
	}))
	time.Sleep(d)
	synctest.Wait()
}

// A log is sealed some time after its attempt has ended, so that what comes late finds it open.
func TestLogsAreSealed(t *testing.T) {
	t.Parallel()
	inKeepingLab(t, 0, func(t *testing.T, l *keepingLab) {
		ended, runs := l.run(false, true), l.run(false, false)
		l.elapse(20 * time.Second)
		if sealed, _ := l.sealed(ended); sealed {
			t.Error("it is sealed too early")
		}
		l.elapse(time.Minute)
		if sealed, _ := l.sealed(ended); !sealed {
			t.Error("it is not sealed")
		}
		if sealed, kept := l.sealed(runs); sealed || !kept {
			t.Error("the log of what runs is sealed or gone")
		}
		l.must(l.queue.DeleteJob(t.Context(), ended.Job))
		l.elapse(5 * time.Second)
		if _, kept := l.sealed(ended); kept {
			t.Error("the log of a deleted job is there")
		}
	})
}

// A log that nobody began while the attempt ran, or soon after, is not begun any more; one that is open takes the rest.
func TestLogIsNotBegunLate(t *testing.T) {
	t.Parallel()
	inKeepingLab(t, 0, func(t *testing.T, l *keepingLab) {
		ctx := t.Context()
		s, err := New(Config{Queue: l.queue, History: l.store, Failures: l.store, Depot: l.depot})
		l.must(err)
		var leases []job.Lease
		for range 2 {
			_, err := l.queue.Submit(ctx, queue.Submission{Jobs: []job.Spec{{Kind: "k"}}})
			l.must(err)
			got, err := l.queue.Lease(ctx, "w", l.session, 1, 0)
			l.must(err)
			leases = append(leases, got[0].Lease)
			l.must(s.holds(ctx, got[0].Lease))
			l.must(l.queue.Finish(ctx, job.Report{Lease: got[0].Lease, Outcome: job.Succeeded}))
		}
		l.elapse(sealAfter / 2)
		_, err = l.depot.Append(ctx, depot.Attempt{Job: leases[1].Job, Number: 1}, 0, []byte("in time\n"), 0)
		l.must(err)
		for i := range leases {
			if err := s.holds(ctx, leases[i]); err != nil {
				t.Errorf("soon after its end: %v", err)
			}
		}
		l.elapse(sealAfter/2 + time.Millisecond)
		if err := s.holds(ctx, leases[0]); !errors.Is(err, job.ErrEnded) {
			t.Errorf("late: %v", err)
		}
		if err := s.holds(ctx, leases[1]); err != nil {
			t.Errorf("late, and open: %v", err)
		}
		wrong := leases[1]
		wrong.Token[0] ^= 1
		if err := s.holds(ctx, wrong); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("of another: %v", err)
		}
	})
}

// A worker is there while it has a call under way, and for some time after.
func TestWorkerIsAwayAfterItsLastCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, session := lines{byName: map[string]*line{}}, job.ID{1}
		online := func() bool {
			var w api.Worker
			w.Name = "w"
			l.tell(&w, session)
			return w.Online
		}
		near := []api.Near{{Worker: "w", Busy: sched.DoesNotAsk}, {Worker: "x", Busy: sched.DoesNotAsk}, {Worker: "over", Busy: sched.DoesNotAsk}, {Worker: "w", Busy: "drained"}}
		l.end("over", session)
		e, _ := l.enter(t.Context(), "w", &api.Sync{Session: session, Number: 1})
		time.Sleep(2 * time.Minute)
		if !online() {
			t.Error("it calls, and is said to be away")
		}
		e.leave()
		time.Sleep(awayAfter - time.Second)
		if !online() {
			t.Error("it has just called, and is said to be away")
		}
		time.Sleep(2 * time.Second)
		if online() {
			t.Error("it is dead, and said to be there")
		}
		l.silent(near)
		for i, want := range []string{"does not ask for work, and was last heard of 2m31s ago", sched.DoesNotAsk, "has signed off", "drained"} {
			if near[i].Busy != want {
				t.Errorf("%s: %q, want %q", near[i].Worker, near[i].Busy, want)
			}
		}
	})
}

// without is a history that cannot read the record of a job.
type without struct {
	queue.History
	id job.ID
}

// Jobs implements queue.History.
func (w without) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	recs, err := w.History.Jobs(ctx, f)
	return slices.DeleteFunc(recs, func(r job.Record) bool { return r.Spec.ID == w.id }), err
}

// What belonged to a job that is deleted while nobody looks goes at the next start; but not if the whole folder is of jobs that the store
// does not know: then it is another's. One whose record cannot be read keeps what it has.
func TestWhatDeletedJobsLeftGoes(t *testing.T) {
	t.Parallel()
	inKeepingLab(t, 0, func(t *testing.T, l *keepingLab) {
		orphan := depot.Attempt{Job: l.queue.NewID(), Number: 1}
		_, err := l.depot.Append(t.Context(), orphan, 0, []byte("of nobody\n"), 0)
		l.must(err)
		stop := l.serve()
		l.elapse(time.Second)
		stop()
		if _, kept := l.sealed(orphan); !kept {
			t.Error("what is of no job of this store is gone")
		}
		has, unreadable := l.run(true, true), l.run(false, true)
		l.history = without{l.store, unreadable.Job}
		stop = l.serve()
		l.elapse(time.Second)
		stop()
		if _, kept := l.sealed(orphan); kept {
			t.Error("what a deleted job left is there")
		}
		for what, at := range map[string]depot.Attempt{"a job": has, "one that cannot be read": unreadable} {
			if _, kept := l.sealed(at); !kept {
				t.Errorf("the log of %s is gone", what)
			}
		}
	})
}

// What has been kept for long enough goes; what runs stays, and a job whose artifacts go leaves the history, so that it serves nobody.
func TestLogsAreKeptForATime(t *testing.T) {
	t.Parallel()
	inKeepingLab(t, 3*time.Hour, func(t *testing.T, l *keepingLab) {
		plain, built, runs := l.run(false, true), l.run(true, true), l.run(true, false)
		l.elapse(time.Minute) // They are sealed.
		l.elapse(2 * time.Hour)
		young := l.run(true, true)
		for _, at := range []depot.Attempt{plain, built} {
			if _, kept := l.sealed(at); !kept {
				t.Error("it is gone too early")
			}
		}
		l.elapse(2*time.Hour + time.Minute)
		for name, want := range map[string]struct {
			at           depot.Attempt
			kept, stored bool
		}{
			"a log alone": {plain, false, true}, "with an artifact": {built, false, false}, "what runs": {runs, true, true}, "a young one": {young, true, true},
		} {
			if _, kept := l.sealed(want.at); kept != want.kept {
				t.Errorf("%s: kept %t", name, kept)
			}
			recs, err := l.store.Jobs(t.Context(), queue.JobFilter{IDs: []job.ID{want.at.Job}})
			if err != nil || len(recs) == 1 != want.stored {
				t.Errorf("%s: %d in the history, %v", name, len(recs), err)
			}
		}
	})
}
