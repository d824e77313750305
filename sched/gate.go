package sched

import (
	"container/heap"
	"slices"

	"github.com/headrace/headrace/job"
)

// Concurrency keys. A job whose key is full is parked when a decision comes upon it, and never looked at again until
// a holder goes: a hundred thousand jobs behind one full key cost nothing (Q17). What is full is counted from
// the holders, never stored.

type gateKey struct{ channel, key string }

// gate is a concurrency key.
type gate struct {
	holders int
	parked  []*parking
}

// parking holds the parked jobs of one heap and limit, so that of each kind the best comes back first.
type parking struct {
	gate *gate
	heap heapKey
	// limit of the jobs here.
	limit int32
	ready ready
}

func (p *parking) remove(e *entry) {
	heap.Remove(&p.ready, e.index)
	e.parked = nil
	if len(p.ready.entries) == 0 {
		p.gate.parked = slices.DeleteFunc(p.gate.parked, func(x *parking) bool { return x == p })
	}
}

func (s *Scheduler) gate(j *job.Job) *gate {
	k := gateKey{j.Class().Channel, j.Gate().Key}
	g := s.gates[k]
	if g == nil {
		g = &gate{}
		s.gates[k] = g
	}
	return g
}

// setHolder counts, or no longer counts, the job among those under way.
func (s *Scheduler) setHolder(e *entry, holds bool) {
	if e.holds == holds || e.job.Gate().Key == "" {
		return
	}
	e.holds = holds
	g := s.gate(e.job)
	if holds {
		g.holders++
		return
	}
	g.holders--
	s.admit(g)
	if g.holders == 0 && len(g.parked) == 0 {
		delete(s.gates, gateKey{e.job.Class().Channel, e.job.Gate().Key})
	}
}

// admit brings the best of each parking back, while the key has room.
func (s *Scheduler) admit(g *gate) {
	if g == nil {
		return
	}
	for _, p := range slices.Clone(g.parked) {
		if !g.full(p.limit) {
			s.unpark(p, p.ready.entries[0])
		}
	}
}

func (s *Scheduler) unpark(p *parking, e *entry) {
	p.remove(e)
	c := e.in.class
	e.in = nil
	s.enter(e)
	s.drop(c)
}

func (g *gate) full(limit int32) bool { return g.holders >= int(max(limit, 1)) }

// park takes the head of a heap away while its concurrency key is full, and reports whether it did.
func (s *Scheduler) park(e *entry) bool {
	limits := e.job.Gate()
	if limits.Key == "" {
		return false
	}
	g := s.gate(e.job)
	if !g.full(limits.Limit) {
		return false
	}
	r := e.in
	s.pull(e)
	e.in = r
	at := slices.IndexFunc(g.parked, func(p *parking) bool { return p.heap == r.key && p.limit == limits.Limit })
	if at < 0 {
		at = len(g.parked)
		g.parked = append(g.parked, &parking{gate: g, heap: r.key, limit: limits.Limit, ready: ready{byAge: r.byAge}})
	}
	e.parked = g.parked[at]
	heap.Push(&e.parked.ready, e)
	return true
}
