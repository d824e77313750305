package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/worker"
)

// Words for what commands tell, the same on a line and in JSON: states in lower case, and interrupted where the store
// still says running but nobody is there to run it.
const interrupted = "interrupted"

// stateWord gives the word for a state in which the store has a job.
func stateWord(s job.State) string { return strings.ToLower(s.String()) }

// cutOff: the end says that the attempt was handed back for good, as its run had stopped at a failure when it was interrupted.
func cutOff(e *job.End) bool { return e.Outcome == job.Aborted && e.Detail == job.HandedBack }

// attemptView is an attempt as commands show it.
type attemptView struct {
	Number  int32  `json:"number"`
	Outcome string `json:"outcome,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// Interrupted: headrace was killed while it ran. Took then counts up to its last output, 0 if there was none: it ran so
	// long or longer.
	Interrupted bool             `json:"interrupted,omitempty"`
	Message     string           `json:"message,omitempty"`
	Start       time.Time        `json:"start"`
	Took        progress.Seconds `json:"seconds"`
	Log         string           `json:"log"`
}

// endedAttempt shows an attempt that is over.
func (p place) endedAttempt(id job.ID, e *job.AttemptEnd) attemptView {
	v := attemptView{
		Number: e.Number, Outcome: e.Outcome.String(), Detail: e.Detail.String(), Message: e.Message,
		Start: e.Start.Std(), Took: progress.Seconds(e.At.Sub(e.Start)), Log: p.log(id, e.Number),
	}
	if e.Detail == job.HandedBack && e.Message == killedNote {
		v.cutShort()
	}
	return v
}

// openAttempt shows an attempt whose end is not stored: it runs, if there is a run.
func (p place) openAttempt(id job.ID, a *job.Attempt, underWay bool) attemptView {
	v := attemptView{Number: a.Number, Start: a.Start.Std(), Log: p.log(id, a.Number)}
	if underWay {
		v.Took = progress.Seconds(time.Since(v.Start))
	} else {
		v.Message = killedNote
		v.cutShort()
	}
	return v
}

// cutShort gives an attempt that was killed with headrace the time up to the last line of its log.
func (v *attemptView) cutShort() {
	v.Interrupted, v.Took = true, 0
	r, err := worker.OpenLog(v.Log)
	if err != nil {
		return
	}
	defer r.Close() // Only read from.
	if r.Tail(1) != nil {
		return
	}
	if l, err := r.Next(); err == nil {
		v.Took = progress.Seconds(max(0, l.Time.Sub(v.Start)))
	}
}

// end is when the attempt was over, as far as it is known.
func (v *attemptView) end() time.Time { return v.Start.Add(time.Duration(v.Took)) }

// line shows an attempt.
func (v *attemptView) line() string {
	text := stamp(v.Start) + "  "
	switch {
	case !v.Interrupted:
		text += progress.Span(time.Duration(v.Took))
	case v.Took == 0:
		text += "for an unknown time"
	default:
		text += orMore(v.Took)
	}
	switch {
	case v.Interrupted:
		text += "  interrupted: " + killedNote
	case v.Outcome == "":
		text += "  running"
	case v.Detail == job.HandedBack.String() && v.Message == refusedNote:
		text += "  handed back: " + refusedNote
	case v.Detail == job.HandedBack.String():
		text += "  handed back"
	case v.Message != "":
		text += "  " + v.Outcome + ": " + progress.Clean(progress.Brief(v.Message))
	default:
		text += "  " + v.Outcome
	}
	return fmt.Sprintf("%d  %s", v.Number, text)
}

// orMore shows the time of what was killed: when it was over nobody noted.
func orMore(s progress.Seconds) string { return progress.Span(time.Duration(s)) + " or more" }

// zoned is how people are shown a moment: by their own clock, and which that is.
const zoned = time.DateTime + " MST"

// stamp writes a time as the user's clock shows it.
func stamp(t time.Time) string { return t.Local().Format(zoned) }
