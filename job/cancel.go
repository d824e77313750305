package job

import "slices"

// CancelBuild ends a live build as cancelled. Jobs that no other live build needs are dropped; running ones are
// stopped, or, with spare, go on and are recorded. ErrNotFound: no such live build.
func (m *Machine) CancelBuild(now Time, id ID, spare bool) ([]Change, error) {
	b := m.builds[id]
	if b == nil {
		return nil, ErrNotFound
	}
	return []Change{BuildEnded{Build: id, At: now, Outcome: Cancelled, Spare: spare, Erased: b.Staged}}, nil
}

// CancelJob ends a job as cancelled: a waiting one at once; a running one at once, too, while its slot and
// its identity stay taken until the worker confirms or the lease ends. It is refused with *NeededError if more
// than the build that asks (of; none: any one) need the job, or so much stands behind it that nobody looks at all of that, unless
// forced. ErrEnded: there is nothing to cancel.
func (m *Machine) CancelJob(now Time, id, of ID, force bool, why string) ([]Change, error) {
	if err := checkText("why", why, MaxMessage); err != nil {
		return nil, err
	}
	j := m.jobs[id]
	if j == nil {
		return nil, ErrNotFound
	}
	if j.done() {
		return nil, ErrEnded
	}
	if !force {
		if err := m.othersNeed(j, of); err != nil {
			return nil, err
		}
	}
	end := End{Outcome: Cancelled, Message: why}
	if j.running() {
		return m.halt(j, now, end), nil
	}
	return []Change{m.end(j, now, end)}, nil
}

// CancelToDelete is CancelJob, forced, of a job that is to be deleted. dependents are those that name it. ErrBusy: one of them
// does not need its success, so that it would go on.
func (m *Machine) CancelToDelete(now Time, id ID, dependents []ID) ([]Change, error) {
	j := m.jobs[id]
	for _, d := range dependents {
		k := m.jobs[d]
		if j == nil || j.done() || k == nil || k.done() {
			continue
		}
		if !slices.ContainsFunc(k.needs, func(e edge) bool { return e.job == j && e.policy == Success }) {
			return nil, ErrBusy
		}
	}
	return m.CancelJob(now, id, ID{}, true, "deleted")
}

// FailJob ends a job that is not running, and that may have been tried, with a verdict of the caller's. ErrBusy: it runs;
// ErrEnded: it has ended.
func (m *Machine) FailJob(now Time, id ID, why string, result []byte) ([]Change, error) {
	if err := first(checkText("why", why, MaxMessage), checkResult(result)); err != nil {
		return nil, err
	}
	j := m.jobs[id]
	switch {
	case j == nil:
		return nil, ErrNotFound
	case j.done():
		return nil, ErrEnded
	case j.running():
		return nil, ErrBusy
	}
	end := m.end(j, now, End{Outcome: Failed, Message: why}).(JobEnded)
	end.Result = result
	return []Change{end}, nil
}

// neededMax is how many builds a NeededError names.
const neededMax = 20

// needingMost is how many dependents, and wishes of theirs, are looked at to find out who needs a job.
const needingMost = 10_000

func (m *Machine) othersNeed(j *Job, of ID) error {
	builds, alone, all := j.needing()
	askers := 0
	if of.IsZero() {
		askers = 1 // whoever asks speaks for one of those that need it, but not for a dependent's own sake
	} else {
		builds = slices.DeleteFunc(builds, func(b *build) bool { return b.Build.ID == of })
	}
	needers := len(builds)
	if j.own() != nil {
		needers++
	}
	if needers <= askers && !alone && all {
		return nil
	}
	return &NeededError{Job: j.id, Builds: recordsOf(builds), Alone: alone || j.own() != nil, More: !all}
}

// Needing gives the live builds that need the job, directly or through dependents, oldest first, at most 20. If too much stands
// behind the job to look at all of it, they are of those that are near.
func (m *Machine) Needing(j *Job) []BuildRecord {
	builds, _, _ := j.needing()
	return recordsOf(builds)
}

// recordsOf gives the oldest of the builds.
func recordsOf(builds []*build) []BuildRecord {
	slices.SortFunc(builds, func(a, b *build) int { return int(a.Seq - b.Seq) })
	var list []BuildRecord
	for _, b := range builds[:min(len(builds), neededMax)] {
		list = append(list, b.record())
	}
	return list
}

// needing gives the live builds that need the job, directly or through dependents, and whether one of those dependents
// stands for itself. Without all it looked at needingMost, the nearest first, and left the rest.
func (j *Job) needing() (builds []*build, alone, all bool) {
	seen := map[*Job]bool{j: true}
	found := map[*build]bool{}
	looks := 0
	for todo := []*Job{j}; len(todo) > 0; todo = todo[1:] {
		k := todo[0]
		alone = alone || k.own() != nil && k != j
		for i := range k.wishes {
			if looks++; looks > needingMost {
				return builds, alone, false
			}
			if b := k.wishes[i].build; !found[b] {
				found[b] = true
				builds = append(builds, b)
			}
		}
		for _, e := range k.dependents {
			if looks++; looks > needingMost {
				return builds, alone, false
			}
			if e.blocks() && !seen[e.job] {
				seen[e.job] = true
				todo = append(todo, e.job)
			}
		}
	}
	return builds, alone, true
}

// Bump gives a live build a new priority, up or down; its jobs follow.
func (m *Machine) Bump(id ID, priority int32) ([]Change, error) {
	if err := checkPriority("priority", priority); err != nil {
		return nil, err
	}
	b := m.builds[id]
	if b == nil {
		return nil, ErrNotFound
	}
	if b.priority == priority {
		return nil, nil
	}
	return []Change{BuildBumped{id, priority}}, nil
}

// DeleteJob takes a Done job out of the history. ErrBusy: it is in memory still (cancel it first, and let its
// worker confirm), or one of its dependents is unfinished and can read it. ErrNotFound: facts do not know it.
func (m *Machine) DeleteJob(id ID, dependents []ID, facts *Facts) ([]Change, error) {
	if m.jobs[id] != nil {
		return nil, ErrBusy
	}
	if facts == nil || facts.Jobs[id] == nil {
		return nil, ErrNotFound
	}
	for _, d := range dependents {
		if j := m.jobs[d]; j != nil && !j.done() {
			return nil, ErrBusy
		}
	}
	return []Change{JobDeleted{id}}, nil
}

// DeleteJobs takes jobs out of the history, all or none, whatever they do: those that have not ended are cancelled, and attempts
// that are being stopped are over at once, as nobody is left to be told of them. Each comes after its dependents. dependents are those that
// name a job, by its place. ErrBusy: another job names one of them, whether that has ended or not, or is still to be told how one ended.
func (m *Machine) DeleteJobs(now Time, ids []ID, dependents [][]ID, facts *Facts) ([]Change, error) {
	among := make(map[ID]bool, len(ids))
	for _, id := range ids {
		among[id] = true
	}
	var changes []Change
	for i, id := range ids {
		if slices.ContainsFunc(dependents[i], func(d ID) bool { return !among[d] }) {
			return nil, ErrBusy
		}
		j := m.jobs[id]
		switch {
		case j == nil && (facts == nil || facts.Jobs[id] == nil):
			continue // it is gone
		case j == nil:
		case j.flags.has(openEnd) || m.dooms(j, Cancelled):
			return nil, ErrBusy
		case j.running():
			changes = append(changes, m.merge(changes, m.halt(j, now, End{Outcome: Cancelled, Message: "deleted"}))...)
			changes = append(changes, JobFreed{Job: id, Seq: j.seq, At: now})
		case j.Held():
			changes = append(changes, JobFreed{Job: id, Seq: j.seq, At: now})
		case !j.done():
			changes = append(changes, m.end(j, now, End{Outcome: Cancelled, Message: "deleted"}))
		}
		changes = append(changes, JobDeleted{id})
	}
	return changes, nil
}

// DeleteBuild takes an ended build out of the history; its jobs stay. ErrBusy: it is live.
func (m *Machine) DeleteBuild(id ID, facts *Facts) ([]Change, error) {
	if m.builds[id] != nil {
		return nil, ErrBusy
	}
	if facts == nil || facts.Builds[id] == nil {
		return nil, ErrNotFound
	}
	return []Change{BuildDeleted{id}}, nil
}
