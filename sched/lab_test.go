package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
)

// lab is a scheduler over a machine, with a clock and a supply of ids.
type lab struct {
	t   failer
	m   *job.Machine
	s   *Scheduler
	now job.Time
	ids uint64
	// back says when a job was put back last.
	back map[job.ID]job.Time
}

// failer is what a lab needs of a test: testing.TB and *rapid.T have it.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

var _ failer = testing.TB(nil)

type steady struct{}

func (steady) Uint64() uint64 { return 0 }

func newLab(t failer) *lab {
	l := &lab{t: t, back: map[job.ID]job.Time{}, now: job.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	l.m = job.New(l.now)
	l.m.Loaded(l.now)
	l.s = New(l.m)
	return l
}

func (l *lab) id() job.ID {
	l.ids++
	var id job.ID
	for i, n := 15, l.ids; n > 0; i, n = i-1, n>>8 {
		id[i] = byte(n)
	}
	return id
}

func (l *lab) at() job.Moment { return job.Moment{Now: l.now, Random: steady{}} }

func (l *lab) do(changes []job.Change, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, c := range changes {
		if err := l.m.Apply(c); err != nil {
			l.t.Fatal(err)
		}
	}
	l.note(changes)
	for again := true; again; again = l.m.Behind() {
		changes, err := l.m.Advance(l.at(), 100_000)
		if err != nil {
			l.t.Fatal(err)
		}
		l.note(changes)
	}
	l.s.Update()
}

func (l *lab) note(changes []job.Change) {
	for _, c := range changes {
		if r, ok := c.(job.JobRetried); ok {
			l.back[r.Job] = r.Attempt.At
		}
	}
}

func (l *lab) worker(w job.Worker) {
	l.t.Helper()
	if w.Channels == nil {
		w.Channels = []string{""}
	}
	if w.Kinds == nil {
		w.Kinds = []string{"k"}
	}
	w.Slots, w.Session = max(w.Slots, 1), l.id()
	l.do(l.m.Register(l.at(), w, nil))
}

// submit asks for jobs of kind k, all of them wanted.
func (l *lab) submit(b job.Build, jobs ...job.Spec) []job.ID {
	l.t.Helper()
	b.ID = l.id()
	s := job.Submission{Build: &b, Jobs: jobs}
	ids := make([]job.ID, len(jobs))
	for i := range jobs {
		if jobs[i].ID.IsZero() {
			jobs[i].ID = l.id()
		}
		if jobs[i].Kind == "" {
			jobs[i].Kind = "k"
		}
		ids[i] = jobs[i].ID
		s.Refs = append(s.Refs, job.Ref{Job: ids[i]})
	}
	changes, _, err := l.m.Submit(l.now, &s, nil)
	l.do(changes, err)
	return ids
}

// next takes the next decision and carries it out.
func (l *lab) next() (j *job.Job, worker string, lease job.Lease, ok bool) {
	l.t.Helper()
	j, worker, ok = l.s.Next(l.now)
	if !ok {
		return nil, "", job.Lease{}, false
	}
	token := job.Token(l.id())
	l.do(l.m.Start(l.at(), j.ID(), worker, token))
	l.s.Want(worker, l.s.Wants(worker)-1, 0)
	return j, worker, job.Lease{Job: j.ID(), Attempt: j.Attempt().Number, Token: token}, true
}

func (l *lab) finish(lease job.Lease) {
	l.t.Helper()
	changes, _, err := l.m.Finish(l.at(), job.Report{Lease: lease, Outcome: job.Succeeded}, nil)
	l.do(changes, err)
}

func many(n int, spec job.Spec) []job.Spec {
	list := make([]job.Spec, n)
	for i := range list {
		list[i] = spec
		list[i].Name = fmt.Sprintf("%s%d", spec.Name, i)
	}
	return list
}
