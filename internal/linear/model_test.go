package linear

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/headrace/headrace/job"
)

// Kinds of operations.
const (
	submit    = "submit"
	lease     = "lease"
	finish    = "finish"
	heartbeat = "heartbeat"
	cancel    = "cancel"
	register  = "register"
	look      = "look"
)

// asked is the input of an operation.
type asked struct {
	kind    string
	key     string // of the job; "": it is about all of them
	job     job.ID
	worker  string
	lease   job.Lease
	outcome job.Outcome
	running []job.Lease // that the worker still has

	untold map[job.Lease]bool // for a lease: the worker's attempts that nobody was told of
}

// told is the output of an operation.
type told struct {
	unknown bool // nobody was told: it may have happened, or not
	refused bool // lease lost, job ended
	job     job.ID
	how     job.How
	seen    seen
}

// seen is what the history says of a job.
type seen struct {
	state    string
	outcome  job.Outcome
	attempts int32
}

// failures is how often each job may fail and is tried again.
const failures = 2

// state is a job as the specification knows it. The jobs of one key are those of one identity, oldest first: all but the last
// have ended.
type state struct {
	id       job.ID
	word     string // waiting, running or done
	attempts int32  // that were started
	token    job.Token
	worker   string      // of the last attempt
	end      job.Outcome // of the last attempt; 0: there is none, or it runs
	crashed  bool        // the worker came back without the last attempt, or its lease ran out
	failures int32
	held     bool // done, but its worker has not confirmed that it stopped
	outcome  job.Outcome
}

const (
	waiting = "waiting"
	running = "running"
	done    = "done"
)

// stored is what is stored of each job in the end. An order of the operations must explain that, too. It is also what makes an order
// quick to find: it says which attempts nobody was told of, and which leases ran out, where a search without it would have to try
// that any might, at any time.
type stored map[job.ID]*kept

type kept struct {
	attempts []job.AttemptEnd // the last may still run, with outcome 0
	outcome  job.Outcome      // of the job; 0: it has not ended
}

func (k *kept) attempt(number int32) *job.AttemptEnd {
	if k == nil {
		return nil
	}
	i := slices.IndexFunc(k.attempts, func(a job.AttemptEnd) bool { return a.Number == number })
	if i < 0 {
		return nil
	}
	return &k.attempts[i]
}

// vain reports whether an operation that nobody was told of can have changed nothing.
func (h stored) vain(in *asked) bool {
	switch in.kind {
	case submit:
		return h[in.job] == nil
	case cancel:
		return h[in.job].outcome != job.Cancelled
	case finish:
		a := h[in.lease.Job].attempt(in.lease.Attempt)
		return a == nil || a.Token != in.lease.Token || a.Outcome != in.outcome && a.Outcome != job.Cancelled
	}
	return false
}

// agrees reports whether a job is, as far as it came, what is stored of it. How its last attempt ended may be stored anew when a late report
// of that ends the job.
func (h stored) agrees(j *state) bool {
	k := h[j.id]
	a := k.attempt(j.attempts)
	switch {
	case k == nil || j.word == done && j.outcome != k.outcome:
		return false
	case j.attempts == 0:
		return true
	case a == nil || a.Worker != j.worker || a.Token != j.token:
		return false
	case j.word == running || j.word == waiting && a == &k.attempts[len(k.attempts)-1]:
		return true
	}
	return a.Outcome == j.end && (a.Detail == job.LeaseLost || a.Detail == job.WorkerCrashed) == j.crashed
}

// spec is the sequential specification of one key.
func (h stored) spec() porcupine.Model {
	spec := porcupine.NondeterministicModel{
		Init: func() []any { return []any{[]state(nil)} },
		Step: func(s, in, out any) []any {
			var next []any
			for _, n := range h.step(s.([]state), in.(*asked), out.(*told)) {
				if !slices.ContainsFunc(n, func(j state) bool { return !h.agrees(&j) }) {
					next = append(next, n)
				}
			}
			return next
		},
		Equal:             func(a, b any) bool { return slices.Equal(a.([]state), b.([]state)) },
		DescribeOperation: func(in, out any) string { return describe(in.(*asked), out.(*told)) },
		DescribeState:     func(s any) string { return fmt.Sprint(s) },
	}
	return spec.ToModel()
}

// step gives what may be after an operation that was answered so; nothing: it cannot have been. Before it a lease may have run out.
func (h stored) step(s []state, in *asked, out *told) [][]state {
	next := h.stepNow(s, in, out)
	if l, ok := lapsed(s); ok {
		next = append(next, h.stepNow(l, in, out)...)
	}
	return next
}

// lapsed gives what is when the lease of the job that has one has run out: of one key there is one such job at most, as one that is held
// keeps its identity, too. What the specification does not say is when: package sim does.
func lapsed(s []state) ([]state, bool) {
	i := slices.IndexFunc(s, func(j state) bool { return j.word == running || j.held })
	if i < 0 {
		return nil, false
	}
	j := s[i]
	if j.held {
		j.held = false
	} else {
		j.word, j.end, j.crashed = waiting, job.Aborted, true
	}
	return with(s, j), true
}

// stepNow is step without that.
func (h stored) stepNow(s []state, in *asked, out *told) [][]state {
	switch in.kind {
	case submit:
		return only(stepSubmit(s, in, out))
	case lease:
		return h.stepLease(s, in, out)
	case finish:
		return only(h.stepFinish(s, in, out))
	case heartbeat:
		j := find(s, in.lease.Job)
		good := j != nil && j.word == running && j.is(in.lease)
		return only(s, good != out.refused)
	case cancel:
		return only(stepCancel(s, in, out))
	case register:
		if next := stepRegister(s, in); out.unknown {
			return [][]state{s, next}
		} else {
			return [][]state{next}
		}
	case look:
		j := find(s, in.job)
		return only(s, j != nil && out.seen == seen{j.word, j.outcome, j.attempts})
	}
	panic(in.kind)
}

func only(s []state, ok bool) [][]state {
	if !ok {
		return nil
	}
	return [][]state{s}
}

func find(s []state, id job.ID) *state {
	for i := range s {
		if s[i].id == id {
			return &s[i]
		}
	}
	return nil
}

func (j *state) is(l job.Lease) bool { return j.attempts == l.Attempt && j.token == l.Token }

// with gives a copy of s with another state of one job.
func with(s []state, j state) []state {
	s = slices.Clone(s)
	*find(s, j.id) = j
	return s
}

func stepSubmit(s []state, in *asked, out *told) ([]state, bool) {
	if last := len(s) - 1; last >= 0 && s[last].word != done {
		return s, out.unknown || out.job == s[last].id && out.how == job.Joined
	}
	s = append(slices.Clip(s), state{id: in.job, word: waiting})
	return s, out.unknown || out.job == in.job && out.how == job.Created
}

// stepLease: one that nobody was told of may have started an attempt that nobody was told of, and may have handed it back.
func (h stored) stepLease(s []state, in *asked, out *told) [][]state {
	last := len(s) - 1
	// One that is held keeps its identity.
	can := last >= 0 && s[last].word == waiting && !slices.ContainsFunc(s, func(j state) bool { return j.held })
	if !can {
		return only(s, out.unknown)
	}
	j := s[last]
	j.word, j.attempts, j.token, j.worker, j.end, j.crashed = running, j.attempts+1, in.lease.Token, in.worker, 0, false
	if !out.unknown {
		return only(with(s, j), j.id == in.lease.Job && j.attempts == in.lease.Attempt)
	}
	a := h[j.id].attempt(j.attempts)
	if a == nil || !in.untold[job.Lease{Job: j.id, Attempt: a.Number, Token: a.Token}] {
		return [][]state{s}
	}
	j.token = a.Token
	if a.Detail == job.HandedBack {
		j.word, j.end = waiting, job.Aborted
	}
	return [][]state{s, with(s, j)}
}

func (h stored) stepFinish(s []state, in *asked, out *told) ([]state, bool) {
	j := find(s, in.lease.Job)
	if j == nil || !j.is(in.lease) {
		// What says again how an older attempt ended changes nothing, and is no lie.
		repeats := false
		if j != nil && in.lease.Attempt < j.attempts {
			a := h[j.id].attempt(in.lease.Attempt)
			repeats = a != nil && a.Token == in.lease.Token && a.Outcome == in.outcome
		}
		return s, out.unknown || out.refused != repeats
	}
	n, lost := *j, false
	switch {
	case j.word == running:
		n.end, n.crashed = in.outcome, false
		if in.outcome == job.Failed {
			n.failures++
		}
		if n.word = waiting; in.outcome == job.Succeeded || n.failures > failures {
			n.word, n.outcome = done, in.outcome
		}
	case j.held:
		n.held, lost = false, true
	case j.end == in.outcome && !j.crashed:
	case j.word == done || !j.crashed:
		lost = true
	case in.outcome == job.Succeeded || j.failures+1 > failures:
		// Late, while it waits for its next attempt: only what ends the job counts.
		n.word, n.outcome, n.end, n.crashed = done, in.outcome, in.outcome, false
	}
	return with(s, n), out.unknown || out.refused == lost
}

func stepCancel(s []state, in *asked, out *told) ([]state, bool) {
	j := find(s, in.job)
	if j == nil || j.word == done {
		return s, out.unknown || out.refused
	}
	n := *j
	n.word, n.outcome = done, job.Cancelled
	if j.word == running {
		n.held, n.end = true, job.Cancelled
	}
	return with(s, n), out.unknown || !out.refused
}

// stepRegister: whatever the worker had and does not list has crashed.
func stepRegister(s []state, in *asked) []state {
	s = slices.Clone(s)
	for i := range s {
		j := &s[i]
		if j.worker != in.worker || slices.ContainsFunc(in.running, func(l job.Lease) bool { return l.Job == j.id && j.is(l) }) {
			continue
		}
		switch {
		case j.held:
			j.held = false
		case j.word == running:
			j.word, j.end, j.crashed = waiting, job.Aborted, true
		}
	}
	return s
}

func describe(in *asked, out *told) string {
	short := func(id job.ID) string { return id.String()[24:] }
	what := ""
	switch in.kind {
	case submit:
		what = fmt.Sprintf("submit %s as %s", in.key, short(in.job))
	case lease:
		what = fmt.Sprintf("%s leases %s.%d %x", in.worker, short(in.lease.Job), in.lease.Attempt, in.lease.Token[:2])
	case finish:
		what = fmt.Sprintf("finish %s.%d %x %v", short(in.lease.Job), in.lease.Attempt, in.lease.Token[:2], in.outcome)
	case heartbeat:
		what = fmt.Sprintf("heartbeat %s.%d %x", short(in.lease.Job), in.lease.Attempt, in.lease.Token[:2])
	case cancel, look:
		what = fmt.Sprintf("%s %s", in.kind, short(in.job))
	case register:
		what = fmt.Sprintf("%s comes back with %d leases", in.worker, len(in.running))
	}
	switch {
	case out.unknown:
		return what + ": unknown"
	case out.refused:
		return what + ": refused"
	case in.kind == submit:
		return fmt.Sprintf("%s: %v %s", what, out.how, short(out.job))
	case in.kind == look:
		return fmt.Sprintf("%s: %s %v after %d attempts", what, out.seen.state, out.seen.outcome, out.seen.attempts)
	}
	return what + ": done"
}
