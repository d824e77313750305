package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

// What people do: they cancel, bump, delete and ask why; and what time and crashes do.

// anyJob picks an unfinished job mostly.
func (w *world) anyJob() job.ID {
	var list []job.ID
	for _, j := range w.m.jobs {
		if j.end == nil {
			list = append(list, j.ID)
		}
	}
	switch {
	case len(list) > 0 && !w.chance(5):
		return pick(w, list...)
	case len(w.past) > 0 && !w.chance(5):
		return pick(w, w.past...)
	}
	return w.newID()
}

func (w *world) anyBuild() job.ID {
	var live []job.ID
	for _, b := range w.m.builds {
		if b.live() {
			live = append(live, b.ID)
		}
	}
	switch {
	case len(live) > 0 && !w.chance(4):
		return pick(w, live...)
	case len(w.m.builds) > 0 && !w.chance(4):
		return pick(w, w.m.builds...).ID
	}
	return w.newID()
}

func (w *world) cancelJob() {
	id, of, force := w.anyJob(), job.ID{}, w.chance(3)
	if w.chance(2) {
		of = w.anyBuild()
	}
	var named []job.ID
	var builds []*mBuild
	w.do(fmt.Sprintf("cancel %s force %t of %s", short(id), force, short(of)), func(ctx context.Context) error {
		named = nil
		err := w.q.CancelJob(ctx, id, of, force, "")
		var needed *job.NeededError
		if errors.As(err, &needed) {
			for _, b := range needed.Builds {
				named = append(named, b.Build.ID)
			}
		}
		return err
	}, func() (kind string) {
		kind, builds = w.m.cancelJob(id, of, force)
		return kind
	}, func() {
		if !slices.EqualFunc(named, builds, func(id job.ID, b *mBuild) bool { return id == b.ID }) {
			w.fail("the refusal names %v, want %v", named, builds)
		}
	})
}

func (w *world) cancelBuild() { w.cancelOf(w.anyBuild()) }

func (w *world) cancelOf(id job.ID) {
	spare := w.chance(2)
	w.do(fmt.Sprintf("cancel-build %s spare %t", short(id), spare), func(ctx context.Context) error {
		return w.q.CancelBuild(ctx, id, spare)
	}, func() string { return w.m.cancelBuild(id, spare) })
}

func (w *world) bump() { w.bumpOf(w.anyBuild()) }

func (w *world) bumpOf(id job.ID) {
	priority := int32(w.rng.IntN(4))
	if w.chance(10) {
		priority = job.MaxPriority + 1
	}
	w.do(fmt.Sprintf("bump %s to %d", short(id), priority), func(ctx context.Context) error {
		return w.q.Bump(ctx, id, priority)
	}, func() string {
		b := w.m.build(id)
		switch {
		case priority > job.MaxPriority:
			return invalid
		case !b.live():
			return notFound
		}
		b.Priority = priority
		return done
	})
}

func (w *world) drain() {
	w.drainTo(w.anyWorker().Name, w.chance(3))
}

func (w *world) drainTo(name string, drained bool) {
	w.do(fmt.Sprintf("drain %s %t", name, drained), func(ctx context.Context) error {
		return w.q.Drain(ctx, name, drained)
	}, func() string {
		k := w.m.worker(name)
		if k == nil {
			return notFound
		}
		k.Drained = drained
		return done
	})
}

func (w *world) pardon() {
	name := w.anyWorker().Name
	w.do("pardon "+name, func(ctx context.Context) error { return w.q.Pardon(ctx, name) }, func() string {
		k := w.m.worker(name)
		if k == nil {
			return notFound
		}
		k.pardon()
		return done
	})
}

func (w *world) removeWorker() {
	name, force := w.anyWorker().Name, w.chance(2)
	w.do(fmt.Sprintf("remove %s force %t", name, force), func(ctx context.Context) error {
		return w.q.RemoveWorker(ctx, name, force)
	}, func() string { return w.m.remove(name, force) })
}

func (w *world) failJob() {
	id := w.anyJob()
	w.do("fail "+short(id), func(ctx context.Context) error {
		return w.q.FailJob(ctx, id, "judged", nil)
	}, func() string { return w.m.failJob(id) })
}

// deleteJob deletes; of a running job it cancels, and waits until the worker has confirmed, or its lease ran out.
func (w *world) deleteJob() {
	id := w.anyJob()
	w.note("delete %s", short(id))
	before := w.deletions(id)
	answer := make(chan error, 1)
	q := w.q
	go func() { answer <- q.DeleteJob(context.Background(), id) }()
	w.settle()
	want := busy
	if w.m.job(id).over() || !w.m.outlived(id) {
		want, _ = w.m.cancelJob(id, job.ID{}, true)
		w.m.round()
	}
	if j := w.m.job(id); j != nil && j.held() {
		if len(answer) > 0 {
			w.fail("job %s is deleted and its attempt runs", id)
		}
		w.verify()
		w.seen["delete waits"]++
		if w.chance(2) {
			w.finish("confirm", job.Report{Lease: j.last.lease(), Outcome: job.Cancelled})
		}
		for j.held() && len(answer) == 0 {
			w.sleep(max(time.Second, j.last.deadline.Sub(w.m.now)))
		}
	}
	var err error
	select {
	case err = <-answer:
	default:
		w.fail("the deletion of %s does not end", id)
	}
	switch {
	case kindOf(err) == again: // the owner went meanwhile, before or after
		if w.deletions(id) > before {
			w.m.deleteJob(id)
		}
		return
	case want == done || want == ended:
		want = w.m.deleteJob(id)
	}
	w.seen["delete "+kindOf(err)]++
	if kindOf(err) != want {
		w.fail("the deletion of %s was answered %v, want %q", id, err, want)
	}
}

// deletions counts how often a job of that id was deleted.
func (w *world) deletions(id job.ID) (n int) {
	for _, b := range w.batches() {
		n += len(filter(b.changes, func(c job.Change) bool { return c == job.Change(job.JobDeleted{Job: id}) }))
	}
	return n
}

func (w *world) deleteBuild() {
	id := w.anyBuild()
	w.do("delete-build "+short(id), func(ctx context.Context) error {
		return w.q.DeleteBuild(ctx, id)
	}, func() string { return w.m.deleteBuild(id) })
}

func (w *world) clearFailures() {
	var all []job.Identity
	for id := range w.m.failures {
		all = append(all, id)
	}
	if len(all) == 0 {
		return
	}
	// Sorted: map order must not reach the history.
	slices.SortFunc(all, func(a, b job.Identity) int {
		return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b)))
	})
	id := pick(w, all...)
	w.do(fmt.Sprintf("clear %v", id), func(ctx context.Context) error { return w.q.ClearFailures(ctx, id) }, func() string {
		delete(w.m.failures, id)
		return done
	})
}

// why asks about any job, and about each that waits.
func (w *world) why() {
	w.note("why")
	w.explain(w.anyJob())
	for _, j := range w.m.jobs {
		if j.waiting() {
			w.explain(j.ID)
		}
	}
}

// explain compares an explanation with what the model knows (rule 13).
func (w *world) explain(id job.ID) {
	e, err := w.q.Why(context.Background(), id)
	w.settle()
	w.m.round()
	j := w.m.job(id)
	w.seen["why "+kindOf(err)]++
	if j == nil || j.end != nil && !j.held() {
		if kindOf(err) != notFound {
			w.fail("why %s: %v, want %q", id, err, notFound)
		}
		return
	}
	if err != nil || e.State != w.stateOf(j) {
		w.fail("why %s: %v, %s, want %s", id, err, e.State, w.stateOf(j))
	}
	if !j.waiting() {
		return
	}
	isReady := w.m.ready(j)
	unserved, _ := w.m.unserved(j)
	for what, want := range map[string]bool{
		sched.WaitsForDependency: len(j.blockers()) > 0,
		sched.NotUnderWay:        len(w.m.demand(j).groups) == 0,
		sched.WaitsUntil:         j.wake > w.m.now && j.last.Number == 0,
		sched.BacksOff:           j.wake > w.m.now && j.last.Number > 0,
		sched.WaitsForTwin:       w.m.twin(j) != nil,
		sched.NoWorker:           unserved,
		sched.ChannelPaused:      isReady && w.m.paused(j),
		sched.KeyFull:            isReady && !w.m.keyFree(j),
	} {
		given := slices.ContainsFunc(e.Reasons, func(r sched.Reason) bool { return r.What == what })
		if given != want {
			w.fail("why %s gives %q: %t, want %t; it says %+v", id, what, given, want, e.Reasons)
		}
		if given {
			w.seen["why "+what]++
		}
	}
	if len(e.Reasons) == 0 {
		w.fail("why %s: %s without a reason", id, e.State)
	}
}

// wait lets time pass: little mostly, past all that is due now and then.
func (w *world) wait() {
	w.sleep(pick(w, time.Second, time.Second, 10*time.Second, 10*time.Second, 30*time.Second, time.Minute, job.DefaultTTL,
		10*time.Minute, time.Hour, 26*time.Hour))
}

// restart replaces the owner in between two rounds.
func (w *world) restart() {
	w.note("restart")
	w.reopen()
	w.m.advance(w.now(), w.looks())
	w.seen["restart "]++
}

func (w *world) await() {
	c := &awaitCall{build: w.anyBuild(), life: w.life, done: make(chan struct{})}
	q := w.q
	go func() {
		defer close(c.done)
		c.got, c.err = q.AwaitBuild(context.Background(), c.build)
	}()
	w.awaits = append(w.awaits, c)
	w.settle()
	w.m.round()
}
