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
	audienceN int32  // with a crowd 0; below zero: stale
	crowd     *crowd // where there is more than one audience
	keep      int32
	active    int32
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
		d.dropAudience(o.audience)
	}
	if o.sorts {
		if o.priority == d.priority {
			d.priorityN--
		}
		if o.path == d.path {
			d.pathN--
		}
		if d.priorityN <= 0 || d.pathN <= 0 {
			d.spoil()
		}
	}
}

// rerank takes an offer and drops another that differs from it in path and priority alone.
func (d *demand) rerank(old, now offer) {
	d.priority, d.priorityN = rise(d.priority, d.priorityN, now.priority)
	d.path, d.pathN = rise(d.path, d.pathN, now.path)
	if old.priority == d.priority {
		d.priorityN--
	}
	if old.path == d.path {
		d.pathN--
	}
	if d.priorityN <= 0 || d.pathN <= 0 {
		d.spoil()
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

// crowd counts the offers of each audience, by its key.
type crowd map[string]counted

type counted struct {
	audience *Audience
	n        int32
}

// takeAudience: what is kept is the union, and how many offers make up each part of it.
func (d *demand) takeAudience(a *Audience) {
	switch {
	case d.audience == nil:
		d.audience = a
		d.audienceN++
		return
	case d.crowd == nil && d.audience.same(a):
		d.audienceN++
		return
	case d.crowd == nil:
		d.crowd = &crowd{d.audience.key: {d.audience, d.audienceN}}
		d.audienceN = min(d.audienceN, 0)
	}
	c := (*d.crowd)[a.key]
	if c.n == 0 {
		d.audience = d.audience.union(a)
	}
	(*d.crowd)[a.key] = counted{a, c.n + 1}
}

// dropAudience: the union stands until the last offer of an audience goes.
func (d *demand) dropAudience(a *Audience) {
	if d.crowd == nil {
		if d.audienceN--; d.audienceN == 0 {
			d.spoil()
		}
		return
	}
	c := (*d.crowd)[a.key]
	c.n--
	(*d.crowd)[a.key] = c
	if c.n == 0 {
		d.spoil()
	}
}

// spoil notes that a maximum, or a part of the union, lost its last offer: it is counted again. The note is a count so
// far below zero that no offers undo it, as a field of its own would make each of a million jobs larger.
func (d *demand) spoil() { d.audienceN = spoilt }

const spoilt = -1 << 30

func (d *demand) stale() bool { return d.audienceN < 0 }

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
	for range j.stagers {
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

// Groups gives the share groups in order, none for nil; the caller must not change them.
func (a *Audience) Groups() []string {
	if a == nil {
		return nil
	}
	return a.groups
}

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
	u := newAudience(a.limits.greatest(b.limits), slices.Compact(groups)...)
	if u.same(a) {
		return a
	}
	return u
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
