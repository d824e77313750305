package job

import (
	"fmt"
	"slices"
)

// Submission asks for jobs: for a build, or, without one, each for itself.
type Submission struct {
	// Build that wants the jobs. A new id makes a new build; that of a live one adds to it; that of an ended
	// one does not reopen it: the jobs then stand for themselves. Nil: the jobs belong to no build.
	Build *Build
	// Staged: more is to come; the build is invisible and runs nothing until Seal.
	Staged bool
	Jobs   []Spec
	// First is the place of Jobs[0] in all that was asked for, where errors name it.
	First int
	// Refs are the build's targets and awaited jobs, by the ids in Jobs or of other jobs. Those that a build makes to
	// one job add up: it is a target if one of them says so, else awaited if one says so; the greatest priority and the
	// widest limits hold.
	Refs []Ref
	// Own is what jobs without a build get.
	Own Own
}

// How tells what became of an asked-for job.
type How uint8

const (
	// Created: it is a new job.
	Created How = iota
	// Joined: one of its identity is unfinished, and serves for both.
	Joined
	// Reused: a kept success serves.
	Reused
	// CachedFailure: a new job that failed at once, as its identity failed before.
	CachedFailure
)

func (h How) String() string {
	return nameOf([]string{"created", "joined", "reused", "cached-failure"}, int(h))
}

// Submitted tells which job stands for an asked-for one.
type Submitted struct {
	ID  ID
	How How
}

// Submit decides a submission, whole or not at all. The reply has one entry for each of Jobs, in order. Errors:
// *InvalidError, *ConflictError, *CycleError, ErrNotFound with the place of the need or reference.
func (m *Machine) Submit(now Time, s *Submission, facts *Facts) ([]Change, []Submitted, error) {
	d := submission{m: m, now: now, s: s, facts: facts, made: make(map[ID]int, len(s.Jobs))}
	if d.facts == nil {
		d.facts = &Facts{}
	}
	for _, step := range []func() error{d.build, d.resolve, d.link, d.sort, d.add, d.refer} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	return d.changes, d.reply, nil
}

// submission is one Submit under way. Nothing in it touches the Machine.
type submission struct {
	m     *Machine
	now   Time
	s     *Submission
	facts *Facts
	seq   int64

	ended   bool       // the build has: the jobs stand for themselves
	made    map[ID]int // asked-for id to its place
	reply   []Submitted
	needs   [][]Need    // of the jobs to be created, by place
	failing map[int]End // places of jobs that end as they are made
	order   []int       // places of the jobs to be created, dependencies first

	keeps []ID // jobs of others, joined by a build that is not complete

	changes, after []Change
}

func (d *submission) nextSeq() int64 {
	d.seq++
	return d.m.seq + d.seq
}

func (d *submission) build() error {
	b := d.s.Build
	if b == nil {
		if len(d.s.Refs) > 0 || d.s.Staged {
			return &InvalidError{"build", "must be given where there are references"}
		}
		return first(
			checkWord("own.group", d.s.Own.Group, MaxName, false),
			checkPriority("own.priority", d.s.Own.Priority), checkLimits("own.limits", d.s.Own.Limits),
		)
	}
	if err := b.validate("build"); err != nil {
		return err
	}
	if live := d.m.builds[b.ID]; live != nil {
		if d.s.Staged && !live.Staged {
			return &InvalidError{"build.id", "names a build that is complete"}
		}
		return nil
	}
	if d.facts.Builds[b.ID] != nil {
		d.ended = true
		return nil
	}
	r := BuildRecord{Build: *b, Seq: d.nextSeq(), At: d.now, Staged: d.s.Staged}
	if !d.s.Staged {
		g := d.m.gates[b.Gate.Key]
		r.Active = b.Gate.Key == "" || g == nil || g.active < max(b.Gate.Limit, 1) && len(g.waiting) == 0
	}
	d.changes = append(d.changes, BuildAdded{r})
	return nil
}

// resolve finds out which job stands for each asked-for one.
func (d *submission) resolve() error {
	jobs := d.s.Jobs
	d.reply = make([]Submitted, len(jobs))
	d.needs = make([][]Need, len(jobs))
	d.failing = map[int]End{}
	here := make(map[Identity]int, len(jobs))
	for i := range jobs {
		spec, field := &jobs[i], fmt.Sprintf("jobs[%d]", d.s.First+i)
		if err := spec.validate(field); err != nil {
			return err
		}
		if _, twice := d.made[spec.ID]; twice || d.m.jobs[spec.ID] != nil || d.facts.Jobs[spec.ID] != nil {
			return &InvalidError{field + ".id", fmt.Sprintf("%s is already in use", spec.ID)}
		}
		d.made[spec.ID] = i
		identity := spec.Identity()
		if first, ok := here[identity]; ok {
			if have, asked := jobs[first].Class(), spec.Class(); have != asked {
				return &ConflictError{identity, d.reply[first].ID, have, asked}
			}
			d.reply[i] = Submitted{d.reply[first].ID, Joined}
			if d.reply[first].How == Reused {
				d.reply[i].How = Reused // it is no longer in memory to be joined
			}
			continue
		}
		here[identity] = i
		if err := d.meet(i, spec, identity); err != nil {
			return err
		}
	}
	return nil
}

// meet compares one asked-for job with what is known of its identity.
func (d *submission) meet(i int, spec *Spec, identity Identity) error {
	if live := d.m.byIdentity.get(identity); live != nil {
		if have, asked := live.Class(), spec.Class(); have != asked {
			return &ConflictError{identity, live.id, have, asked}
		}
		d.reply[i] = Submitted{live.id, Joined}
		switch {
		case d.standing():
			d.keep(live)
		case d.s.Staged:
			d.keeps = append(d.keeps, live.id)
		}
		return nil
	}
	d.reply[i] = Submitted{spec.ID, Created}
	if kept, ok := d.facts.Kept[spec.Likeness()]; ok && spec.Reuse {
		d.reply[i] = Submitted{kept, Reused}
		return nil
	}
	if f := d.facts.Cached[identity]; f != nil && f.Class == spec.Class() && spec.CacheFailure && (f.Until == 0 || f.Until > d.now) {
		d.reply[i].How = CachedFailure
		d.failing[i] = End{
			At: d.now, Outcome: f.Outcome, Cached: true, Root: f.Job, RootOutcome: f.Outcome, Message: f.Message,
		}
	}
	return nil
}

// standing: the jobs stand for themselves.
func (d *submission) standing() bool { return d.s.Build == nil || d.ended }

func (d *submission) own() *Own {
	switch {
	case d.ended:
		b := d.s.Build
		return &Own{Priority: b.Priority, Group: b.Group, Limits: b.Limits}
	case d.s.Build == nil:
		own := d.s.Own
		return &own
	default:
		return nil
	}
}

// keep makes an existing job stand for itself, too.
func (d *submission) keep(j *Job) {
	own := *d.own()
	if have := j.own(); have != nil {
		own.Priority = max(own.Priority, have.Priority)
		own.Limits = own.Limits.greatest(have.Limits)
		own.Group = have.Group
		if own == *have {
			return
		}
	}
	d.after = append(d.after, JobKept{Job: j.id, Seq: j.seq, Own: own})
}

func (d *submission) creates(i int) bool {
	return d.reply[i].How == Created || d.reply[i].How == CachedFailure
}

// link translates the needs of each new job to the jobs that stand for them.
func (d *submission) link() error {
	for i := range d.s.Jobs {
		if !d.creates(i) {
			continue
		}
		spec := &d.s.Jobs[i]
		needs := make([]Need, 0, len(spec.Needs))
		at := make(map[ID]int, len(spec.Needs))
		for k, n := range spec.Needs {
			n.Loose = false
			known, fails, end := d.lookUp(&n)
			if !known {
				if n.Policy == Order {
					continue // unknown counts as satisfied
				}
				return fmt.Errorf("jobs[%d].needs[%d]: job %s: %w", d.s.First+i, k, n.Job, ErrNotFound)
			}
			if n.Job == spec.ID && n.Policy != Order {
				return &CycleError{[]string{d.nameOf(i)}}
			}
			if was, twice := at[n.Job]; twice {
				// The strictest policy of two edges between the same jobs holds.
				needs[was].Policy = min(needs[was].Policy, n.Policy)
			} else {
				at[n.Job] = len(needs)
				needs = append(needs, n)
			}
			if _, failing := d.failing[i]; fails && n.Policy == Success && !failing {
				d.failing[i] = end
			}
		}
		d.needs[i] = needs
	}
	return nil
}

// lookUp finds what stands for the needed job, and whether it has already ended without success.
func (d *submission) lookUp(n *Need) (known, fails bool, end End) {
	if i, ok := d.made[n.Job]; ok {
		n.Job = d.reply[i].ID
		if d.reply[i].How == Reused {
			return true, false, End{}
		}
	}
	if _, ok := d.made[n.Job]; ok {
		return true, false, End{}
	}
	if j := d.m.jobs[n.Job]; j != nil {
		done, ok := j.state.(Done)
		if !ok || done.End.Outcome == Succeeded {
			return true, false, End{}
		}
		return true, true, d.failedBy(done.End, j.id)
	}
	if r := d.facts.Jobs[n.Job]; r != nil && r.End != nil {
		return true, r.End.Outcome != Succeeded, d.failedBy(r.End, n.Job)
	}
	return false, false, End{}
}

func (d *submission) failedBy(e *End, id ID) End {
	end := e.dooms(id)
	end.At = d.now
	return end
}

func (d *submission) nameOf(i int) string {
	if s := &d.s.Jobs[i]; s.Name != "" {
		return s.Name
	}
	return d.s.Jobs[i].ID.String()
}

// sort puts the new jobs in an order in which dependencies come first, else as asked, and marks the order edges that
// lie on a cycle. Those that do not count as dependencies here: an edge is joined when its dependent is made.
func (d *submission) sort() error {
	g := d.graph(func(n *Need) bool { return n.Policy != Order })
	order, cycle := g.topological()
	if cycle != nil {
		names := make([]string, len(cycle))
		for k, i := range cycle {
			names[k] = d.nameOf(i)
		}
		return &CycleError{names}
	}
	d.order = order
	orders := func(n Need) bool { return n.Policy == Order }
	if slices.ContainsFunc(d.needs, func(needs []Need) bool { return slices.ContainsFunc(needs, orders) }) {
		d.loosen()
		g = d.graph(func(n *Need) bool { return !n.Loose })
		d.order, _ = g.topological()
	}
	return nil
}

// graph gives the edges among the new jobs that count.
func (d *submission) graph(counts func(*Need) bool) digraph {
	g := digraph{next: make([][]int, len(d.s.Jobs))}
	for i := range d.s.Jobs {
		if d.creates(i) {
			g.nodes = append(g.nodes, i)
		}
		for k := range d.needs[i] {
			n := &d.needs[i][k]
			if to, ok := d.made[n.Job]; ok && counts(n) {
				g.next[i] = append(g.next[i], to)
			}
		}
	}
	return g
}

// loosen marks the order edges that lie on a cycle.
func (d *submission) loosen() {
	g := d.graph(func(*Need) bool { return true })
	ring := g.components()
	for i := range d.needs {
		for k := range d.needs[i] {
			n := &d.needs[i][k]
			to, ok := d.made[n.Job]
			n.Loose = ok && n.Policy == Order && ring[i] == ring[to]
		}
	}
}

// add gives the changes that make the new jobs.
func (d *submission) add() error {
	own := d.own()
	wanted := map[ID]bool{}
	if len(d.failing) > 0 {
		wanted = d.wanted()
	}
	var ends []Change
	for _, i := range d.order {
		spec := d.s.Jobs[i]
		spec.Needs = d.needs[i]
		spec.Features = slices.Clone(spec.Features)
		if spec.Estimate == 0 {
			spec.Estimate = d.facts.Took[spec.Series()]
		}
		r := Record{Spec: spec, Seq: d.nextSeq(), At: d.now, Own: own}
		if d.s.Staged && !d.ended {
			r.Staging = d.s.Build.ID
		}
		if spec.NotBefore > d.now {
			r.Wake, r.Delay = spec.NotBefore, spec.NotBefore.Sub(d.now)
		}
		d.changes = append(d.changes, JobAdded{r})
		end, fails := d.failing[i]
		if !fails {
			continue
		}
		ends = append(ends, JobEnded{Job: spec.ID, Seq: r.Seq, End: end, Open: wanted[spec.ID]})
	}
	d.after = append(d.after, ends...)
	return nil
}

// wanted gives the jobs whose success a new job needs.
func (d *submission) wanted() map[ID]bool {
	w := map[ID]bool{}
	for _, i := range d.order {
		for _, n := range d.needs[i] {
			if n.Policy == Success {
				w[n.Job] = true
			}
		}
	}
	return w
}

// refer gives the change that makes the build wish for its targets.
func (d *submission) refer() error {
	refs := make([]Ref, 0, len(d.s.Refs))
	at := make(map[ID]int, len(d.s.Refs))
	for k, r := range d.s.Refs {
		field := fmt.Sprintf("refs[%d]", k)
		if err := first(checkPriority(field+".priority", r.Priority), checkLimits(field+".limits", r.Limits)); err != nil {
			return err
		}
		known := false
		if r, known = d.stands(r); !known {
			return fmt.Errorf("%s: job %s: %w", field, r.Job, ErrNotFound)
		}
		if was, twice := at[r.Job]; twice {
			refs[was] = refs[was].add(&r, d.s.Build.Limits)
			continue
		}
		if w := d.wished(r.Job); w != nil {
			have := w.ref(r.Job)
			if r = have.add(&r, d.s.Build.Limits); r == have {
				continue
			}
		}
		at[r.Job] = len(refs)
		refs = append(refs, r)
	}
	if d.s.Build != nil && (len(refs) > 0 || len(d.s.Jobs) > 0) {
		d.changes = append(d.changes, BuildReferred{Build: d.s.Build.ID, Refs: refs, Keeps: d.keeps})
	}
	d.changes = append(d.changes, d.after...)
	return nil
}

// stands gives the reference with the job that stands for the one asked for, and how that ended.
func (d *submission) stands(r Ref) (_ Ref, known bool) {
	r.Ended = 0
	i, here := d.made[r.Job]
	if here {
		r.Job = d.reply[i].ID
	}
	switch {
	case here && d.reply[i].How == Reused:
		r.Ended = Succeeded
	case here:
	case d.m.jobs[r.Job] != nil:
		if done, ok := d.m.jobs[r.Job].state.(Done); ok {
			r.Ended = done.End.Outcome
		}
	case d.facts.Jobs[r.Job] != nil && d.facts.Jobs[r.Job].End != nil:
		r.Ended = d.facts.Jobs[r.Job].End.Outcome
	default:
		return r, false
	}
	return r, true
}

// wished finds the wish that the build has for the unfinished job already.
func (d *submission) wished(id ID) *wish {
	j, b := d.m.jobs[id], d.m.builds[d.s.Build.ID]
	if j == nil || b == nil {
		return nil
	}
	return j.wished(b)
}

// Seal completes a staged build: it becomes visible and, if its gate has room, is under way.
func (m *Machine) Seal(id ID) ([]Change, error) {
	b := m.builds[id]
	if b == nil || !b.Staged {
		return nil, ErrNotFound
	}
	changes := []Change{BuildSealed{id}}
	g := m.gates[b.Build.Gate.Key]
	if g == nil || g.active < max(b.Build.Gate.Limit, 1) && len(g.waiting) == 0 {
		changes = append(changes, BuildActivated{id})
	}
	return changes, nil
}
