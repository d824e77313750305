package progress

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
)

// Options are what displays for people share.
type Options struct {
	Style Style
	// Quiet leaves out all but failures, notices and the summary.
	Quiet bool
	// Logs tells how to see the whole log of a job.
	Logs func(job string) string
}

// Plain shows a run line by line.
type Plain struct {
	out *Output
	o   Options
	mu  sync.Mutex
	t   *tally
	// brief leaves out what a live display shows anyway: the starts.
	brief bool
}

// NewPlain gives a plain display.
func NewPlain(out *Output, o Options) *Plain { return &Plain{out: out, o: o, t: newTally()} }

// Line implements Display: the output is in the logs.
func (p *Plain) Line(int, []byte) {}

// Run implements Display.
func (p *Plain) Run(ctx context.Context) { <-ctx.Done() }

// Event implements Display.
func (p *Plain) Event(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.take(e, time.Now())
	_, _ = p.out.Write([]byte(p.describe(e))) // Output keeps the error.
}

// describe gives the lines for an event, each with its newline; none if it is not to be told.
func (p *Plain) describe(e Event) string {
	s := p.o.Style
	switch e := e.(type) {
	case RunStarted:
		if p.o.Quiet {
			return ""
		}
		return p.opening(e)
	case JobStarted:
		if p.o.Quiet || p.brief {
			return ""
		}
		text := s.dim("start  ") + Clean(e.Name)
		if e.Attempt > 1 {
			text += fmt.Sprintf(" (attempt %d)", e.Attempt)
		}
		return text + "\n"
	case JobRetried:
		return p.retried(e)
	case JobWaiting:
		return s.warn("wait   ") + Clean(e.Name) + ": " + Clean(e.Text()) + e.Since() + "\n"
	case JobEnded:
		return p.ended(e)
	case Notice:
		return s.warn("note   ") + Clean(e.Text) + "\n"
	case RunStopping:
		return s.warn("stop   ") + Clean(e.Text) + "\n"
	case RunEnded:
		return p.summary(e)
	case JobReused:
	default:
		// The rest says nothing on a plain line.
	}
	return ""
}

func (p *Plain) opening(e RunStarted) string {
	text := p.o.Style.bold(Clean(e.Name)) + ": " + Count(e.Jobs, "job")
	if e.Reused > 0 {
		text += fmt.Sprintf(", %d of them done before", e.Reused)
	}
	if e.Server != "" {
		return fmt.Sprintf("%s, build %s on %s\n", text, e.Build, Clean(e.Server))
	}
	return fmt.Sprintf("%s, %d at once\n", text, e.Slots)
}

func (p *Plain) retried(e JobRetried) string {
	if e.HandedBack {
		return p.o.Style.warn("halt   ") + Clean(e.Name) + ": handed back; the next run goes on with it\n"
	}
	text := fmt.Sprintf("%s%s: attempt %d: %s", p.o.Style.warn("again  "), Clean(e.Name), e.Attempt, reason(e.Outcome, e.Message))
	if e.Wait > 0 {
		text += "; the next in " + Span(time.Duration(e.Wait))
	}
	if e.Until != nil && time.Duration(e.Wait) >= time.Second {
		text += ", at " + moment(*e.Until)
	}
	return text + "\n"
}

// Text says until when the job waits, and why.
func (e *JobWaiting) Text() string {
	if e.Detail == job.HandedBack.String() {
		return fmt.Sprintf("waits until %s (attempt %d), %s", moment(e.Until), e.Attempt+1, PauseAfterInterrupts)
	}
	return fmt.Sprintf("waits until %s (attempt %d after %s)", moment(e.Until), e.Attempt+1, reason(e.Outcome, e.Message))
}

// Since says who had the job wait, where that is not plain.
func (e *JobWaiting) Since() string {
	if e.Detail == job.HandedBack.String() {
		return ""
	}
	return ", as an earlier run set it"
}

// moment shows a time of these hours by the user's clock.
func moment(t time.Time) string { return t.Local().Format("15:04:05 MST") }

// words by which lines say how a job ended.
var words = map[job.Outcome]string{
	job.Succeeded: "ok", job.Failed: "FAIL", job.DependencyFailed: "skip", job.TimedOut: "TIME", job.Aborted: "ABORT",
	job.Cancelled: "drop", job.Unsupported: "LACK",
}

func (p *Plain) ended(e JobEnded) string {
	s := p.o.Style
	head := fmt.Sprintf("%s  ", pad(words[e.Outcome], 5))
	switch {
	case e.Outcome == job.Succeeded:
		if p.o.Quiet {
			return ""
		}
		return s.good(head) + pad(Clean(e.Name), 28) + " " + s.dim(Span(time.Duration(e.Took))) + "\n"
	case e.Outcome == job.Cancelled:
		return "" // The stop has been told, and the summary counts them.
	case e.Interrupted:
		return s.warn("halt   ") + Clean(e.Name) + ": interrupted\n"
	case e.Outcome == job.DependencyFailed || e.Optional:
		head = s.warn(head)
	default:
		head = s.bad(head)
	}
	text := head + pad(Clean(e.Name), 28) + " "
	if e.Attempts > 0 {
		text += s.dim(Span(time.Duration(e.Took))) + "  "
	}
	text += Clean(e.why()) + "\n"
	for _, line := range e.Tail {
		text += s.dim("       | ") + Clean(line) + "\n"
	}
	see := e.See
	if e.Log != "" && p.o.Logs != nil {
		see = p.o.Logs(e.Name)
	}
	if see != "" {
		text += s.dim("       the whole log: ") + see + "\n"
	}
	return text
}

// why says for people how a job that did not succeed ended.
func (e *JobEnded) why() string {
	text := reason(e.Word, e.Message)
	switch {
	case e.Through != "":
		text = fmt.Sprintf("needs %s, which could not run, as %s ended as %s", e.Through, e.Root, e.RootOutcome)
	case e.Root != "":
		text = fmt.Sprintf("needs %s, which ended as %s", e.Root, e.RootOutcome)
	}
	if e.Attempts > 1 {
		text += fmt.Sprintf(" (attempt %d)", e.Attempts)
	}
	if e.Optional {
		text += " (optional)"
	}
	return text
}

func reason(outcome, message string) string {
	message = Brief(message)
	switch {
	case message == "" || message == outcome:
		return outcome
	case outcome == job.Failed.String():
		return message // The word is on the line already.
	}
	return outcome + ": " + message
}

// summary tells at the end what became of the run.
func (p *Plain) summary(e RunEnded) string {
	s, t := p.o.Style, p.t
	var b strings.Builder
	verdict := s.good(e.Outcome)
	if e.Outcome != "succeeded" {
		verdict = s.bad(e.Outcome)
	}
	name := ""
	if t.run.Name != "" { // It was not stopped before it started.
		name = s.bold(Clean(t.run.Name)) + ": "
	}
	if !p.o.Quiet || t.failed.len()+t.excused.len() > 0 { // Else nothing stands above it.
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s%s in %s: %s\n", name, verdict, Span(time.Duration(e.Took)), t.counted(&e))
	if t.reused == t.run.Jobs && t.reused > 0 {
		b.WriteString("nothing had to be run; --fresh starts over\n")
	}
	if len(t.slowest) > 1 && !p.o.Quiet {
		var list []string
		for _, j := range t.slowest {
			list = append(list, Clean(j.Name)+" "+Span(time.Duration(j.Took)))
		}
		fmt.Fprintf(&b, "slowest: %s\n", strings.Join(list, ", "))
	}
	p.listFailed(&b, "did not succeed:", &t.failed)
	p.listFailed(&b, "did not succeed, but are optional:", &t.excused)
	left := "what is left"
	if e.Unfinished != nil {
		left = fmt.Sprintf("the %s left", Count(*e.Unfinished, "job"))
	}
	switch {
	case e.Store == StoreLost:
		b.WriteString("the store is lost: the next run begins anew\n")
	case e.Unfinished != nil && *e.Unfinished == 0, t.run.Server != "":
	case e.Store == StoreFailed:
		fmt.Fprintf(&b, "when the store can be used again, the next run goes on with %s\n", left)
	default:
		fmt.Fprintf(&b, "the next run goes on with %s\n", left)
	}
	return b.String()
}

// counted gives the counts by outcome, the good news first.
func (t *tally) counted(e *RunEnded) string {
	var parts []string
	for o := job.Succeeded; o <= job.Unsupported; o++ {
		n := t.counts[o]
		switch {
		case n == 0:
		case o == job.Succeeded && t.reused > 0:
			parts = append(parts, fmt.Sprintf("%d succeeded (%d of them before)", n, t.reused))
		case o == job.Cancelled && t.run.Server == "":
			if n > t.given {
				parts = append(parts, fmt.Sprintf("%d %s", n-t.given, NotStarted))
			}
			if t.given > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", t.given, NotTriedAgain))
			}
		case o == job.Aborted:
			if n > t.cut {
				parts = append(parts, fmt.Sprintf("%d %v", n-t.cut, o))
			}
			if t.cut > 0 {
				parts = append(parts, fmt.Sprintf("%d interrupted", t.cut))
			}
		default:
			parts = append(parts, fmt.Sprintf("%d %v", n, o))
		}
	}
	switch {
	case e.Unfinished == nil:
		parts = append(parts, "no job was started")
	case *e.Unfinished > 0:
		parts = append(parts, fmt.Sprintf("%d unfinished", *e.Unfinished))
	}
	if len(parts) == 0 {
		return "no jobs"
	}
	return strings.Join(parts, ", ")
}

// reasonListed is how many columns of its reason a summary repeats.
const reasonListed = 80

func (p *Plain) listFailed(b *strings.Builder, title string, failed *roll) {
	if failed.len() == 0 {
		return
	}
	fmt.Fprintln(b, p.o.Style.bold(title))
	list := failed.listed()
	for i := range list {
		j := &list[i]
		fmt.Fprintf(b, "  %s %s\n", pad(Clean(j.Name), 28), cut(Clean(j.why()), reasonListed))
		if log := cmp.Or(j.Log, j.See); log != "" {
			fmt.Fprintf(b, "  %s %s\n", pad("", 28), p.o.Style.dim("log: "+log))
		}
	}
	if more := failed.len() - len(list); more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
}
