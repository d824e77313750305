package composer

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
)

// StopTold is for how long after a cancel at least the token of the attempt is good, in this process, unless its worker finishes before: a
// worker that was silent for longer than a lease, but not for so long that a watchdog takes it for lost, can learn of the cancel.
const StopTold = 5 * time.Minute

// stoppedMost is how many tokens are kept for that at most; the oldest go first.
const stoppedMost = 10_000

// stopped are the tokens of attempts that were cancelled lately. The engine forgets them with the lease, which may be over by then.
type stopped struct {
	mu      sync.Mutex
	byToken map[job.Token]job.ID
	byJob   map[job.ID][]job.Token
	order   []stop // oldest first; some are not kept any more
	begun   map[job.ID]*cancels
}

// cancels are calls of CancelJob for one job that are under way.
type cancels struct {
	calls int
	over  bool // nobody is left to be told, since one of them began
}

type stop struct {
	token job.Token
	until time.Time
}

func newStopped() *stopped {
	return &stopped{byToken: map[job.Token]job.ID{}, byJob: map[job.ID][]job.Token{}, begun: map[job.ID]*cancels{}}
}

// begin notes that somebody is about to cancel a job. done is called when he has, or not, with the attempt that was stopped; zero: none was. Its
// worker may have heard of it by then, and have said that it is over.
func (s *stopped) begin(id job.ID) (done func(l job.Lease)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.begun[id]
	if c == nil {
		c = &cancels{}
		s.begun[id] = c
	}
	c.calls++
	return func(l job.Lease) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.calls--; c.calls == 0 {
			delete(s.begun, id)
		}
		if !l.Token.IsZero() && !c.over {
			s.add(l)
		}
	}
}

// add notes that the attempt has been cancelled. The caller holds the lock.
func (s *stopped) add(l job.Lease) {
	s.trim()
	if _, ok := s.byToken[l.Token]; ok {
		return
	}
	s.byToken[l.Token] = l.Job
	s.byJob[l.Job] = append(s.byJob[l.Job], l.Token)
	s.order = append(s.order, stop{l.Token, time.Now().Add(StopTold)})
}

// trim forgets what is too old, or too much.
func (s *stopped) trim() {
	now := time.Now()
	for len(s.order) > 0 && (len(s.order) > stoppedMost || now.After(s.order[0].until)) {
		t := s.order[0].token
		s.order = s.order[1:]
		if id, ok := s.byToken[t]; ok {
			s.forget(id)
		}
	}
}

// forget ends the tokens of a job. The caller holds the lock.
func (s *stopped) forget(id job.ID) {
	for _, t := range s.byJob[id] {
		delete(s.byToken, t)
	}
	delete(s.byJob, id)
}

// over says that nobody is left to be told of the job.
func (s *stopped) over(id job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(id)
	if c := s.begun[id]; c != nil {
		c.over = true
	}
}

// job gives the job of a token that is still good for that.
func (s *stopped) job(token uuid.UUID) (id job.ID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	id, ok = s.byToken[job.Token(token)]
	return id, ok
}
