package job

import "time"

// LimitsOf gives the limits of the job's attempt if it has its lease, else those that one would get now. An attempt
// keeps what its worker was told, whoever asks for the job meanwhile.
func (m *Machine) LimitsOf(j *Job) Limits {
	if j.leased() != nil {
		return j.last.Limits
	}
	return j.limits()
}

// limits gives the limits of an attempt: the widest over all who need the job, where a build that states some for this
// very job means those instead of its own for all, unless more stands behind the job than widen looks at.
func (j *Job) limits() Limits {
	all := j.in.audience
	if all == nil {
		return Limits{}
	}
	if !j.stated() {
		return all.limits
	}
	var w widening
	for i := range j.wishes {
		if j.wishes[i].build.active {
			w.take(j.wishes[i].allows())
		}
	}
	if own := j.own(); own != nil {
		w.take(own.Limits)
	}
	if len(j.dependents) > 0 && w.Limits.greatest(all.limits) != w.Limits {
		j.widen(&w)
	}
	return w.Limits
}

// stated reports whether a build under way states limits for this very job.
func (j *Job) stated() bool {
	for i := range j.wishes {
		if j.wishes[i].limits != nil && j.wishes[i].build.active {
			return true
		}
	}
	return false
}

// allows gives the limits that the build means for the job.
func (w *wish) allows() Limits {
	all := w.build.Build.Limits
	if w.limits == nil {
		return all
	}
	return Limits{or(w.limits.Timeout, all.Timeout), or(w.limits.Silence, all.Silence)}
}

// widening is the widest of the limits that it took.
type widening struct {
	Limits
	some bool
}

func (w *widening) take(l Limits) {
	if w.some {
		l = w.Limits.greatest(l)
	}
	w.Limits, w.some = l, true
}

// widenMost is how many dependents, and wishes of theirs, are looked at to find out who stands behind a job. It is far more than
// there are behind most.
const widenMost = 2000

// widen takes the limits of those who need the job only through its dependents: what flows down does not tell them
// from builds that wish for the job itself, and those have had their say. If too much stands behind the job to look at all of
// it, the widest of all who need it holds instead, whatever some state for this very job: no attempt is cut short that
// somebody gave more time, and a build's own word may be exceeded. That does not depend on which dependents are near.
func (j *Job) widen(w *widening) {
	said := make(map[*build]bool, len(j.wishes))
	for i := range j.wishes {
		said[j.wishes[i].build] = true
	}
	seen := map[*Job]bool{j: true}
	looks := 0
	for todo := []*Job{j}; len(todo) > 0; todo = todo[1:] {
		for _, e := range todo[0].dependents {
			k := e.job
			if looks++; e.blocks() && !seen[k] {
				looks += len(k.wishes)
			}
			if looks > widenMost {
				w.take(j.in.audience.limits)
				return
			}
			if !e.blocks() || seen[k] {
				continue
			}
			seen[k] = true
			todo = append(todo, k)
			for i := range k.wishes {
				if b := k.wishes[i].build; b.active && !said[b] {
					said[b] = true
					w.take(b.Build.Limits)
				}
			}
			if own := k.own(); own != nil {
				w.take(own.Limits)
			}
		}
	}
}

// past reports whether a limit that began at from ran out, with the slack that a worker is given.
func past(from Time, limit time.Duration, now Time) bool {
	return limit > 0 && from.Add(limit).Add(JudgeSlack) <= now
}
