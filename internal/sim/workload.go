package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

// The small world in which everything meets everything. There are two groups, so that what an attempt used
// divides evenly.
var (
	channels = []string{"", "fifo", "short"}
	kinds    = []string{"compile", "test"}
	systems  = []string{"", "x86", "arm"}
	features = []string{"big", "kvm"}
	groups   = []string{"a", "b"}
	workers  = []string{"w1", "w2", "w3", "w4"}
)

// act takes one step.
func (w *world) act() {
	total := 0
	for _, a := range w.actions() {
		total += a.weight
	}
	at := w.rng.IntN(total)
	for _, a := range w.actions() {
		if at -= a.weight; at < 0 {
			a.do()
			return
		}
	}
}

type action struct {
	weight int
	do     func()
}

func (w *world) actions() []action {
	crowded := 0
	for _, j := range w.m.jobs {
		if j.end == nil {
			crowded++
		}
	}
	return []action{
		{max(0, 16-crowded/3), w.submit}, {10, w.register}, {24, w.ask}, {3, w.stopAsking}, {8, w.beat},
		{26, w.tell}, {6, w.tellOld}, {6, w.cancelJob}, {3, w.cancelBuild}, {4, w.bump}, {3, w.drain}, {1, w.pardon},
		{2, w.removeWorker}, {4, w.setChannel}, {3, w.pause}, {3, w.failJob}, {4, w.deleteJob}, {2, w.deleteBuild},
		{2, w.clearFailures}, {3, w.progress}, {4, w.why}, {22, w.wait}, {2, w.restart}, {2, w.await}, {1, w.signOff},
	}
}

// found sets up the channels.
func (w *world) found() {
	for _, name := range channels[1:] {
		c := w.policy(name)
		w.put(c)
	}
	w.verify()
}

func (w *world) policy(name string) job.Channel {
	c := job.Channel{
		Name: name, Grace: pick(w, -1, 0, 10*time.Minute, 24*time.Hour), TTL: pick(w, 30*time.Second, job.DefaultTTL),
		Shares: int32(w.rng.IntN(4)), GroupShares: map[string]int32{"a": int32(w.rng.IntN(4)), "b": 1},
		FailureTTL: pick(w, 0, time.Hour),
		Retry:      job.Retry{Aborts: 3, Losses: 1, Crashes: 2, Delay: pick(w, 6*time.Second, time.Minute), Factor: 3},
	}
	if name == "fifo" {
		c.Discipline, c.CallerJudges = job.ByAge, w.chance(2)
	}
	if name == "short" {
		c.Retry.Failures = 1
	}
	return c
}

func (w *world) put(c job.Channel) {
	w.do("channel "+c.Name, func(ctx context.Context) error { return w.q.SetChannel(ctx, c) }, func() string {
		w.m.channels[c.Name] = c
		return done
	})
}

func (w *world) setChannel() {
	c := w.policy(pick(w, channels...))
	old := w.m.channel(c.Name)
	c.Paused, c.PausedKinds = old.Paused, old.PausedKinds
	w.put(c)
}

func (w *world) pause() {
	name, kind, paused := pick(w, channels...), pick(w, append(kinds, "")...), w.chance(3)
	w.pauseTo(name, kind, paused)
}

func (w *world) pauseTo(name, kind string, paused bool) {
	w.do(fmt.Sprintf("pause %q %q %t", name, kind, paused), func(ctx context.Context) error {
		return w.q.Pause(ctx, name, kind, paused)
	}, func() string {
		c := w.m.channel(name)
		if kind == "" {
			c.Paused = paused
		} else {
			c.PausedKinds = slices.DeleteFunc(slices.Clone(c.PausedKinds), func(k string) bool { return k == kind })
			if paused {
				c.PausedKinds = append(c.PausedKinds, kind)
			}
		}
		w.m.channels[name] = c
		return done
	})
}

// spec makes a job.
func (w *world) spec() job.Spec {
	s := job.Spec{
		ID: w.newID(), Channel: pick(w, channels...), Kind: pick(w, kinds...), Exclusive: w.chance(10),
		CacheFailure: w.chance(2), Reuse: w.chance(2), Estimate: pick(w, 0, 10*time.Second, time.Minute, 10*time.Minute),
	}
	s.Args = []byte(s.ID.String())
	if !w.chance(3) {
		n := w.rng.IntN(6)
		s.Key = fmt.Sprintf("key%d", n)
		s.System, s.Name = systems[n%3], fmt.Sprintf("name%d", n%2)
		if n == 5 {
			s.Features = features[:1]
		}
	} else {
		s.System = pick(w, systems...)
		s.Features = pick(w, nil, nil, nil, features[:1], features[1:], features)
		if w.chance(10) {
			s.Pin = pick(w, "w1", "nobody")
		}
	}
	if w.chance(40) {
		s.System = "arm"
	}
	if w.chance(8) {
		s.NotBefore = w.now().Add(pick(w, -time.Minute, 30*time.Second, 2*time.Hour, 30*time.Hour))
	}
	if w.chance(5) {
		s.Gate = pick(w, job.Gate{Key: "one", Limit: 1}, job.Gate{Key: "two", Limit: 2}, job.Gate{Key: "none"})
	}
	if w.chance(5) {
		s.Retry = job.Retry{
			Failures: pick[int32](w, -1, 1), Aborts: pick[int32](w, -1, 0, 2), Losses: pick[int32](w, -1, 0, 1),
			Delay: pick(w, 0, 6*time.Second, time.Hour),
		}
	}
	return s
}

func (w *world) limits() job.Limits {
	if !w.chance(3) {
		return job.Limits{}
	}
	return job.Limits{Timeout: pick(w, 0, time.Minute, time.Hour), Silence: pick(w, 0, 20*time.Second, 10*time.Minute)}
}

// submit asks for a small graph.
func (w *world) submit() {
	s := queue.Submission{}
	switch n := w.rng.IntN(10); {
	case n < 2:
		s.Own = job.Own{Priority: int32(w.rng.IntN(3)), Group: pick(w, groups...), Limits: w.limits()}
	case n < 3 && len(w.m.builds) > 0:
		b := pick(w, w.m.builds...).Build
		s.Build = &b
	default:
		s.Build = &job.Build{
			ID: w.newID(), Group: pick(w, groups...), Priority: int32(w.rng.IntN(3)), Limits: w.limits(),
		}
		if w.chance(4) {
			s.Build.Gate = pick(w, job.Gate{Key: "builds", Limit: 1}, job.Gate{Key: "pair", Limit: 2})
		}
	}
	for range w.rng.IntN(6) {
		s.Jobs = append(s.Jobs, w.spec())
	}
	w.needs(&s)
	if s.Build != nil {
		w.refs(&s)
	}
	w.spoil(&s)
	var receipt queue.Receipt
	var want []job.Submitted
	w.do(fmt.Sprintf("submit %s", sketch(&s)), func(ctx context.Context) (err error) {
		receipt, err = w.q.Submit(ctx, s)
		return err
	}, func() (kind string) {
		want, kind = w.m.submit(&s)
		return kind
	})
	if !slices.Equal(receipt.Jobs, want) {
		w.fail("the receipt is %v, want %v", receipt.Jobs, want)
	}
	for _, r := range receipt.Jobs {
		w.past = append(w.past, r.ID)
		w.seen["submitted "+r.How.String()]++
	}
}

// needs draws dependencies: on jobs of the submission, mostly earlier ones, and on others.
func (w *world) needs(s *queue.Submission) {
	for i := range s.Jobs {
		j := &s.Jobs[i]
		for range w.rng.IntN(3) {
			n := job.Need{Policy: job.Policy(w.rng.IntN(3))}
			switch {
			case n.Policy == job.Order && w.chance(3):
				n.Job = pick(w, s.Jobs...).ID // circles, and itself
			case i > 0 && !w.chance(4):
				n.Job = s.Jobs[w.rng.IntN(i)].ID
			case len(w.m.jobs) > 0:
				n.Job = pick(w, w.m.jobs...).ID
			default:
				continue
			}
			j.Needs = append(j.Needs, n)
		}
	}
}

func (w *world) refs(s *queue.Submission) {
	for _, j := range s.Jobs {
		if w.chance(3) {
			continue
		}
		r := job.Ref{Job: j.ID, Awaited: w.chance(6)}
		r.Optional = !r.Awaited && w.chance(6)
		if w.chance(4) {
			r.Priority, r.Limits = int32(w.rng.IntN(3)), w.limits()
		}
		s.Refs = append(s.Refs, r)
	}
	if len(w.m.jobs) > 0 && w.chance(6) {
		s.Refs = append(s.Refs, job.Ref{Job: pick(w, w.m.jobs...).ID})
	}
}

// spoil makes a submission that must be refused, now and then.
func (w *world) spoil(s *queue.Submission) {
	if len(s.Jobs) == 0 || !w.chance(8) {
		return
	}
	j := &s.Jobs[w.rng.IntN(len(s.Jobs))]
	switch w.rng.IntN(5) {
	case 0:
		j.Needs = append(j.Needs, job.Need{Job: w.newID(), Policy: job.Policy(w.rng.IntN(3))})
	case 1:
		first := &s.Jobs[0]
		first.Needs = append(first.Needs, job.Need{Job: s.Jobs[len(s.Jobs)-1].ID})
		s.Jobs[len(s.Jobs)-1].Needs = append(s.Jobs[len(s.Jobs)-1].Needs, job.Need{Job: first.ID, Policy: job.Finish})
	case 2:
		if len(w.m.jobs) > 0 {
			j.ID = pick(w, w.m.jobs...).ID
		}
	case 3:
		if s.Build != nil {
			s.Refs = append(s.Refs, job.Ref{Job: w.newID()})
		}
	case 4:
		if s.Build != nil {
			b := *s.Build
			b.Priority = job.MaxPriority + 1
			s.Build = &b
		}
	}
}

func sketch(s *queue.Submission) string {
	text := ""
	if s.Build != nil {
		text = fmt.Sprintf("build %s group %s priority %d gate %v %v", short(s.Build.ID), s.Build.Group, s.Build.Priority, s.Build.Gate, s.Build.Limits)
	} else {
		text = fmt.Sprintf("alone %v", s.Own)
	}
	for _, j := range s.Jobs {
		text += fmt.Sprintf("; job %s %q/%s key %q on %q%v", short(j.ID), j.Channel, j.Kind, j.Key, j.System, j.Features)
		if j.Exclusive {
			text += " exclusive"
		}
		if j.Gate.Key != "" {
			text += " gate " + j.Gate.Key
		}
		for _, n := range j.Needs {
			text += fmt.Sprintf(" %s:%s", n.Policy, short(n.Job))
		}
	}
	for _, r := range s.Refs {
		text += fmt.Sprintf("; ref %s awaited %t optional %t +%d %v", short(r.Job), r.Awaited, r.Optional, r.Priority, r.Limits)
	}
	return text
}

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
	case "w3":
		k.Channels, k.Systems = channels[:2], systems[1:2]
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
			x.seen = 0
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
	w.arm()
	ctx, cancel := context.WithCancel(context.Background())
	c := &leaseCall{
		waiter: &mWaiter{worker: k.Name, session: k.Session, want: want, load: load},
		life:   w.life, cancel: cancel, done: make(chan struct{}),
	}
	q := w.q
	go func() {
		defer close(c.done)
		c.got, c.err = q.Lease(ctx, k.Name, k.Session, want, load)
	}()
	w.settle()
	w.leases = append(w.leases, c)
	w.met(func() {
		c.waiter.kind = w.m.lease(c.waiter)
		w.m.round()
	})
}

func (w *world) stopAsking() {
	if len(w.leases) == 0 {
		return
	}
	c := pick(w, w.leases...)
	w.note("%s waits no more", c.waiter.worker)
	c.cancel()
	w.settle()
	w.m.waiters = slices.DeleteFunc(w.m.waiters, func(x *mWaiter) bool { return x == c.waiter })
	c.waiter.kind = "gone"
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
		want := w.m.beat(b.Lease)
		if want == done && !b.Output.IsZero() {
			w.m.job(b.Lease.Job).lease.output = w.m.now
		}
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
		if b.outcome == 0 {
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
	w.do(fmt.Sprintf("cancel %s force %t of %s", short(id), force, short(of)), func(ctx context.Context) error {
		err := w.q.CancelJob(ctx, id, of, force, "")
		var needed *job.NeededError
		if errors.As(err, &needed) {
			named = nil
			for _, b := range needed.Builds {
				named = append(named, b.Build.ID)
			}
		}
		return err
	}, func() string {
		kind, builds := w.m.cancelJob(id, of, force)
		if kind == needed && !slices.Equal(named, builds) {
			w.fail("the refusal names %v, want %v", named, builds)
		}
		return kind
	})
}

func (w *world) cancelBuild() {
	id, spare := w.anyBuild(), w.chance(2)
	w.do(fmt.Sprintf("cancel-build %s spare %t", short(id), spare), func(ctx context.Context) error {
		return w.q.CancelBuild(ctx, id, spare)
	}, func() string { return w.m.cancelBuild(id, spare) })
}

func (w *world) bump() {
	id, priority := w.anyBuild(), int32(w.rng.IntN(4))
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
		case b == nil || b.outcome != 0:
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
		k.Faults, k.Until = 0, 0
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
	answer := make(chan error, 1)
	q := w.q
	go func() { answer <- q.DeleteJob(context.Background(), id) }()
	w.settle()
	want, _ := w.m.cancelJob(id, job.ID{}, true)
	w.m.round()
	if j := w.m.job(id); j != nil && j.held() {
		if len(answer) > 0 {
			w.fail("job %s is deleted and its attempt runs", id)
		}
		w.verify()
		w.seen["delete waits"]++
		if w.chance(2) {
			w.finish("confirm", job.Report{Lease: j.leaseID(), Outcome: job.Cancelled})
		}
		for j.held() && len(answer) == 0 {
			w.sleep(max(time.Second, j.lease.deadline.Sub(w.m.now)))
		}
	}
	var err error
	select {
	case err = <-answer:
	default:
		w.fail("the deletion of %s does not end", id)
	}
	switch {
	case kindOf(err) == again: // the owner went meanwhile
		return
	case want != notFound:
		want = w.m.deleteJob(id)
	}
	w.seen["delete "+kindOf(err)]++
	if kindOf(err) != want {
		w.fail("the deletion of %s was answered %v, want %q", id, err, want)
	}
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

// why compares the explanation with what the model knows (rule 13).
func (w *world) why() {
	id := w.anyJob()
	w.note("why %s", short(id))
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
	policy := w.m.channel(j.Channel)
	isReady := w.m.ready(j)
	twin := func(k *mJob) bool { return k.held() && k.Identity() == j.Identity() }
	for what, want := range map[string]bool{
		sched.WaitsForDependency: len(w.m.blockers(j)) > 0,
		sched.NotUnderWay:        !w.m.demand(j).active,
		sched.WaitsUntil:         j.wake > w.m.now && j.attempts == 0,
		sched.BacksOff:           j.wake > w.m.now && j.attempts > 0,
		sched.WaitsForTwin:       slices.ContainsFunc(w.m.jobs, twin),
		sched.NoWorker:           !w.m.served(j),
		sched.ChannelPaused:      isReady && (policy.Paused || slices.Contains(policy.PausedKinds, j.Kind)),
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
