package main

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/worker"
)

// unable is a job that this machine cannot run, or whose needs it cannot.
type unable struct {
	index int
	lacks string // what this machine would need; "": it is only behind another
	needs string // the job whose success it needs
}

// text says why it cannot run.
func (u *unable) text() string {
	if u.lacks != "" {
		return "this machine lacks " + u.lacks
	}
	return "it needs " + u.needs
}

// here describes this machine as a worker without a session.
func (o *runOptions) here() job.Worker {
	return job.Worker{
		Name: workerName, Channels: []string{localChannel}, Kinds: []string{worker.CommandKind}, Systems: []string{system()},
		Features: o.features, Slots: int32(o.slots),
	}
}

// lacks says what this machine would need to run the i-th job; "" if nothing.
func (o *runOptions) lacks(w *work, i int) string {
	j := &w.Jobs[i]
	if j.System == "" && len(j.Features) == 0 {
		return ""
	}
	spec := job.Spec{Channel: localChannel, Kind: worker.CommandKind, System: j.System, Features: j.Features}
	here := o.here()
	return strings.Join(here.Lacks(spec.Class()), ", ")
}

// findUnable lists the jobs that cannot run here, but for those that are done, in the order of the graph.
func (o *runOptions) findUnable(w *work, done func(i int) bool) []unable {
	var list []unable
	stuck := make([]bool, len(w.Jobs))
	for i := range w.Jobs { // What a job needs comes before it.
		if done(i) {
			continue
		}
		u := unable{index: i, lacks: o.lacks(w, i)}
		for _, n := range w.Jobs[i].Needs {
			if n.Policy == job.Success && stuck[n.Job] && u.needs == "" {
				u.needs = w.Jobs[n.Job].Name
			}
		}
		if stuck[i] = u.lacks != "" || u.needs != ""; stuck[i] {
			list = append(list, u)
		}
	}
	return list
}

// unableTold is how many jobs that cannot run are named one by one before a run.
const unableTold = 20

// announceUnable tells, before anything starts, what cannot run here.
func (s *session) announceUnable(list []unable) {
	behind, more := 0, 0
	for i := range list {
		u := &list[i]
		switch name := s.work.Jobs[u.index].Name; {
		case u.lacks == "":
			behind++
		case i >= unableTold:
			more++
		default:
			s.relay.Event(progress.Notice{Job: name, Text: fmt.Sprintf("%s cannot run here: %s", name, u.text())})
		}
	}
	if more > 0 {
		s.relay.Event(progress.Notice{Text: progress.Count(more, "more job") + " cannot run here"})
	}
	if behind > 0 {
		s.relay.Event(progress.Notice{Text: progress.Count(behind, "job") + " cannot run either, needing what cannot"})
	}
}
