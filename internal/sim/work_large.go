package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

// Large submissions, which are staged: nobody sees them before they are complete, and nothing stays of one that is refused, or
// whose owner goes between two of its pieces.

// submitLarge asks for a graph that takes several rounds, and looks at the engine in between.
func (w *world) submitLarge() {
	s := queue.Submission{Build: &job.Build{Group: pick(w, groups...), Priority: int32(w.rng.IntN(3)), Limits: w.limits()}}
	if w.chance(4) {
		s.Build.Gate = pick(w, job.Gate{Key: "builds", Limit: 1}, job.Gate{Key: "pair", Limit: 2})
	}
	for range w.size.stage + 1 + w.rng.IntN(12) {
		spec := w.spec()
		// No job ends before the build is complete: the model does all pieces at one moment.
		spec.CacheFailure = false
		if w.m.channels[spec.Channel].Grace != 0 {
			s.Jobs = append(s.Jobs, spec)
		}
	}
	if len(s.Jobs) <= w.size.stage {
		return
	}
	w.needs(&s)
	for i := range s.Jobs {
		s.Jobs[i].Needs = slices.DeleteFunc(s.Jobs[i].Needs, func(n job.Need) bool {
			j := w.m.job(n.Job)
			return j != nil && j.end != nil
		})
	}
	w.refs(&s)
	w.spoil(&s)
	l := &large{world: w, Submission: &s}
	op := "submit-large " + sketch(&s)
	ctx := queue.WithRequest(context.Background(), w.newID())
	if w.calm(time.Minute) { // a fault takes time, and no job may end before the build is complete
		w.arm()
		w.store.spare = w.rng.IntN(5)
	}
	w.sealing = l.sealed
	defer func() { w.sealing = nil }()
	for {
		w.note("%s", op)
		stop := w.watchStages()
		receipt, err := w.q.Submit(ctx, s)
		if found := stop(); found != nil {
			w.fail("while a build is staged: %v", found)
		}
		w.settle()
		met := w.met(l.foresee)
		w.seen["staged: "+met.String()]++
		kind := kindOf(err)
		if (fatal(met) || met == lookupFails) && kind == again {
			if !l.done {
				w.compareHistory() // nothing is left of it
			}
			continue
		}
		want := l.kind
		if !l.done {
			l.want, want = w.m.submitLarge(&s, w.newID(), w.size.stage)
		}
		w.seen["submit-large "+kind]++
		if kind != want || l.done != (kind == done) {
			w.fail("the large submission was answered %q (%v), want %q", kind, err, want)
		}
		w.received(&receipt, l.want)
		return
	}
}

// large is a large submission under way.
type large struct {
	*world
	*queue.Submission
	done bool // it is complete
	want []job.Submitted
	kind string
}

// foresee looks whether a round completed the build.
func (l *large) foresee() {
	if l.m.lead == nil {
		for _, b := range l.batches() {
			for _, c := range b.changes {
				if c, ok := c.(job.BuildSealed); ok {
					l.m.advance(b.at-1, nil)
					l.m.now = b.at // a fault may have come before
					l.sealed(c.Build)
				}
			}
		}
	}
	l.m.round()
}

// sealed has the model do the whole.
func (l *large) sealed(build job.ID) {
	if l.done {
		return
	}
	l.done = true
	l.want, l.kind = l.m.submitLarge(l.Submission, build, l.size.stage)
	for _, b := range l.batches() {
		for _, c := range b.changes {
			if a, ok := c.(job.JobAdded); ok && a.Staging == build {
				l.m.job(a.Spec.ID).at = b.at // a fault may have come between the pieces
			}
		}
	}
}

// calm reports whether nothing is due for so long.
func (w *world) calm(d time.Duration) (calm bool) {
	w.inspect(func(m *job.Machine, _ *sched.Scheduler) {
		at, due := m.Due()
		calm = !due || at > w.m.now.Add(d)
	})
	return calm
}

// submitWide asks, in one round, for many jobs, which are ready at once, or wait for one.
func (w *world) submitWide() {
	if w.size.stage < 30 {
		w.submit()
		return
	}
	s := queue.Submission{Build: &job.Build{
		ID: w.newID(), Group: pick(w, groups...), Priority: int32(w.rng.IntN(3)), Limits: w.limits(),
	}}
	root := w.chance(2)
	for i := range 8 + w.rng.IntN(16) {
		spec := w.spec()
		spec.Key, spec.NotBefore = "", 0
		if root && i > 0 {
			spec.Needs = []job.Need{{Job: s.Jobs[0].ID, Policy: job.Policy(w.rng.IntN(2))}}
		}
		s.Jobs = append(s.Jobs, spec)
	}
	w.refs(&s)
	w.order(&s)
}

// watchStages checks the engine in between all rounds until it is stopped, and then tells what it found first.
func (w *world) watchStages() (stop func() error) {
	over, found, q := make(chan struct{}), make(chan error), w.q
	go func() {
		var first error
		for {
			select {
			case <-over:
				found <- first
				return
			default:
			}
			err := q.Inspect(context.Background(), func(m *job.Machine, s *sched.Scheduler) {
				if first == nil && slices.ContainsFunc(m.Builds(), func(b job.BuildRecord) bool { return b.Staged }) {
					w.seen["look staged"]++
					first = errors.Join(m.Check(job.At(time.Now())), s.Check())
				}
			})
			if kindOf(err) == again {
				<-over
				found <- first
				return
			}
			if err != nil && first == nil {
				first = err
			}
		}
	}()
	return func() error {
		close(over)
		return <-found
	}
}

// submitLarge submits piece by piece; a refusal of one leaves nothing of the others.
func (m *model) submitLarge(s *queue.Submission, id job.ID, stage int) (reply []job.Submitted, kind string) {
	jobs, builds := len(m.jobs), len(m.builds)
	build := *s.Build
	build.ID = id
	stands := map[job.ID]job.ID{}
	for piece := range slices.Chunk(s.Jobs, stage) {
		part := queue.Submission{Build: &build, Jobs: slices.Clone(piece)}
		for i := range part.Jobs {
			j := &part.Jobs[i]
			j.Needs = slices.Clone(j.Needs)
			for k, n := range j.Needs {
				if other, ok := stands[n.Job]; ok {
					j.Needs[k].Job = other
				}
			}
			part.Refs = append(part.Refs, refsTo(s, j.ID)...)
		}
		var got []job.Submitted
		if got, kind = m.submit(&part); kind != done {
			break
		}
		for i, r := range got {
			stands[piece[i].ID] = r.ID
		}
		reply = append(reply, got...)
	}
	if kind == done {
		last := queue.Submission{Build: &build}
		for _, r := range s.Refs {
			if !slices.ContainsFunc(s.Jobs, func(j job.Spec) bool { return j.ID == r.Job }) {
				last.Refs = append(last.Refs, r)
			}
		}
		_, kind = m.submit(&last)
	}
	if kind != done {
		m.jobs, m.builds = m.jobs[:jobs], m.builds[:builds]
		return nil, kind
	}
	return reply, done
}

func refsTo(s *queue.Submission, id job.ID) (list []job.Ref) {
	for _, r := range s.Refs {
		if r.Job == id {
			list = append(list, r)
		}
	}
	return list
}
