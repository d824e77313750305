package archive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/storetest"
)

// life is a queue that is used at random.
type life struct {
	t      testing.TB
	q      *queue.Queue
	r      *rand.Rand
	jobs   []job.ID
	builds []job.ID
	leases []job.Lease
	uses   byte
}

var session = job.ID{7}

// live uses a queue on a store for so many steps, with restarts between, and closes the store.
func live(t testing.TB, b *backend, address string, seed uint64, steps int) {
	t.Helper()
	l := &life{t: t, r: rand.New(rand.NewPCG(seed, 1))}
	for range 3 {
		s, err := b.own(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		l.use(s, steps)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (l *life) use(s storetest.Store, steps int) {
	l.t.Helper()
	q, err := queue.Open(queue.Config{Store: s, History: s, GiveUp: true, Random: l.r})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	l.q = q
	c := job.DefaultChannel("main")
	c.Retry.Delay = time.Microsecond
	l.must(q.SetChannel(ctx, c))
	l.must(q.PutSetting(ctx, job.Setting{Space: "token", Name: "one", Body: []byte{l.uses}}, job.Always))
	l.must(q.SignOff(ctx, "w", session))
	l.must(q.Register(ctx, job.Worker{Name: "w", Channels: []string{"main"}, Kinds: []string{"k"}, Slots: 6, Session: session}, l.leases...))
	for range steps {
		l.step(ctx)
	}
	// Whatever came before, something is left that could run if there were a worker for it, and something that waits for it.
	l.uses++
	first, second := job.ID{0: 'z', 14: l.uses, 15: 1}, job.ID{0: 'z', 14: l.uses, 15: 2}
	_, err = q.Submit(ctx, queue.Submission{Jobs: []job.Spec{
		{ID: first, Channel: "main", Kind: "k", System: "of no worker"},
		{ID: second, Channel: "main", Kind: "k", Needs: []job.Need{{Job: first}}},
	}})
	l.must(err)
	stop()
	l.must(<-done)
}

// must takes no error but those by which the queue refuses what is not possible.
func (l *life) must(err error) {
	l.t.Helper()
	if err == nil {
		return
	}
	for _, refusal := range []error{job.ErrBusy, job.ErrEnded, job.ErrLeaseLost, queue.ErrNotFound, context.DeadlineExceeded} {
		if errors.Is(err, refusal) {
			return
		}
	}
	var needed *job.NeededError
	var conflict *job.ConflictError
	if !errors.As(err, &needed) && !errors.As(err, &conflict) {
		l.t.Fatal(err)
	}
}

func pick[T any](l *life, list []T) (v T) {
	if len(list) > 0 {
		v = list[l.r.IntN(len(list))]
	}
	return v
}

func (l *life) step(ctx context.Context) {
	switch l.r.IntN(12) {
	case 0, 1:
		l.submit(ctx)
	case 2, 3, 4:
		l.lease(ctx)
	case 5, 6, 7:
		l.finish(ctx)
	case 8:
		l.must(l.q.CancelJob(ctx, pick(l, l.jobs), job.ID{}, true, "no more"))
	case 9:
		if l.r.IntN(3) == 0 {
			l.must(l.q.CancelBuild(ctx, pick(l, l.builds), l.r.IntN(2) == 0))
		}
		l.must(l.q.Bump(ctx, pick(l, l.builds), int32(l.r.IntN(9))))
	case 10:
		l.must(l.q.DeleteBuild(ctx, pick(l, l.builds)))
	case 11:
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		l.must(l.q.DeleteJob(short, pick(l, l.jobs)))
	}
}

func (l *life) submit(ctx context.Context) {
	s := queue.Submission{}
	b := job.Build{ID: l.q.NewID(), Name: "b", Group: fmt.Sprint(l.r.IntN(2)), Labels: map[string]string{"a": "b"}}
	s.Build = &b
	for range l.r.IntN(4) + 1 {
		spec := job.Spec{
			ID: l.q.NewID(), Name: fmt.Sprint("n", l.r.IntN(4)), Channel: "main", Kind: "k", Args: []byte(`{"a":1}`),
			Retry: job.Retry{Failures: int32(l.r.IntN(3))}, CacheFailure: l.r.IntN(3) == 0, Reuse: l.r.IntN(2) == 0,
		}
		if l.r.IntN(2) == 0 {
			spec.Key = fmt.Sprint("key ", l.r.IntN(6))
		}
		for range l.r.IntN(3) {
			if dep := pick(l, l.jobs); !dep.IsZero() {
				spec.Needs = append(spec.Needs, job.Need{Job: dep, Policy: job.Policy(l.r.IntN(3))})
			}
		}
		s.Jobs = append(s.Jobs, spec)
		s.Refs = append(s.Refs, job.Ref{Job: spec.ID, Optional: l.r.IntN(4) == 0})
	}
	if _, err := l.q.Submit(queue.WithRequest(ctx, l.q.NewID()), s); err != nil {
		var invalid *job.InvalidError
		if !errors.As(err, &invalid) && !errors.Is(err, queue.ErrNotFound) {
			l.must(err)
		}
		return
	}
	l.builds = append(l.builds, b.ID)
	for i := range s.Jobs {
		l.jobs = append(l.jobs, s.Jobs[i].ID)
	}
}

func (l *life) lease(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	got, err := l.q.Lease(short, "w", session, l.r.IntN(3)+1, 0)
	l.must(err)
	for i := range got {
		l.leases = append(l.leases, got[i].Lease)
	}
}

func (l *life) finish(ctx context.Context) {
	if len(l.leases) == 0 {
		return
	}
	i := l.r.IntN(len(l.leases))
	lease := l.leases[i]
	outcome := []job.Outcome{job.Succeeded, job.Succeeded, job.Failed, job.Failed, job.Aborted, job.TimedOut}[l.r.IntN(6)]
	if l.r.IntN(5) == 0 {
		l.must(l.q.Progress(ctx, lease, []byte("half")))
		return
	}
	l.must(l.q.Finish(ctx, job.Report{Lease: lease, Outcome: outcome, Message: "so", Result: []byte("done")}))
	l.leases = slices.Delete(l.leases, i, i+1)
}
