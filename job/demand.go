package job

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a job is worth flows from builds to their jobs and from dependents to dependencies: whether it
// is needed at all, by a build under way, how urgently, how long the path behind it is, and who pays.
// Each is a count or a maximum over what is offered. A maximum remembers how many offers reach it, so
// that most offers come and go in constant time; only when its last one goes are all looked at again.

// offer is what one asker, a build or a dependent, gives a job.
type offer struct {
	path     time.Duration
	audience *Audience
	priority int32
	keep     bool // it is needed
	active   bool // by a build under way
	sorts    bool // priority and path count
}

// demand sums up the offers to a job.
type demand struct {
	path      time.Duration
	audience  *Audience
	priority  int32
	priorityN int32
	pathN     int32
	audienceN int32
	keep      int32
	active    int32
	stale     bool // a maximum lost its last offer
}

func (d *demand) take(o offer) {
	if o.keep {
		d.keep++
	}
	if o.active {
		d.active++
		d.takeAudience(o.audience)
	}
	if o.sorts {
		d.priority, d.priorityN = rise(d.priority, d.priorityN, o.priority)
		d.path, d.pathN = rise(d.path, d.pathN, o.path)
	}
}

func (d *demand) drop(o offer) {
	if o.keep {
		d.keep--
	}
	if o.active {
		d.active--
		if d.audience.same(o.audience) {
			d.audienceN--
		}
		// An offer smaller than the union may have been the only one with its groups.
		d.stale = d.stale || d.audienceN == 0 || !d.audience.same(o.audience)
	}
	if o.sorts {
		if o.priority == d.priority {
			d.priorityN--
		}
		if o.path == d.path {
			d.pathN--
		}
		d.stale = d.stale || d.priorityN <= 0 || d.pathN <= 0
	}
}

func rise[T int32 | time.Duration](top T, n int32, v T) (T, int32) {
	switch {
	case n <= 0 || v > top:
		return v, 1
	case v == top:
		return top, n + 1
	default:
		return top, n
	}
}

func (d *demand) takeAudience(a *Audience) {
	switch {
	case d.audience == nil:
		d.audience, d.audienceN = a, 1
	case d.audience.same(a):
		d.audienceN++
	default:
		if u := d.audience.union(a); !u.same(d.audience) {
			d.audience, d.audienceN = u, 0
			if u.same(a) {
				d.audienceN = 1
			}
		}
	}
}

// through is what is left of j's offer o to d over an edge of policy p.
func through(o offer, p Policy, loose bool, j, d *Job) offer {
	if p == Order {
		o.keep, o.active = false, false
		o.sorts = o.sorts && !loose && j.class.Channel == d.class.Channel
	}
	return o
}

// offers is what j, as it is now, gives its dependencies.
func (j *Job) offers() offer {
	if j.done() {
		return offer{}
	}
	o := offer{keep: j.in.keep > 0, active: j.in.active > 0}
	if o.active {
		o.sorts, o.priority, o.path, o.audience = true, j.in.priority, j.Path(), j.in.audience
	}
	return o
}

// offers is what the build gives a job that it wishes for.
func (w *wish) offers() offer {
	o := offer{keep: true, active: w.build.active}
	if o.active {
		o.sorts, o.priority, o.audience = true, sum(w.build.priority, w.priority), w.build.audience
	}
	return o
}

// sum adds and saturates.
func sum[T int32 | time.Duration](a, b T) T {
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return ^lowest[T]()
	case a < 0 && b < 0 && s >= 0:
		return lowest[T]()
	default:
		return s
	}
}

func lowest[T int32 | time.Duration]() T {
	v := T(-1)
	for v<<1 < 0 {
		v <<= 1
	}
	return v
}

// recount looks at all offers to j again.
func (j *Job) recount() {
	j.in = demand{}
	for i := range j.wishes {
		j.in.take(j.wishes[i].offers())
	}
	if own := j.own(); own != nil {
		j.in.take(own.offers())
	}
	if j.flags.has(isStaged) {
		j.in.take(stagedOffer)
	}
	for _, e := range j.dependents {
		j.in.take(through(e.job.out, e.policy, e.loose, e.job, j))
	}
}

func (o *Own) offers() offer {
	return offer{keep: true, active: true, sorts: true, priority: o.Priority, audience: newAudience(o.Limits, o.Group)}
}

// Audience is who asked for a job: the share groups that pay, and the limits that the builds state.
// It is immutable and shared.
type Audience struct {
	groups []string // sorted, at least one
	limits Limits   // the greatest; zero: at least one states none
	key    string
}

// Groups gives the share groups in order; the caller must not change them.
func (a *Audience) Groups() []string { return a.groups }

// Key tells audiences apart.
func (a *Audience) Key() string {
	if a == nil {
		return ""
	}
	return a.key
}

func newAudience(l Limits, groups ...string) *Audience {
	key := strconv.FormatInt(int64(l.Timeout), 36) + " " + strconv.FormatInt(int64(l.Silence), 36) + " " + strings.Join(groups, "\x00")
	return &Audience{groups, l, key}
}

func (a *Audience) same(b *Audience) bool {
	return a == b || a != nil && b != nil && a.key == b.key
}

func (a *Audience) union(b *Audience) *Audience {
	groups := slices.Concat(a.groups, b.groups)
	slices.Sort(groups)
	return newAudience(a.limits.greatest(b.limits), slices.Compact(groups)...)
}

// greatest gives the wider of two limits, where stating none is the widest.
func (l Limits) greatest(o Limits) Limits {
	return Limits{widest(l.Timeout, o.Timeout), widest(l.Silence, o.Silence)}
}

func widest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}
