package sim

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/codec"
)

// deepEvery is how often what is dear to compare is compared.
const deepEvery = 12

// verify compares all that can be seen of the engine with the model. The engine is quiet.
func (w *world) verify() {
	w.compareFeed()
	w.compareLog()
	w.compareLeases()
	w.compareAwaits()
	w.compareSettings()
	w.inspect(func(m *job.Machine, s *sched.Scheduler) {
		if m.Behind() {
			w.fail("the engine is quiet, and behind")
		}
		if err := m.Check(w.m.now); err != nil {
			w.fail("the machine: %v", err)
		}
		if err := s.Check(); err != nil {
			w.fail("the scheduler: %v", err)
		}
		w.invariants(m)
		w.compareJobs(m)
		w.compareRest(m, s)
		if w.step%deepEvery == 0 {
			w.compareRecovery(m)
		}
	})
	if w.step%deepEvery == 0 {
		w.compareHistory()
	}
}

// compareFeed: gapless, without secrets, and exactly what was stored.
func (w *world) compareFeed() {
	w.stored, w.store.batches = append(w.stored, w.store.batches...), nil
	if len(w.rounds) != len(w.stored) {
		w.fail("the watcher saw %d rounds, %d were stored", len(w.rounds), len(w.stored))
	}
	for i, r := range w.rounds {
		b := w.stored[i]
		if w.number++; r.Number != w.number || b.number != w.number || r.At != b.at {
			w.fail("round %d at %d follows round %d; stored: %d at %d", r.Number, r.At, w.number-1, b.number, b.at)
		}
		shown, err := codec.AppendChanges(nil, r.Changes)
		if err != nil || !bytes.Equal(shown, b.feed) {
			w.fail("round %d is not what was stored (%v)", r.Number, err)
		}
		for _, c := range r.Changes {
			if c, ok := c.(job.JobStarted); ok && !c.Attempt.Token.IsZero() {
				w.fail("round %d shows the token of job %s", r.Number, c.Job)
			}
		}
		w.feed = append(w.feed, shown...)
	}
	w.rounds = nil
}

// compareLog: what the model says that happened has, at its moment, and nothing else.
func (w *world) compareLog() {
	var log, put []string
	for _, b := range w.stored {
		add := func(format string, args ...any) {
			log = append(log, fmt.Sprintf("%d "+format, append([]any{b.at}, args...)...))
		}
		for i, c := range b.changes {
			if b.erases(i) {
				continue // it was never complete
			}
			switch c := c.(type) {
			case job.JobStarted:
				if j := w.m.job(c.Job); j != nil && j.last.Number == c.Attempt.Number {
					j.last.Token = c.Attempt.Token
				}
			case job.JobEnded:
				w.seen[fmt.Sprintf("end %s %s", c.End.Outcome, c.End.Detail)]++
			case job.BuildEnded:
				w.seen["build "+c.Outcome.String()]++
			default:
				// The others end nothing.
			}
			if text := tell(c); text != "" {
				add("%s", text)
			}
			if text := tellSetting(c); text != "" {
				put = append(put, fmt.Sprintf("%d %s", b.at, text))
			}
		}
	}
	slices.Sort(log)
	slices.Sort(w.m.log)
	for _, have := range log {
		if !slices.Contains(w.m.log, have) {
			w.fail("the engine did, and should not have:\n\t%s\nit did\n\t%s\nand should have done\n\t%s",
				have, strings.Join(log, "\n\t"), strings.Join(w.m.log, "\n\t"))
		}
	}
	if !slices.Equal(log, w.m.log) {
		w.fail("the engine did\n\t%s\nand should have done\n\t%s", strings.Join(log, "\n\t"), strings.Join(w.m.log, "\n\t"))
	}
	if !slices.Equal(put, w.m.put) {
		w.fail("of settings the engine stored\n\t%s\nand should have stored\n\t%s", strings.Join(put, "\n\t"), strings.Join(w.m.put, "\n\t"))
	}
	w.m.log, w.m.put, w.stored = nil, nil, nil
	w.followed = followed{}
}

// tell says what a change makes happen, as the model does; "" if that is compared elsewhere.
func tell(c job.Change) string {
	switch c := c.(type) {
	case job.JobStarted:
		return fmt.Sprintf("start %s %d %s", c.Job, c.Attempt.Number, c.Attempt.Worker)
	case job.JobRetried:
		return fmt.Sprintf("again %s %s %q %d", c.Job, c.Attempt.Outcome, c.Attempt.Detail, c.Wake)
	case job.JobEnded:
		e := c.End
		return fmt.Sprintf("end %s %s %q cached=%t root=%s %s", c.Job, e.Outcome, e.Detail, e.Cached, e.Root, e.RootOutcome)
	case job.JobFreed:
		return fmt.Sprintf("freed %s", c.Job)
	case job.BuildEnded:
		return fmt.Sprintf("build %s %s", c.Build, c.Outcome)
	default:
		return "" // the model keeps no account of the others
	}
}

// erases reports whether the i-th change ends what belongs to a build that never was complete: the build, or a job made for it.
func (b *batch) erases(i int) bool {
	switch c := b.changes[i].(type) {
	case job.BuildEnded:
		return c.Erased
	case job.JobEnded:
		if i+1 < len(b.changes) {
			d, ok := b.changes[i+1].(job.JobDeleted)
			return ok && d.Job == c.Job
		}
	default:
		// The others end nothing.
	}
	return false
}

// compareLeases: each worker that waits was given what it should have been, or waits on.
func (w *world) compareLeases() {
	w.leases = slices.DeleteFunc(w.leases, func(c *leaseCall) bool {
		answered := false
		select {
		case <-c.done:
			answered = true
		default:
		}
		if want := len(c.due) > 0 || c.kind != done; answered != want {
			w.fail("worker %s waits for %d: answered %t (%d, %v), want %t (%d, %q)",
				c.worker, c.want, answered, len(c.got), c.err, want, len(c.due), c.kind)
		}
		if !answered {
			return false
		}
		w.seen["lease "+kindOf(c.err)]++
		if kindOf(c.err) != c.kind || c.kind == done && len(c.got) != len(c.due) {
			w.fail("worker %s was given %d and told %v, want %d and %q", c.worker, len(c.got), c.err, len(c.due), c.kind)
		}
		for i, a := range c.got {
			w.given(c, a, c.due[i])
		}
		return true
	})
	for _, k := range w.work {
		j := w.m.job(k.Lease.Job)
		stopped := j == nil || !j.running() || j.last.Number != k.Lease.Attempt
		select {
		case <-k.Stop:
			if !stopped {
				w.fail("job %s: the worker was told to stop attempt %d", k.Lease.Job, k.Lease.Attempt)
			}
		default:
			if stopped && k.life == w.life {
				w.fail("job %s: the worker was not told to stop attempt %d", k.Lease.Job, k.Lease.Attempt)
			}
		}
	}
}

func (w *world) given(c *leaseCall, a queue.Assignment, j *mJob) {
	w.note("    %s is given %s (%s)", c.worker, short(a.Lease.Job), a.Spec.Key)
	if a.Lease.Job != j.ID {
		w.fail("worker %s was given job %s, want %s", c.worker, a.Lease.Job, j.ID)
	}
	if a.Spec.Kind != j.Kind || a.Spec.Key != j.Key || string(a.Spec.Args) != string(j.Args) {
		w.fail("worker %s was given job %s as %+v, want %+v", c.worker, j.ID, a.Spec, j.Spec)
	}
	if j.running() && a.Lease.Attempt == j.last.Number && (a.Limits != j.last.Limits || a.TTL != j.last.ttl) {
		w.fail("job %s: limits %v and TTL %v, want %v and %v", j.ID, a.Limits, a.TTL, j.last.Limits, j.last.ttl)
	}
	w.work = append(w.work, &work{Assignment: a, worker: c.worker, life: c.life})
}

func short(id job.ID) string { return fmt.Sprintf("%x", id[13:]) }

// compareAwaits: who waits for the end of a build is told of it, and not before.
func (w *world) compareAwaits() {
	w.awaits = slices.DeleteFunc(w.awaits, func(c *awaitCall) bool {
		answered := false
		select {
		case <-c.done:
			answered = true
		default:
		}
		b := w.m.build(c.build)
		over := c.life != w.life || !b.live()
		if answered != over {
			w.fail("who waits for build %s is answered: %t, want %t", c.build, answered, over)
		}
		if answered && c.err == nil && b != nil && c.got.Outcome != b.outcome {
			w.fail("build %s was awaited and ended %s, want %s", c.build, c.got.Outcome, b.outcome)
		}
		return answered
	})
}

// compareJobs: each job in memory is where it should be, worth what it should be.
func (w *world) compareJobs(m *job.Machine) {
	count := 0
	for _, j := range w.m.jobs {
		if j.end != nil && !j.held() {
			continue
		}
		count++
		real, ok := m.Job(j.ID)
		if !ok {
			w.fail("job %s (%s) is not in memory", j.ID, w.stateOf(j))
		}
		have, want := w.describe(real), w.expect(j)
		if have != want {
			w.fail("job %s is\n\t%s\nwant\n\t%s", j.ID, have, want)
		}
		if l := m.LimitsOf(real); j.running() && l != j.last.Limits {
			w.fail("job %s has the limits %v, want %v", j.ID, l, j.last.Limits)
		}
	}
	if m.Len() != count {
		w.fail("%d jobs are in memory, want %d", m.Len(), count)
	}
}

func (w *world) stateOf(j *mJob) string {
	switch {
	case j.end != nil:
		return "Done"
	case j.running():
		return "Running"
	case w.m.ready(j):
		return "Ready"
	default:
		return "Blocked"
	}
}

const line = "%s held=%t attempt=%d priority=%d path=%v waits=%d groups=%v needed=%t wake=%d tally=%v"

func (w *world) describe(j *job.Job) string {
	number := int32(0)
	if a := j.Attempt(); a != nil {
		number = a.Number
	}
	if _, ok := j.State().(job.Done); ok {
		return fmt.Sprintf(line, j.State(), j.Held(), number, 0, time.Duration(0), 0, []string(nil), false, 0, job.Tally{})
	}
	var groups []string
	if a := j.Audience(); a != nil {
		groups = a.Groups()
	}
	t := j.Tally()
	t.Attempts, t.Turn = 0, 0
	return fmt.Sprintf(line, j.State(), j.Held(), number, j.Priority(), j.Path(), j.Waits(), groups, j.Needed(),
		max(j.Wake(), w.m.now), t)
}

func (w *world) expect(j *mJob) string {
	if j.end != nil {
		return fmt.Sprintf(line, "Done", j.held(), j.last.Number, 0, time.Duration(0), 0, []string(nil), false, 0, job.Tally{})
	}
	d := w.m.demand(j)
	if d.priority == math.MinInt32 { // nobody's
		d.priority = 0
	}
	return fmt.Sprintf(line, w.stateOf(j), j.held(), j.last.Number, d.priority, d.path+j.Estimate, len(j.blockers()), d.groups, len(d.groups) > 0,
		max(j.wake, w.m.now), j.tally)
}

// compareRest: builds, workers and who waits.
func (w *world) compareRest(m *job.Machine, s *sched.Scheduler) {
	var have, want []string
	for _, b := range m.Builds() {
		have = append(have, fmt.Sprintf("build %s active=%t priority=%d", b.Build.ID, b.Active, b.Build.Priority))
	}
	for _, b := range w.m.builds {
		if b.live() {
			want = append(want, fmt.Sprintf("build %s active=%t priority=%d", b.ID, b.active, b.Priority))
		}
	}
	const format = "worker %s drained=%t faults=%d until=%d used=%d wants=%d"
	for _, n := range m.Workers() {
		k, _ := m.Worker(n)
		have = append(have, fmt.Sprintf(format, n, k.Drained, k.Faults, max(k.Until, w.m.now), m.Used(n), s.Wants(n)))
	}
	for _, k := range w.m.workers {
		want = append(want, fmt.Sprintf(format, k.Name, k.Drained, k.Faults, max(k.Until, w.m.now), len(w.m.on(k)), k.wants()))
	}
	if !slices.Equal(have, want) {
		w.fail("there are\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// invariants looks at the engine alone, without the model.
func (w *world) invariants(m *job.Machine) {
	identities := map[job.Identity]bool{}
	leases := map[job.ID]int{}
	keys := map[string]int32{}
	for _, n := range m.Workers() {
		k, _ := m.Worker(n)
		used, exclusive := int32(0), false
		m.Leases(n, func(j *job.Job) {
			used++
			exclusive = exclusive || j.Exclusive()
			leases[j.ID()]++
		})
		if used > k.Slots || exclusive && used > 1 {
			w.fail("worker %s has %d attempts in %d slots, exclusive %t", n, used, k.Slots, exclusive)
		}
	}
	for _, j := range m.Jobs() {
		_, running := j.State().(job.Running)
		if want := running || j.Held(); leases[j.ID()] > 1 || (leases[j.ID()] == 1) != want {
			w.fail("job %s is %s and has %d leases", j.ID(), j.State(), leases[j.ID()])
		}
		if _, over := j.State().(job.Done); !over && identities[j.Identity()] {
			w.fail("two unfinished jobs are %v", j.Identity())
		} else if !over {
			identities[j.Identity()] = true
		}
		if _, ready := j.State().(job.Ready); ready && j.Waits() > 0 {
			w.fail("job %s is Ready and waits for %d", j.ID(), j.Waits())
		}
		if g := j.Gate(); g.Key != "" && (running || j.Held()) {
			key := j.Class().Channel + "/" + g.Key
			if keys[key]++; keys[key] > max(g.Limit, 1) {
				w.fail("%d hold concurrency key %q", keys[key], g.Key)
			}
		}
	}
}

// compareRecovery: what a new owner would load now is what this one has.
func (w *world) compareRecovery(live *job.Machine) {
	loaded := job.New(w.now())
	head, err := w.store.Store.Load(context.Background(), loaded.Apply)
	if err != nil {
		w.fail("load: %v", err)
	}
	loaded.Restore(head.Seq)
	loaded.Loaded(w.now())
	have, want := w.dump(loaded), w.dump(live)
	for i := range max(len(have), len(want)) {
		if i >= len(have) || i >= len(want) || have[i] != want[i] {
			w.fail("a new owner would load\n\t%s\nand this one has\n\t%s", have[min(i, len(have)):], want[min(i, len(want)):])
		}
	}
}

func (w *world) dump(m *job.Machine) []string {
	var b strings.Builder
	fmt.Fprintln(&b, m.Seq())
	for _, j := range m.Jobs() {
		fmt.Fprintln(&b, j.ID(), j.Seq(), w.describe(j), j.Gate(), j.Class(), j.Exclusive())
		at, ok := m.GivenUp(j)
		fmt.Fprintln(&b, max(at, w.m.now), ok)
	}
	for _, r := range m.Builds() {
		fmt.Fprintln(&b, r.Build.ID, r.Seq, r.Active, r.Staged, r.Build.Priority, r.Build.Gate)
	}
	for _, n := range m.Workers() {
		k, _ := m.Worker(n)
		fmt.Fprintln(&b, k, m.Used(n))
	}
	fmt.Fprintf(&b, "%q\n", m.Settings())
	// A new owner notes in its first round which attempts fill the whole window, and caps what they use.
	old := func(j *mJob) bool { return j.running() && j.last.Start.Add(job.UsageWindow) <= w.m.now }
	if slices.ContainsFunc(w.m.jobs, old) {
		return strings.Split(b.String(), "\n")
	}
	for _, c := range channels {
		use, shares := m.ChannelUse(c, w.m.now)
		fmt.Fprintln(&b, m.Channel(c), use, shares)
		for _, g := range groups {
			use, shares := m.GroupUse(c, g, w.m.now)
			fmt.Fprintln(&b, g, use, shares)
		}
	}
	return strings.Split(b.String(), "\n")
}

// compareHistory: everything that was ever acknowledged is there.
func (w *world) compareHistory() {
	recs, err := w.store.Jobs(context.Background(), queue.JobFilter{Limit: 10_000})
	if err != nil {
		w.fail("history: %v", err)
	}
	byID := map[job.ID]*job.Record{}
	for i := range recs {
		byID[recs[i].Spec.ID] = &recs[i]
	}
	if len(byID) != len(w.m.jobs) {
		w.fail("the history has %d jobs, want %d", len(byID), len(w.m.jobs))
	}
	for _, j := range w.m.jobs {
		r := byID[j.ID]
		if r == nil {
			w.fail("job %s is not in the history", j.ID)
		}
		if (r.End == nil) != (j.end == nil) || j.end != nil && (r.End.Outcome != j.end.Outcome || r.End.Root != j.end.Root) {
			w.fail("job %s is stored as ended %+v, want %+v", j.ID, r.End, j.end)
		}
		if r.Tally.Attempts != j.last.Number || r.Running != j.running() || r.Held != j.held() {
			w.fail("job %s is stored with %d attempts, running %t, held %t", j.ID, r.Tally.Attempts, r.Running, r.Held)
		}
	}
	builds, err := w.store.Builds(context.Background(), queue.BuildFilter{Limit: 10_000})
	if err != nil || len(builds) != len(w.m.builds) {
		w.fail("the history has %d builds, want %d (%v)", len(builds), len(w.m.builds), err)
	}
	for _, b := range builds {
		if want := w.m.build(b.Build.ID); want == nil || want.outcome != b.Outcome {
			w.fail("build %s is stored as %s", b.Build.ID, b.Outcome)
		}
	}
}
