package sim

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/job"
)

// compared is what the model has to do with the engine, and no rule: what it says that happened, and what it must be told.
type compared struct {
	drawn
	log []string // what happened since the last comparison
	put []string // and what became of settings, in that order
	// lead, if it is set, has the model do what the engine did in rounds over their budget: see follow.go. While behind, nothing
	// follows by itself.
	lead   func()
	behind bool
	stored []*mRun // if it is set, the attempts that ended before the round under way
}

// drawn is the engine's to draw: jitter, and which of equals comes first. It tells what that was, and checks that it may be.
type drawn interface {
	drawnRoot(j *mJob) job.ID
	drawnWake(j *mJob, least, span time.Duration) job.Time
	drawnTurn(j *mJob) int64
	drawnKept(j *mJob) bool
	drawnUntil(w *mWorker, least, span time.Duration) job.Time
}

// note keeps what happened, to be compared with what the engine stored.
func (m *model) note(c job.Change) { m.log = append(m.log, fmt.Sprintf("%d %s", m.now, tell(c))) }

// known gives the attempts that have ended, as far as that is stored.
func (m *model) known() []*mRun {
	if m.stored != nil {
		return m.stored
	}
	return m.past
}
