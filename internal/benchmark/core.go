package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

const million = 1_000_000

// memoryPerJob measures what a waiting job with three dependencies takes: machine and scheduler together.
func memoryPerJob(_ context.Context, l *lab) (section, error) {
	before := inUse()
	m, s, err := farm(l.many, 3, "linux")
	if err != nil {
		return section{}, err
	}
	each := float64(inUse()-before) / float64(l.many)
	runtime.KeepAlive(m)
	runtime.KeepAlive(s)
	return section{
		title: "Memory",
		rows: []figure{{
			what: fmt.Sprintf("a waiting job with three dependencies, %d of them", l.many), value: fmt.Sprintf("%.0f bytes", each),
			bar: "600 bytes", met: each <= 600,
		}},
	}, nil
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func idOf(n uint64) (id job.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	id[0] = 1
	return id
}

// numberOf gives the number that idOf made an id of.
func numberOf(id job.ID) uint64 { return binary.BigEndian.Uint64(id[8:]) }

// farm makes a machine with n jobs of a build, each with so many dependencies among those before it, in a graph about
// as deep as real ones are.
func farm(n, needs int, system string) (*job.Machine, *sched.Scheduler, error) {
	now := job.At(time.Unix(1_700_000_000, 0))
	m := job.New(now)
	m.Loaded(now)
	s := sched.New(m)
	build := job.Build{ID: idOf(1), Name: "b"}
	at := job.Moment{Now: now, Random: rand.NewPCG(1, 1)}
	const piece = 2000
	for from := 0; from < n; from += piece {
		sub := job.Submission{Build: &build}
		for i := from; i < min(from+piece, n); i++ {
			spec := job.Spec{
				ID: idOf(uint64(i) + 2), Name: fmt.Sprintf("job-%d", i), Kind: "build", Key: fmt.Sprintf("key-%d", i), System: system,
			}
			for k := 1; k <= needs && k <= i; k++ {
				spec.Needs = append(spec.Needs, job.Need{Job: idOf(uint64(i*k/(needs+1)) + 2)})
			}
			sub.Jobs = append(sub.Jobs, spec)
			sub.Refs = append(sub.Refs, job.Ref{Job: spec.ID})
		}
		changes, _, err := m.Submit(now, &sub, nil)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range changes {
			if err := m.Apply(c); err != nil {
				return nil, nil, err
			}
		}
		if err := settle(m, s, at); err != nil {
			return nil, nil, err
		}
	}
	return m, s, nil
}

func settle(m *job.Machine, s *sched.Scheduler, at job.Moment) error {
	for {
		if _, err := m.Advance(at, 4096); err != nil {
			return err
		}
		s.Update()
		if !m.Behind() {
			return nil
		}
	}
}

// decisions measures how long the machine and the scheduler take to choose a job for a worker while many wait that it cannot run.
func decisions(_ context.Context, l *lab) (section, error) {
	out := section{
		title: "Lease decision in memory",
		note:  "Choosing a job, starting it and taking up the change, with so many ready jobs ahead that this worker cannot run.",
	}
	var tail [2]time.Duration
	for i, ahead := range []int{1000, l.many} {
		m, s, err := farm(ahead, 0, "darwin")
		if err != nil {
			return out, err
		}
		list, err := decide(m, s, l.decided)
		if err != nil {
			return out, err
		}
		tail[i] = list.at(0.99)
		out.rows = append(out.rows, figure{
			what:  fmt.Sprintf("%d ahead", ahead),
			value: fmt.Sprintf("%s median, %s p99", round(list.at(0.5)), round(list.at(0.99))),
			bar:   "p99 under 50µs", met: list.at(0.99) < 50*time.Microsecond,
		})
	}
	ratio := float64(tail[1]) / float64(tail[0])
	out.rows = append(out.rows, figure{
		what: fmt.Sprintf("p99 at %d over p99 at 1000", l.many), value: fmt.Sprintf("%.2f", ratio), bar: "1.5", met: ratio <= 1.5,
	})
	return out, nil
}

// decide lets one worker with one slot take and finish n jobs that it can run.
func decide(m *job.Machine, s *sched.Scheduler, n int) (sample, error) {
	now := job.At(time.Unix(1_700_000_000, 0))
	at := job.Moment{Now: now, Random: rand.NewPCG(1, 1)}
	apply := func(changes []job.Change, err error) error {
		if err != nil {
			return err
		}
		for _, c := range changes {
			if err := m.Apply(c); err != nil {
				return err
			}
		}
		return settle(m, s, at)
	}
	w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"build"}, Systems: []string{"linux"}, Slots: 1, Session: idOf(7)}
	if err := apply(m.Register(at, w, nil)); err != nil {
		return nil, err
	}
	sub := job.Submission{Own: job.Own{}}
	for i := range n {
		sub.Jobs = append(sub.Jobs, job.Spec{ID: idOf(uint64(i) + 10*million), Kind: "build", System: "linux"})
	}
	changes, _, err := m.Submit(now, &sub, nil)
	if err := apply(changes, err); err != nil {
		return nil, err
	}
	runtime.GC()
	list := make(sample, 0, n)
	for range n {
		at.Now = at.Now.Add(time.Millisecond)
		began := time.Now()
		s.Begin()
		s.Want("w", 1, 0)
		j, name, ok := s.Next(at.Now)
		if !ok {
			return nil, fmt.Errorf("nothing to lease after %d", len(list))
		}
		token := job.Token(idOf(uint64(len(list))))
		if err := apply(m.Start(at, j.ID(), name, token)); err != nil {
			return nil, err
		}
		list = append(list, time.Since(began))
		lease := job.Lease{Job: j.ID(), Attempt: 1, Token: token}
		changes, _, err := m.Finish(at, job.Report{Lease: lease, Outcome: job.Succeeded}, nil)
		if err := apply(changes, err); err != nil {
			return nil, err
		}
	}
	return list, nil
}
