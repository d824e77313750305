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

// Large submissions, which are staged: nobody sees them before they are complete, and nothing stays of one that is refused.

// stageSize is how many jobs a round takes in the small world: more than any other submission has.
const stageSize = 6

// submitLarge asks for a graph that takes several rounds, and looks at the engine in between.
func (w *world) submitLarge() {
	s := queue.Submission{Build: &job.Build{Group: pick(w, groups...), Priority: int32(w.rng.IntN(3)), Limits: w.limits()}}
	if w.chance(4) {
		s.Build.Gate = pick(w, job.Gate{Key: "builds", Limit: 1}, job.Gate{Key: "pair", Limit: 2})
	}
	for range stageSize + 1 + w.rng.IntN(2*stageSize) {
		spec := w.spec()
		// No job ends before the build is complete: the model does all pieces at one moment.
		spec.CacheFailure = false
		if w.m.channel(spec.Channel).Grace != 0 {
			s.Jobs = append(s.Jobs, spec)
		}
	}
	if len(s.Jobs) <= stageSize {
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
	var receipt queue.Receipt
	var want []job.Submitted
	faulty := w.faulty
	w.faulty = false
	defer func() { w.faulty = faulty }()
	w.do("submit-large "+sketch(&s), func(ctx context.Context) (err error) {
		stop := w.watchStages()
		receipt, err = w.q.Submit(ctx, s)
		if found := stop(); found != nil {
			w.fail("while a build is staged: %v", found)
		}
		return err
	}, func() (kind string) {
		want, kind = w.m.submitLarge(&s, receipt.Build)
		return kind
	})
	if !slices.Equal(receipt.Jobs, want) {
		w.fail("the receipt is %v, want %v", receipt.Jobs, want)
	}
	for _, r := range receipt.Jobs {
		w.past = append(w.past, r.ID)
		w.seen["submitted "+r.How.String()]++
	}
	if want == nil {
		for _, j := range s.Jobs {
			w.abandoned[j.ID] = w.m.job(j.ID) == nil
		}
	}
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
func (m *model) submitLarge(s *queue.Submission, id job.ID) (reply []job.Submitted, kind string) {
	jobs, builds := len(m.jobs), len(m.builds)
	build := *s.Build
	build.ID = id
	stands := map[job.ID]job.ID{}
	for piece := range slices.Chunk(s.Jobs, stageSize) {
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
