package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// The small world in which everything meets everything. There are two groups, so that what an attempt used
// divides evenly.
var (
	channels = []string{"", "fifo", "queue", "short"}
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
	list := []action{
		{max(0, 16-crowded/3), w.submit},
		{max(0, 2-crowded/20), w.submitLarge},
		{10, w.register},
		{24, w.ask},
		{3, w.stopAsking},
		{8, w.beat},
		{26, w.tell},
		{6, w.tellOld},
		{6, w.cancelJob},
		{3, w.cancelBuild},
		{4, w.bump},
		{3, w.drain},
		{1, w.pardon},
		{2, w.removeWorker},
		{4, w.setChannel},
		{3, w.pause},
		{3, w.failJob},
		{4, w.deleteJob},
		{2, w.deleteBuild},
		{2, w.clearFailures},
		{3, w.progress},
		{6, w.why},
		{22, w.wait},
		{2, w.restart},
		{2, w.await},
		{1, w.signOff},
		{4, w.putSetting},
		{2, w.removeSetting},
	}
	if w.m.lead == nil { // else nobody can tell whether the engine knows yet that the job is ready
		list = append(list, action{4, w.take})
	} else {
		list = append(list, action{max(0, 6-crowded/6), w.submitWide}, action{16, w.overlap})
	}
	return list
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
	if name == "fifo" || name == "queue" {
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
	old := w.m.channels[c.Name]
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
		c := w.m.channels[name]
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
	if k := find(w.m.jobs, (*mJob).held); k != nil && w.chance(4) { // ask again for what is being stopped
		s.Channel, s.Kind, s.Key, s.System, s.Features, s.Pin = k.Channel, k.Kind, k.Key, k.System, k.Features, k.Pin
	}
	if w.chance(8) {
		s.NotBefore = w.now().Add(pick(w, -time.Minute, 30*time.Second, 2*time.Hour, 30*time.Hour))
	}
	if w.chance(3) {
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
	known := func(j job.Spec) bool { return w.m.job(j.ID) != nil }
	s.Fresh = w.chance(2) && (s.Build == nil || w.m.build(s.Build.ID) == nil) && !slices.ContainsFunc(s.Jobs, known)
	w.order(&s)
}

// order submits.
func (w *world) order(s *queue.Submission) {
	var receipt queue.Receipt
	var want []job.Submitted
	w.do(fmt.Sprintf("submit %s", sketch(s)), func(ctx context.Context) (err error) {
		receipt, err = w.q.Submit(ctx, *s)
		return err
	}, func() (kind string) {
		want, kind = w.m.submit(s)
		return kind
	}, func() { w.received(&receipt, want) })
}

// received compares a receipt with the one that is due.
func (w *world) received(receipt *queue.Receipt, want []job.Submitted) {
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
