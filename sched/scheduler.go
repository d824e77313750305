package sched

import (
	"container/heap"
	"slices"
	"strings"

	"github.com/headrace/headrace/job"
)

// Scheduler follows a Machine.
type Scheduler struct {
	m       *job.Machine
	entries map[*job.Job]*entry
	heaps   map[heapKey]*ready
	classes map[job.Class]*class
	workers map[string]*worker
	gates   map[gateKey]*gate
	// channels are as they were at the last decision that came upon them.
	channels map[string]*channel
	// Classes with a ready job, and workers that wait, in an order that depends on the history alone.
	open     []*class
	waiting  []*worker
	reserved []*worker
	alone    []*ready // the heaps of exclusive jobs that are not empty
	turn     int64
	stamp    int64 // of the decision
	idle     int   // classes that no ready job is in
	// What a decision looks at, kept to be used again.
	able             []*worker
	heads, exclusive []head
}

// New gives a scheduler that knows what the machine knows. Nobody waits yet.
func New(m *job.Machine) *Scheduler {
	s := &Scheduler{
		m: m, entries: map[*job.Job]*entry{}, heaps: map[heapKey]*ready{}, classes: map[job.Class]*class{},
		workers: map[string]*worker{}, gates: map[gateKey]*gate{}, channels: map[string]*channel{},
	}
	for _, n := range m.Workers() {
		s.updateWorker(n)
	}
	for _, j := range m.Jobs() {
		s.updateJob(j)
	}
	s.Update()
	return s
}

// heapKey tells the heaps of ready jobs apart: within one, the order never depends on the moment.
type heapKey struct {
	class     job.Class
	groups    string
	exclusive bool
}

func heapOf(j *job.Job) heapKey {
	return heapKey{j.Class(), strings.Join(j.Audience().Groups(), "\x00"), j.Exclusive()}
}

// ready is a heap of ready jobs.
type ready struct {
	key     heapKey
	class   *class
	groups  []job.Meter
	byAge   bool
	entries []*entry
	place   int // in class.heaps, from 1; 0: not there
}

// entry is a ready job in a heap, with what it is sorted by.
type entry struct {
	job      *job.Job
	in       *ready
	index    int
	priority int32
	path     int64
	holds    bool
	gated    bool // it has a concurrency key
	parked   *parking
}

type class struct {
	key     job.Class
	channel *channel
	heaps   []*ready // not empty
	workers []*worker
	entries int   // jobs that are ready or parked
	place   int   // in open, from 1
	seen    int64 // the decision that looked at its heaps
	passed  int64 // the decision that found no worker for one of its jobs
}

// channel is what a decision needs of one.
type channel struct {
	policy      job.Channel
	use, shares int64
	seen        int64 // the decision for which it was read
}

type worker struct {
	job.Worker
	classes  []*class
	used     int
	held     int // exclusive jobs it runs
	want     int
	load     float64
	place    int // in waiting, from 1
	turn     int64
	able     int64 // the decision that may serve it
	reserved *job.Job
}

// Update takes up what changed in the machine since the last call.
func (s *Scheduler) Update() {
	s.m.Moved(s.updateWorker)
	s.m.Touched(s.updateJob)
}

// Want says that the worker waits for up to n jobs; 0: it does not wait. load is what its machine does besides.
func (s *Scheduler) Want(name string, n int, load float64) {
	w := s.workers[name]
	if w == nil {
		return
	}
	w.want, w.load = n, load
	switch {
	case n > 0 && w.place == 0:
		s.waiting = append(s.waiting, w)
		w.place = len(s.waiting)
	case n <= 0 && w.place != 0:
		last := s.waiting[len(s.waiting)-1]
		s.waiting[w.place-1] = last
		last.place = w.place
		s.waiting = s.waiting[:len(s.waiting)-1]
		w.place = 0
	}
}

// Wants gives for how many jobs the worker waits.
func (s *Scheduler) Wants(name string) int {
	if w := s.workers[name]; w != nil {
		return w.want
	}
	return 0
}

func (s *Scheduler) updateWorker(name string) {
	now, known := s.m.Worker(name)
	w := s.workers[name]
	if !known {
		if w != nil {
			s.Want(name, 0, 0)
			s.unmatch(w)
			delete(s.workers, name)
		}
		return
	}
	fresh := w == nil
	if fresh {
		w = &worker{}
		s.workers[name] = w
	}
	same := !fresh && sameReach(&w.Worker, &now)
	w.Worker = now
	w.used, w.held = s.m.Used(name), s.m.UsedAlone(name)
	if same {
		return
	}
	s.unmatch(w)
	for _, c := range s.sortedClasses() {
		s.match(w, c)
	}
}

func sameReach(a, b *job.Worker) bool {
	return slices.Equal(a.Channels, b.Channels) && slices.Equal(a.Kinds, b.Kinds) &&
		slices.Equal(a.Systems, b.Systems) && slices.Equal(a.Features, b.Features) &&
		slices.Equal(a.Mandatory, b.Mandatory)
}

func (s *Scheduler) sortedClasses() []*class {
	all := make([]*class, 0, len(s.classes))
	for _, c := range s.classes {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *class) int { return compareClass(a.key, b.key) })
	return all
}

func compareClass(a, b job.Class) int {
	for _, p := range [][2]string{
		{a.Channel, b.Channel}, {a.Kind, b.Kind}, {a.System, b.System}, {a.Features, b.Features}, {a.Pin, b.Pin},
	} {
		if n := strings.Compare(p[0], p[1]); n != 0 {
			return n
		}
	}
	return 0
}

func (s *Scheduler) match(w *worker, c *class) {
	if len(w.Lacks(c.key)) == 0 {
		w.classes = append(w.classes, c)
		c.workers = append(c.workers, w)
	}
}

func (s *Scheduler) unmatch(w *worker) {
	for _, c := range w.classes {
		c.workers = slices.DeleteFunc(c.workers, func(x *worker) bool { return x == w })
	}
	w.classes = nil
}

// class finds or makes a class, and finds the workers that match it.
func (s *Scheduler) class(key job.Class) *class {
	c := s.classes[key]
	if c == nil {
		c = &class{key: key, channel: s.channels[key.Channel]}
		if c.channel == nil {
			c.channel = &channel{}
			s.channels[key.Channel] = c.channel
		}
		s.classes[key] = c
		s.idle++
		for _, n := range s.m.Workers() {
			if w := s.workers[n]; w != nil {
				s.match(w, c)
			}
		}
	}
	return c
}

// maxIdle is how many classes without a ready job are kept, so that a class which comes and goes is matched once.
const maxIdle = 1000

// sweep drops the classes that no ready job is in, once there are many.
func (s *Scheduler) sweep() {
	if s.idle <= maxIdle+len(s.open) {
		return
	}
	for key, c := range s.classes {
		if c.entries == 0 {
			delete(s.classes, key)
		}
	}
	for _, w := range s.workers {
		w.classes = slices.DeleteFunc(w.classes, func(c *class) bool { return c.entries == 0 })
	}
	s.idle = 0
}

func (s *Scheduler) updateJob(j *job.Job) {
	e := s.entries[j]
	isReady, holds := false, j.Held()
	switch j.State().(type) {
	case job.Ready:
		// One that nobody needs any more is Ready until the machine comes to end it.
		isReady = j.Needed()
	case job.Running:
		holds = true
	default:
		// Blocked and Done jobs are neither in a heap nor holders, but for a Done one whose attempt is Held.
	}
	if !isReady && !(holds && j.Gate().Key != "") {
		if e != nil {
			s.leave(e)
			s.setHolder(e, false)
			delete(s.entries, j)
		}
		return
	}
	if e == nil {
		e = &entry{job: j, gated: j.Gate().Key != ""}
		s.entries[j] = e
	}
	if !isReady {
		s.setHolder(e, true)
		s.leave(e)
		return
	}
	s.setHolder(e, false)
	s.enter(e)
}

// enter puts a ready job where it belongs by its present rank.
func (s *Scheduler) enter(e *entry) {
	j := e.job
	key := heapOf(j)
	byAge := s.m.Channel(key.class.Channel).Discipline == job.ByAge
	priority, path := j.Priority(), int64(j.Path())
	if e.in != nil && e.in.key == key && e.in.byAge == byAge && e.parked == nil {
		if e.priority != priority || e.path != path {
			e.priority, e.path = priority, path
			heap.Fix(e.in, e.index)
		}
		return
	}
	s.leave(e)
	e.priority, e.path = priority, path
	r := s.heaps[key]
	if r == nil {
		r = &ready{key: key, class: s.class(key.class)}
		for _, g := range j.Audience().Groups() {
			r.groups = append(r.groups, s.m.GroupMeter(key.class.Channel, g))
		}
		s.heaps[key] = r
	}
	if r.byAge != byAge {
		r.byAge = byAge
		heap.Init(r)
	}
	s.push(r, e)
}

func (s *Scheduler) push(r *ready, e *entry) {
	e.in = r
	heap.Push(r, e)
	if r.class.entries++; r.class.entries == 1 {
		s.idle--
	}
	if r.place == 0 {
		r.class.heaps = append(r.class.heaps, r)
		r.place = len(r.class.heaps)
		if r.key.exclusive {
			s.alone = append(s.alone, r)
		}
	}
	if r.class.place == 0 {
		s.open = append(s.open, r.class)
		r.class.place = len(s.open)
	}
}

// leave takes a job out of its heap or its parking.
func (s *Scheduler) leave(e *entry) {
	if e.in == nil {
		return
	}
	c := e.in.class
	if e.parked != nil {
		e.parked.remove(e)
		e.in = nil
	} else {
		s.pull(e)
		// It may have been let in at its concurrency key: if it does not start, it is another's turn.
		s.admit(s.gates[gateKey{c.key.Channel, e.job.Gate().Key}])
	}
	s.drop(c)
}

// drop counts one ready job less in the class.
func (s *Scheduler) drop(c *class) {
	if c.entries--; c.entries == 0 {
		s.idle++
		s.sweep()
	}
}

// pull takes a job out of its heap alone.
func (s *Scheduler) pull(e *entry) {
	r := e.in
	heap.Remove(r, e.index)
	e.in = nil
	if len(r.entries) > 0 {
		return
	}
	c := r.class
	last := c.heaps[len(c.heaps)-1]
	c.heaps[r.place-1] = last
	last.place = r.place
	c.heaps = c.heaps[:len(c.heaps)-1]
	r.place = 0
	delete(s.heaps, r.key)
	if r.key.exclusive {
		s.alone = slices.DeleteFunc(s.alone, func(x *ready) bool { return x == r })
	}
	if len(c.heaps) == 0 {
		tail := s.open[len(s.open)-1]
		s.open[c.place-1] = tail
		tail.place = c.place
		s.open = s.open[:len(s.open)-1]
		c.place = 0
	}
}

func (r *ready) Len() int { return len(r.entries) }
func (r *ready) Less(a, b int) bool {
	return r.entries[a].before(r.entries[b], r.byAge)
}

func (r *ready) Swap(a, b int) {
	r.entries[a], r.entries[b] = r.entries[b], r.entries[a]
	r.entries[a].index, r.entries[b].index = a, b
}

// Push is for container/heap.
func (r *ready) Push(x any) {
	e := x.(*entry)
	e.index = len(r.entries)
	r.entries = append(r.entries, e)
}

// Pop is for container/heap.
func (r *ready) Pop() any {
	e := r.entries[len(r.entries)-1]
	r.entries[len(r.entries)-1] = nil
	r.entries = r.entries[:len(r.entries)-1]
	return e
}

// before is the order among jobs of one heap.
func (e *entry) before(o *entry, byAge bool) bool {
	switch {
	case byAge:
		return e.job.Before(o.job)
	case e.priority != o.priority:
		return e.priority > o.priority
	case e.path != o.path:
		return e.path > o.path
	}
	return e.job.Seq() < o.job.Seq()
}
