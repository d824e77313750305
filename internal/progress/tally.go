package progress

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
)

// tally is what a run has come to, as its events tell.
type tally struct {
	started time.Time
	run     RunStarted
	done    []bool
	running map[int]*attempt
	waiting map[int]JobWaiting // before a further attempt
	counts  map[job.Outcome]int
	again   map[int]bool // a further attempt is to come, at once or after a wait
	given   int          // of the cancelled, those
	cut     int          // of the aborted, those that an interrupt ended
	ended   int
	reused  int
	failed  roll // that count
	excused roll // optional ones that did not succeed
	slowest []JobEnded
	stop    *RunStopping
	end     *RunEnded
}

// attempt is one that runs.
type attempt struct {
	JobStarted
	last string // line of output, not cleaned
}

// roll has jobs that did not succeed: all of them as numbers, and as many as are ever listed. A million can follow from one.
type roll struct {
	own, following   []JobEnded // failed by itself; only another's end kept it from running
	owns, followings int
}

// failuresListed is how many failed jobs a summary lists.
const failuresListed = 50

func (r *roll) add(e JobEnded) {
	list, count := &r.own, &r.owns
	if e.Outcome == job.DependencyFailed {
		list, count = &r.following, &r.followings
	}
	if *count++; len(*list) < failuresListed {
		*list = append(*list, e)
	}
}

func (r *roll) len() int { return r.owns + r.followings }

// listed gives those that a summary lists: first what failed by itself, as the rest follows from it.
func (r *roll) listed() []JobEnded {
	all := slices.Concat(r.own, r.following)
	return all[:min(len(all), failuresListed)]
}

// slowestShown is how many slow jobs the summary names.
const slowestShown = 5

func newTally() *tally {
	return &tally{running: map[int]*attempt{}, waiting: map[int]JobWaiting{}, again: map[int]bool{}, counts: map[job.Outcome]int{}}
}

func (t *tally) take(e Event, now time.Time) {
	switch e := e.(type) {
	case RunStarted:
		t.started, t.run = now, e
		t.done = make([]bool, e.Jobs)
	case JobReused:
		t.reused++
		t.finish(e.Index, job.Succeeded)
	case JobStarted:
		t.running[e.Index] = &attempt{JobStarted: e}
		delete(t.waiting, e.Index)
		delete(t.again, e.Index)
	case JobRetried:
		delete(t.running, e.Index)
		t.again[e.Index] = true
		if e.Until != nil {
			t.waiting[e.Index] = JobWaiting{Job: e.Job, Attempt: e.Attempt, Outcome: e.Outcome, Detail: e.Detail, Message: e.Message, Until: *e.Until}
		}
	case JobWaiting:
		t.again[e.Index] = true
		t.waiting[e.Index] = e
	case JobEnded:
		delete(t.running, e.Index)
		if t.again[e.Index] && e.Outcome == job.Cancelled {
			t.given++
		}
		if e.Interrupted {
			t.cut++
		}
		delete(t.waiting, e.Index)
		t.finish(e.Index, e.Outcome)
		t.judge(e)
	case RunStopping:
		t.stop = &e
	case RunEnded:
		t.end = &e
	case Notice:
	default:
		// The rest changes no count.
	}
}

func (t *tally) finish(index int, o job.Outcome) {
	t.ended++
	t.counts[o]++
	if index < len(t.done) {
		t.done[index] = true
	}
}

func (t *tally) judge(e JobEnded) {
	e.Tail = nil
	switch {
	case e.Outcome == job.Succeeded || e.Outcome == job.Cancelled || e.Interrupted:
	case e.Optional:
		t.excused.add(e)
	default:
		t.failed.add(e)
	}
	if e.Attempts == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(t.slowest, e, func(a, b JobEnded) int { return cmp.Compare(b.Took, a.Took) })
	t.slowest = slices.Insert(t.slowest, at, e)
	t.slowest = t.slowest[:min(len(t.slowest), slowestShown)]
}

// Forecast knows, from earlier runs, how long jobs take.
type Forecast struct {
	// Estimates has the time of each job of the graph; Paths that of the longest path from its start to
	// the end of the run. Both are empty if nothing is known.
	Estimates, Paths []time.Duration
	Slots            int
}

// left guesses how long the run still takes: the slots share the work, and no path gets shorter.
func (f *Forecast) left(t *tally, now time.Time) (time.Duration, bool) {
	if f == nil || len(f.Estimates) == 0 || len(f.Estimates) != len(t.done) {
		return 0, false
	}
	var work, path time.Duration
	for i, done := range t.done {
		if done {
			continue
		}
		spent := time.Duration(0)
		if a := t.running[i]; a != nil {
			spent = min(now.Sub(a.Start), f.Estimates[i])
		}
		work += f.Estimates[i] - spent
		path = max(path, f.Paths[i]-spent)
	}
	return max(path, work/time.Duration(max(1, f.Slots))), true
}
