package sim

import (
	"math"
	"slices"

	"github.com/headrace/headrace/job"
)

// How time goes: what is due happens at its moment, and whoever can be served then is (rule 12).

// round draws all consequences, and hands out work.
func (m *model) round() {
	if m.lead != nil {
		m.lead()
	}
	if !m.behind {
		m.settle()
		m.serve()
	}
}

// settle draws all consequences of one moment: all of the first kind, dependents before what they need, and so on.
func (m *model) settle() {
	var due []func()
	kind := math.MaxInt
	for _, j := range slices.Backward(m.jobs) {
		for i, c := range m.consequences(j) {
			if c.so && c.at <= m.now && i <= kind {
				if i < kind {
					kind, due = i, nil
				}
				due = append(due, c.do)
			}
		}
	}
	for _, do := range due {
		do()
	}
	if len(due) > 0 || slices.ContainsFunc(m.builds, m.endBuild) || m.openGate() {
		m.settle()
	}
}

// advance lets time pass until to: whatever is due happens at its moment. looks are moments at which the engine
// had a look without need.
func (m *model) advance(to job.Time, looks []job.Time) {
	moments := slices.Clone(looks)
	for _, w := range m.workers {
		moments = append(moments, w.Until)
	}
	for _, j := range m.jobs {
		for _, c := range filter(m.consequences(j), func(c consequence) bool { return c.so }) {
			moments = append(moments, c.at)
		}
	}
	moments = filter(moments, func(t job.Time) bool { return t > m.now && t <= to })
	if len(moments) == 0 {
		m.now = max(m.now, to)
		return
	}
	m.now = slices.Min(moments)
	m.round()
	m.advance(to, looks)
}

// serve hands out work until nobody who waits can be given any.
func (m *model) serve() {
	turn := map[*mWorker]bool{}
	for j, w := m.next(turn); j != nil; j, w = m.next(turn) {
		m.start(j, w)
	}
	m.dismiss()
}

// dismiss ends the waiting of those who are given something.
func (m *model) dismiss() {
	for _, w := range m.workers {
		w.waiters = filter(w.waiters, func(x *leaseCall) bool { return len(x.due) == 0 })
	}
}
