package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// What workers do: they register, ask, renew, report, and go.

func (w *world) register() {
	name := pick(w, workers...)
	k := job.Worker{
		Name: name, Channels: channels, Kinds: kinds, Systems: systems[1:], Slots: 2, Session: w.newID(),
		Speed: pick(w, 0.0, 1, 2, 4),
	}
	switch name {
	case "w1":
		k.Slots, k.Features = 3, features
	case "w2":
		k.Features, k.Mandatory = features[:1], features[:1]
	case "w4":
		k.Channels = []string{job.AnyChannel}
	case "w3":
		k.Channels, k.Systems = channels[:3], systems[1:2]
	}
	if w.chance(4) {
		k.Systems = pick(w, systems[1:2], systems[2:])
	}
	if w.chance(30) {
		k.Slots = 0
	}
	old := w.m.worker(name)
	if old != nil && w.chance(4) {
		k.Session = old.Session
	}
	w.enroll(k, old != nil && w.chance(2))
}

// enroll registers a worker, which still runs what it had, or not.
func (w *world) enroll(k job.Worker, runs bool) {
	var running []job.Lease
	for _, x := range w.work {
		if runs && x.worker == k.Name && !x.over && w.chance(2) {
			running = append(running, x.Lease)
		}
	}
	w.do(fmt.Sprintf("register %s %v speed %v session %s with %d", k.Name, k.Systems, k.Speed, short(k.Session), len(running)),
		func(ctx context.Context) error { return w.q.Register(ctx, k, running...) },
		func() string { return w.m.register(k, running) })
}

func (w *world) signOff() {
	k := w.anyWorker()
	w.do("sign-off "+k.Name, func(ctx context.Context) error { return w.q.SignOff(ctx, k.Name, k.Session) }, func() string {
		if x := w.m.worker(k.Name); x != nil && x.Session == k.Session {
			x.seen, x.Session = 0, job.ID{}
			x.evict(off)
		}
		return done
	})
}

func (w *world) anyWorker() job.Worker {
	if k := w.m.worker(pick(w, workers...)); k != nil {
		return k.Worker
	}
	return job.Worker{Name: "stranger", Session: w.newID()}
}

// ask lets a worker wait for work.
func (w *world) ask() {
	k := w.anyWorker()
	if w.chance(20) {
		k.Session = w.newID()
	}
	w.askFor(k, 1+w.rng.IntN(3), float64(w.rng.IntN(3)))
}

func (w *world) askFor(k job.Worker, want int, load float64) {
	w.note("lease %s wants %d load %v", k.Name, want, load)
	if w.together == nil {
		w.arm()
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &leaseCall{
		worker: k.Name, session: k.Session, want: want, load: load,
		life: w.life, cancel: cancel, done: make(chan struct{}),
	}
	q := w.q
	asked := &command{ctx: ctx, predict: func() string {
		c.kind = w.m.lease(c)
		return c.kind
	}}
	c.asked = asked
	place := w.placed(asked)
	go func() {
		defer close(c.done)
		c.got, c.err = q.Lease(place, k.Name, k.Session, want, load)
	}()
	w.settle()
	w.leases = append(w.leases, c)
	if w.together != nil {
		w.together = append(w.together, asked)
		return
	}
	w.met(func() { w.foresee(asked) })
}

// take has a worker be given a job out of turn.
func (w *world) take() {
	k, id := w.anyWorker(), w.anyJob()
	if w.chance(20) {
		k.Session = w.newID()
	}
	var got queue.Assignment
	life := w.life
	w.doOnce(fmt.Sprintf("take %s for %s", short(id), k.Name), func(ctx context.Context) (err error) {
		got, err = w.q.Take(ctx, k.Name, k.Session, id)
		return err
	}, func() string { return w.m.take(k.Name, k.Session, id) }, func() {
		if j := w.m.job(id); !got.Lease.Job.IsZero() {
			w.given(&leaseCall{worker: k.Name, life: life}, got, j)
		}
	})
}

func (w *world) stopAsking() {
	if len(w.leases) == 0 {
		return
	}
	c := pick(w, w.leases...)
	w.note("%s waits no more", c.worker)
	c.cancel()
	w.settle()
	if k := w.m.worker(c.worker); k != nil {
		k.waiters = filter(k.waiters, func(x *leaseCall) bool { return x != c })
	}
	c.kind = "gone"
	w.m.round()
}

// someWork picks an attempt of a worker, mostly one that it has not told the end of.
func (w *world) someWork(over bool) *work {
	var list []*work
	for _, k := range w.work {
		if k.over == over {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1-w.rng.IntN(min(len(list), 8))]
}

func (w *world) beat() {
	var beats []queue.Beat
	for _, k := range w.work {
		if len(beats) < 5 && !k.over && !w.chance(3) {
			b := queue.Beat{Lease: k.Lease}
			if w.chance(2) {
				b.Output = time.Now()
			}
			beats = append(beats, b)
		}
	}
	w.renew(beats)
}

func (w *world) renew(beats []queue.Beat) {
	w.note("heartbeat of %d", len(beats))
	errs, err := w.q.Heartbeat(context.Background(), beats...)
	if err != nil {
		w.fail("heartbeat: %v", err)
	}
	for i, b := range beats {
		want := w.m.beat(b)
		w.seen["heartbeat "+kindOf(errs[i])]++
		if kindOf(errs[i]) != want {
			w.fail("the heartbeat of %s was answered %v, want %q", b.Lease.Job, errs[i], want)
		}
	}
	w.settle()
	w.m.round()
}

// report draws how an attempt ended.
func (w *world) report(l job.Lease) job.Report {
	r := job.Report{Lease: l, Outcome: job.Succeeded, NoRetry: w.chance(10), Result: []byte("result")}
	switch n := w.rng.IntN(16); {
	case n < 7:
	case n < 9:
		r.Outcome, r.Detail = job.Failed, pick(w, job.NoDetail, job.NoDetail, job.LogLimit, job.OutputLimit, job.NonDeterministic)
	case n < 10:
		r.Outcome, r.Detail = job.TimedOut, pick(w, job.TotalTimeout, job.SilentTimeout)
	case n < 11:
		r.Outcome = job.Cancelled
	default:
		r.Outcome = job.Aborted
		r.Detail = pick(w, job.NoDetail, job.WorkerFault, job.WorkerFault, job.WorkerCrashed, job.HandedBack, job.NotStarted)
	}
	return r
}

// tell lets a worker tell the end of an attempt.
func (w *world) tell() {
	k := w.someWork(false)
	if k == nil {
		w.ask()
		return
	}
	k.over, k.reported = true, w.report(k.Lease)
	w.finish("finish", k.reported)
}

func (w *world) finish(op string, r job.Report) {
	w.do(fmt.Sprintf("%s %s attempt %d %s %q", op, short(r.Lease.Job), r.Lease.Attempt, r.Outcome, r.Detail),
		func(ctx context.Context) error { return w.q.Finish(ctx, r) },
		func() string {
			w.seen[fmt.Sprintf("outcome %s %s", r.Outcome, r.Detail)]++
			return w.m.report(&r)
		})
}

// tellOld repeats a finish, with the same result or another, or the right token or not.
func (w *world) tellOld() {
	k := w.someWork(true)
	if k == nil {
		return
	}
	r := k.reported
	if w.chance(3) {
		r = w.report(k.Lease)
	}
	if w.chance(6) {
		r.Lease.Token[0]++
	}
	w.finish("repeat", r)
}

func (w *world) progress() {
	k := w.someWork(w.chance(3))
	if k == nil {
		return
	}
	w.do("progress "+short(k.Lease.Job), func(ctx context.Context) error {
		return w.q.Progress(ctx, k.Lease, []byte("half"))
	}, func() string { return w.m.progress(k.Lease) })
}
