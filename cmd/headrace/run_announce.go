package main

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// manyJobs is from how many on it takes some seconds to look them up and store them.
const manyJobs = 50_000

// forewarn says why nothing happens for a while.
func (s *session) forewarn() {
	if n := len(s.work.Jobs); n >= manyJobs {
		s.relay.Event(progress.Notice{Text: fmt.Sprintf("%d jobs: the first starts when all are looked up and stored, which takes a while", n)})
	}
}

// announce tells what is to be done.
func (s *session) announce(past *past, receipt *queue.Receipt, took []time.Duration) {
	var f *progress.Forecast
	if took != nil {
		f = &progress.Forecast{Estimates: took, Paths: paths(s.work.Graph, took), Slots: s.slots}
	}
	reused := 0
	for _, j := range receipt.Jobs {
		if j.How == job.Reused {
			reused++
		}
	}
	s.relay.Event(progress.RunStarted{
		Build: receipt.Build, Name: s.work.name, File: s.file, Jobs: len(s.work.Jobs), Reused: reused, Slots: s.slots, Store: s.place.name(),
		Forecast: f,
	})
	s.barrier.open()
	if s.reaped > 0 {
		what := "processes"
		if s.reaped == 1 {
			what = "process"
		}
		s.relay.Event(progress.Notice{Text: fmt.Sprintf("killed %d %s that an earlier run left", s.reaped, what)})
	}
	if s.bereft {
		s.relay.Event(progress.Notice{Text: fmt.Sprintf(
			"the store in %s was empty or gone, though logs of earlier runs are there: what they did is not known, and all is run again", s.place.dir)})
	}
	for _, n := range past.notes {
		s.relay.Event(progress.Notice{Job: s.work.Jobs[n.index].Name, Text: n.text})
	}
	s.announceUnable(s.findUnable(s.work, func(i int) bool { return receipt.Jobs[i].How == job.Reused }))
	s.announceWaits(past)
	for i, j := range receipt.Jobs {
		if j.How == job.Reused {
			s.monitor.reuse(i, j.ID)
		}
	}
	s.begun = true
}

// announceWaits tells which jobs wait before their next attempt, for what earlier runs came to.
func (s *session) announceWaits(past *past) {
	now := job.At(time.Now())
	for i := range past.twins {
		if e := past.wait(s.work, i, now); e != nil {
			s.relay.Event(*e)
		}
	}
}

// wait tells until when the i-th job waits before its next attempt; nil: it does not.
func (p *past) wait(w *work, i int, now job.Time) *progress.JobWaiting {
	r := p.waiting[p.twins[i]]
	if r == nil {
		return nil
	}
	until := min(r.Wake, now.Add(r.Delay)) // The engine clamps a wait to its original length, if the clock has stepped.
	if until <= now {
		return nil
	}
	return &progress.JobWaiting{
		Job: w.named(i, r.Spec.ID), Attempt: r.LastEnd.Number, Outcome: r.LastEnd.Outcome.String(),
		Detail: r.LastEnd.Detail.String(), Message: r.LastEnd.Message, Until: until.Std(),
	}
}
