package queue

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/headrace/headrace/job"
)

// Submission asks for jobs; see job.Submission. Jobs and the build may come without ids.
type Submission struct {
	// Build that wants the jobs; nil: each job stands for itself.
	Build *job.Build
	Jobs  []job.Spec
	// Refs are the build's targets and awaited jobs.
	Refs []job.Ref
	// Own is what jobs get that belong to no build.
	Own job.Own
	// Fresh: the ids that are given were made for this very call, so that none can be in use, and the store need not be asked. It
	// must be true: a job of the same id in the history would keep the round from being stored.
	Fresh bool
}

// Receipt tells what became of a submission.
type Receipt struct {
	// Build is its id; zero without one.
	Build job.ID
	// Jobs has an entry for each job asked for, in order.
	Jobs []job.Submitted
}

// stageSize is how many jobs one round takes of a large submission, if Config does not say.
const stageSize = 2000

// MaxAlone is how many jobs one submission without a build may ask for: they are made in one round, which others wait for.
const MaxAlone = 10_000

// errGivenUp says that a large build was cancelled, or its owner stepped down, before it was complete.
var errGivenUp = errors.New("the build was given up before it was complete")

// errDeleted says that a job which an earlier piece of a large build rests on was deleted before the build was complete.
var errDeleted = errors.New("a job that stands for one of the build was deleted before the build was complete")

// errBeingMade says that an id is that of a job of a large build which is being made, or taken away as it was given up: by the
// same submission, most often, whose caller did not wait for the answer.
var errBeingMade = errors.New("a job of this id is of a build that is not complete")

// Submit asks for jobs, all or none. Needs name jobs of the same submission or others by id. A build of more than
// some thousand jobs is staged: it grows unseen over many rounds, while others go on, and becomes visible by one
// change; its Jobs must come dependencies first. Errors: *job.InvalidError, *job.ConflictError, *job.CycleError,
// ErrNotFound with the place of the need or reference; *RetryError, too, if a large build was given up meanwhile, or a job
// that it reuses or joined was deleted, and while a job of a given id is of a large build that is not complete.
func (q *Queue) Submit(ctx context.Context, s Submission) (Receipt, error) {
	switch {
	case len(s.Jobs) > q.StageSize && s.Build != nil:
		return q.stage(ctx, &s)
	case len(s.Jobs) > MaxAlone:
		return Receipt{}, &job.InvalidError{Field: "jobs", Want: fmt.Sprintf("at most %d without a build", MaxAlone)}
	}
	given := q.name(&s)
	if s.Fresh {
		clear(given.jobs)
		given.build = false
	}
	receipt := Receipt{}
	if s.Build != nil {
		receipt.Build = s.Build.ID
	}
	in := job.Submission{Build: s.Build, Jobs: s.Jobs, Refs: s.Refs, Own: s.Own}
	return do(ctx, q, command{name: submitName, weight: len(s.Jobs), query: askAbout(&in, given)}, func(r *round) ([]job.Change, Receipt, error) {
		if err := r.unused(given); err != nil {
			return nil, Receipt{}, err
		}
		changes, jobs, err := r.q.machine.Submit(r.at.Now, &in, &r.found.Facts)
		receipt.Jobs = jobs
		return changes, receipt, err
	})
}

const submitName = "submit"

// given tells which ids the caller made, so that they may be in use already.
type given struct {
	build bool
	jobs  map[job.ID]bool
}

// name gives ids to what has none, and makes the submission the queue's own: the caller may change what it gave as soon as
// Submit has returned, which may be before the owner has read it, and is before a worker gets it.
func (q *Queue) name(s *Submission) given {
	g := given{jobs: map[job.ID]bool{}}
	if s.Build != nil {
		b := *s.Build
		g.build = !b.ID.IsZero()
		if !g.build {
			b.ID = q.NewID()
		}
		b.Labels = maps.Clone(b.Labels)
		s.Build = &b
	}
	s.Refs = slices.Clone(s.Refs)
	jobs := make([]job.Spec, len(s.Jobs))
	copy(jobs, s.Jobs)
	for i := range jobs {
		spec := &jobs[i]
		spec.Args, spec.Features, spec.Needs = bytes.Clone(spec.Args), slices.Clone(spec.Features), slices.Clone(spec.Needs)
		if spec.ID.IsZero() {
			spec.ID = q.NewID()
		} else {
			g.jobs[spec.ID] = true
		}
	}
	s.Jobs = jobs
	return g
}

// unused reports a *RetryError if a given id may soon be free.
func (r *round) unused(g given) error {
	for id := range g.jobs {
		if j, ok := r.q.machine.Job(id); ok && j.Unborn() {
			return &RetryError{Cause: fmt.Errorf("job %s: %w", id, errBeingMade)}
		}
	}
	return nil
}

// askAbout says what a submission names that memory may not hold.
func askAbout(s *job.Submission, g given) func(*job.Machine, *Query) {
	return func(m *job.Machine, q *Query) {
		if s.Build != nil && g.build {
			if _, live := m.Build(s.Build.ID); !live {
				q.Builds = append(q.Builds, s.Build.ID)
			}
		}
		here := make(map[job.ID]bool, len(s.Jobs))
		for i := range s.Jobs {
			here[s.Jobs[i].ID] = true
		}
		seen := map[job.ID]bool{}
		elsewhere := func(id job.ID) {
			if _, inMemory := m.Job(id); !inMemory && !here[id] && !seen[id] {
				seen[id] = true
				q.Jobs = append(q.Jobs, id)
			}
		}
		for i := range s.Jobs {
			spec := &s.Jobs[i]
			if g.jobs[spec.ID] {
				q.Jobs = append(q.Jobs, spec.ID)
			}
			if spec.Reuse {
				q.Kept = append(q.Kept, spec.Likeness())
			}
			if spec.CacheFailure {
				q.Cached = append(q.Cached, spec.Identity())
			}
			if spec.Estimate == 0 && spec.Name != "" {
				q.Took = append(q.Took, spec.Series())
			}
			for _, n := range spec.Needs {
				elsewhere(n.Job)
			}
		}
		for _, r := range s.Refs {
			elsewhere(r.Job)
		}
	}
}

// stage submits a large build in pieces.
func (q *Queue) stage(ctx context.Context, s *Submission) (Receipt, error) {
	if !s.Build.ID.IsZero() {
		return Receipt{}, &job.InvalidError{Field: "build.id", Want: "a large build must be new: leave it empty"}
	}
	if told, ok, err := q.Submitted(ctx); ok || err != nil {
		return told, err
	}
	whole := Submission{Build: s.Build}
	q.name(&whole)
	build := whole.Build
	receipt, err := q.pieces(ctx, build, s)
	if err == nil && receipt.Build == build.ID {
		return receipt, nil
	}
	// Refused, or the request was answered meanwhile: nothing of this may stay. If this fails, too, the next load gives it up.
	undo := context.WithValue(context.WithoutCancel(ctx), requestKey{}, nil)
	_ = change(undo, q, command{name: "give a build up"}, func(r *round) ([]job.Change, error) {
		if b, ok := r.q.machine.Build(build.ID); !ok || !b.Staged {
			return nil, ErrNotFound
		}
		// What it made never ran; what runs, it had only joined.
		return r.q.machine.CancelBuild(r.at.Now, build.ID, true)
	})
	return receipt, err
}

// Submitted gives the answer to the submission that was made under the request id of the context; ok is false if none was.
func (q *Queue) Submitted(ctx context.Context) (receipt Receipt, ok bool, err error) {
	stored, ok, err := q.answerTo(ctx)
	if err != nil || !ok {
		return Receipt{}, false, err
	}
	c := call{command: command{name: submitName}, request: RequestOf(ctx), fresh: func() any { return new(Receipt) }}
	v, err := c.recall(stored)
	if err != nil {
		return Receipt{}, false, err
	}
	return *v.(*Receipt), true, nil
}

// pieces submits the jobs piece by piece, and seals the build. While one is being stored the next is decided; of what the caller gave no more
// is copied at once than these two.
func (q *Queue) pieces(ctx context.Context, build *job.Build, s *Submission) (Receipt, error) {
	receipt := Receipt{Build: build.ID, Jobs: make([]job.Submitted, 0, len(s.Jobs))}
	places := make(map[job.ID]int32, len(s.Jobs))
	for i := range s.Jobs {
		if id := s.Jobs[i].ID; !id.IsZero() {
			if _, twice := places[id]; !twice {
				places[id] = int32(i)
			}
		}
	}
	refs, last := s.byPlace(places)
	before := &pieceUnderWay{stored: true}
	for from := 0; from < len(s.Jobs); from += q.StageSize {
		part := Submission{Jobs: s.Jobs[from:min(from+q.StageSize, len(s.Jobs))]}
		for len(refs) > 0 && int(places[s.Refs[refs[0]].Job]) < from+len(part.Jobs) {
			part.Refs = append(part.Refs, s.Refs[refs[0]])
			refs = refs[1:]
		}
		g := q.name(&part)
		piece := job.Submission{Build: build, Staged: true, First: from, Jobs: part.Jobs, Refs: part.Refs}
		var earlier []job.ID // that jobs of this piece need
		for i := range piece.Jobs {
			needed, err := restate(&piece.Jobs[i], from+i, places, receipt.Jobs)
			if err != nil {
				return Receipt{}, errors.Join(before.wait(), err)
			}
			earlier = append(earlier, needed...)
		}
		now := q.beginPiece(ctx, &piece, g, earlier)
		jobs, err := now.decide()
		if earlier := before.wait(); earlier != nil {
			_ = now.wait() // It cannot be stored either.
			return Receipt{}, earlier
		}
		if err != nil {
			return Receipt{}, err
		}
		before = now
		receipt.Jobs = append(receipt.Jobs, jobs...)
	}
	if err := before.wait(); err != nil {
		return Receipt{}, err
	}
	if len(last) > 0 {
		rest := &job.Submission{Build: build, Staged: true, Refs: last}
		if err := q.beginPiece(ctx, rest, given{}, nil).wait(); err != nil {
			return Receipt{}, err
		}
	}
	// The seal carries the request: what it answers is the answer to the whole.
	return do(ctx, q, command{name: submitName}, func(r *round) ([]job.Change, Receipt, error) {
		if !r.growing(build.ID) {
			return nil, Receipt{}, &RetryError{Cause: errGivenUp}
		}
		changes, err := r.q.machine.Seal(build.ID)
		return changes, receipt, err
	})
}

// byPlace gives the references to jobs of the submission, as indexes, in the order of the jobs, and those to others.
func (s *Submission) byPlace(places map[job.ID]int32) (here []int32, others []job.Ref) {
	for i, r := range s.Refs {
		if _, ok := places[r.Job]; ok {
			here = append(here, int32(i))
		} else {
			others = append(others, r)
		}
	}
	slices.SortStableFunc(here, func(a, b int32) int { return cmp.Compare(places[s.Refs[a].Job], places[s.Refs[b].Job]) })
	return here, others
}

// growing reports whether the build is live and not complete.
func (r *round) growing(build job.ID) bool {
	b, ok := r.q.machine.Build(build)
	return ok && b.Staged
}

// restate lets the needs of one job name the jobs that stand for those of earlier pieces, and gives those that must be there.
func restate(spec *job.Spec, place int, places map[job.ID]int32, stands []job.Submitted) (needed []job.ID, err error) {
	for i := range spec.Needs {
		n := &spec.Needs[i]
		if at, ok := places[n.Job]; ok && int(at) < len(stands) {
			n.Job = stands[at].ID
			if n.Policy != job.Order {
				needed = append(needed, n.Job)
			}
		}
	}
	if at, ok := places[spec.ID]; ok && int(at) < len(stands) {
		return nil, &job.InvalidError{Field: fmt.Sprintf("jobs[%d].id", place), Want: fmt.Sprintf("%s is already in use", spec.ID)}
	}
	return needed, nil
}

// pieceUnderWay is one piece of a large build, which is first decided, and then stored.
type pieceUnderWay struct {
	decided chan []job.Submitted // what it became
	over    chan error           // it is stored, or will not be
	stored  bool
}

// decide waits until it is decided what the piece became. An error is why it will not be stored.
func (p *pieceUnderWay) decide() ([]job.Submitted, error) {
	select {
	case jobs := <-p.decided:
		return jobs, nil
	case err := <-p.over:
		p.stored = true
		if err != nil {
			return nil, err
		}
		return <-p.decided, nil
	}
}

// wait waits until the piece is stored, or will not be.
func (p *pieceUnderWay) wait() error {
	if p.stored {
		return nil
	}
	p.stored = true
	return <-p.over
}

// beginPiece makes one piece of a large build. The first makes the build; for a later one it must be there still, or what
// was made before would be missing. So must the jobs of earlier pieces that it needs: one that ended, or had ended, may have
// been deleted. Nobody asked for that one by name, so the caller is not told that it is unknown, but that it may ask again.
func (q *Queue) beginPiece(ctx context.Context, piece *job.Submission, g given, earlier []job.ID) *pieceUnderWay {
	ctx = context.WithValue(ctx, requestKey{}, nil)
	p := &pieceUnderWay{decided: make(chan []job.Submitted, 1), over: make(chan error, 1)}
	go func() {
		p.over <- change(ctx, q, command{name: "submit a piece", weight: len(piece.Jobs), query: askAbout(piece, g)}, func(r *round) ([]job.Change, error) {
			if (piece.First > 0 || len(piece.Jobs) == 0) && !r.growing(piece.Build.ID) {
				return nil, &RetryError{Cause: errGivenUp}
			}
			for _, id := range earlier {
				if _, ok := r.q.machine.Job(id); !ok && r.found.Jobs[id] == nil {
					return nil, &RetryError{Cause: errDeleted}
				}
			}
			if err := r.unused(g); err != nil {
				return nil, err
			}
			changes, jobs, err := r.q.machine.Submit(r.at.Now, piece, &r.found.Facts)
			if err == nil {
				p.decided <- jobs
			}
			return changes, err
		})
	}()
	return p
}
