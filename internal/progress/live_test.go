package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
)

// drawn runs f against a live display of that size in virtual time, and gives the frames that were written.
func drawn(t *testing.T, cols, rows int, f func(l *Live)) []string {
	t.Helper()
	var frames frames
	synctest.Test(t, func(t *testing.T) {
		l := NewLive(NewOutput(&frames), Options{}, func() (int, int) { return cols, rows })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Run(ctx)
		}()
		f(l)
		stop()
		<-done
	})
	return frames
}

// frames keeps each write apart.
type frames []string

func (f *frames) Write(p []byte) (int, error) {
	*f = append(*f, string(p))
	return len(p), nil
}

func began(i int) JobStarted {
	return JobStarted{Job: Job{Index: i, Name: fmt.Sprintf("job-%d", i)}, Attempt: 1, Start: time.Now()}
}

func ended(i int, o job.Outcome) JobEnded {
	return JobEnded{Job: Job{Index: i, Name: fmt.Sprintf("job-%d", i)}, Outcome: o, Word: o.String(), Attempts: 1}
}

// settle lets the display draw twice: the clock is virtual.
func settle() { <-time.After(2*framePeriod + framePeriod/4) }

func TestPanelFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, cols := range []int{1, 5, 20, 33, 80, 200} {
		const rows = 10
		all := drawn(t, cols, rows, func(l *Live) {
			l.Event(RunStarted{Name: "n", Jobs: 50})
			for i := range 40 {
				l.Event(began(i))
				l.Line(i, []byte(strings.Repeat("漢字 wide ", 40)))
			}
			settle()
		})
		panel := strings.SplitAfter(all[len(all)-2], "\x1b[K\n")
		panel = panel[:len(panel)-1]
		if len(panel) >= rows {
			t.Errorf("%d columns: %d lines on a terminal of %d", cols, len(panel), rows)
		}
		for i, line := range panel {
			text := stripped(strings.TrimSuffix(line, "\x1b[K\n"))
			if i == 0 {
				text = text[strings.LastIndexByte(text, '\n')+1:]
				text = text[strings.LastIndexByte(text, '\r')+1:]
			}
			if w := columns(text); w > cols {
				t.Errorf("%d columns: a line takes %d: %q", cols, w, text)
			}
		}
	}
}

func TestFrameGoesBackOverWhatItDrew(t *testing.T) {
	t.Parallel()
	all := drawn(t, 80, 24, func(l *Live) {
		l.Event(RunStarted{Name: "n", Jobs: 3})
		l.Event(began(0))
		l.Event(began(1))
		settle()
		l.Event(ended(0, job.Succeeded))
		settle()
	})
	// Two jobs and the bar, then one job and the bar, then nothing.
	want := []string{"", "\x1b[3A", "\x1b[3A", "\x1b[2A", "\x1b[2A"}
	var got []string
	for _, frame := range all {
		up := ""
		if i := strings.Index(frame, "A"); i > 0 && strings.HasPrefix(frame, "\x1b[?2026h\x1b[") {
			up = frame[len("\x1b[?2026h") : i+1]
		}
		got = append(got, up)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("the ways up are %q, want %q", got, want)
	}
	if last := all[len(all)-1]; !strings.HasSuffix(last, "\r\x1b[J\x1b[?2026l") {
		t.Errorf("the panel stays: %q", last)
	}
}

// A terminal that does not tell its size, as some serial lines, loses nothing of what stood above the panel.
func TestUnknownSizeGoesNoFurtherUpThanWasDrawn(t *testing.T) {
	t.Parallel()
	for name, told := range map[string][]int{"never told": {0, 0}, "told at first": {200, 0}, "told at last": {0, 200}} {
		var frames frames
		synctest.Test(t, func(t *testing.T) {
			size := told[0]
			l := NewLive(NewOutput(&frames), Options{}, func() (int, int) { return size, size })
			l.Event(RunStarted{Name: "n", Jobs: 30})
			for i := range 9 {
				l.Event(began(i))
				l.Line(i, []byte(strings.Repeat("x", 300)))
			}
			l.draw()
			size = told[1]
			l.draw()
			l.finish()
		})
		drawn := 0
		for i, frame := range frames {
			up := 0
			_, _ = fmt.Sscanf(frame, "\x1b[?2026h\x1b[%dA", &up) // The first frame goes nowhere.
			if up != drawn {
				t.Errorf("%s: frame %d goes up %d rows, over %d that were drawn", name, i, up, drawn)
			}
			drawn = strings.Count(frame, "\x1b[K\n")
		}
		if len(frames) != 3 || drawn != 0 {
			t.Errorf("%s: %d frames, the last draws %d rows", name, len(frames), drawn)
		}
	}
}

func TestNarrowedTerminalCountsTheRowsThatLinesNowTake(t *testing.T) {
	t.Parallel()
	l := &Live{drawn: []string{"", "x", strings.Repeat("x", 79), strings.Repeat("x", 80), strings.Repeat("x", 81), strings.Repeat("漢", 20)}}
	for cols, want := range map[int]int{80: 7, 79: 8, 40: 1 + 1 + 2 + 2 + 3 + 1, 39: 1 + 1 + 3 + 3 + 3 + 2, 200: 6} {
		if got := l.rowsDrawn(cols); got != want {
			t.Errorf("%d columns: %d rows, want %d", cols, got, want)
		}
	}
}

func TestEventsAfterTheEndAreWrittenAtOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLive(NewOutput(&out), Options{}, func() (int, int) { return 80, 24 })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	l.Run(ctx)
	l.Event(Notice{Text: "late"})
	if !strings.HasSuffix(out.String(), "note   late\n") {
		t.Errorf("written: %q", &out)
	}
}

func TestLineOfAJobThatDoesNotRunIsNoMatter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewLive(NewOutput(&out), Options{}, func() (int, int) { return 80, 24 })
	l.Line(7, []byte("x"))
	l.Line(-1, nil)
}

func TestProgressBarShowsWhatFollowsItsLastReturn(t *testing.T) {
	t.Parallel()
	l := NewLive(NewOutput(&bytes.Buffer{}), Options{}, func() (int, int) { return 80, 24 })
	l.Event(RunStarted{Jobs: 1})
	l.Event(JobStarted{Job: Job{Name: "a"}, Start: time.Now()})
	for _, end := range []string{"", "\r", "\r\r"} {
		// Far longer than what is kept of a line.
		l.Line(0, []byte(strings.Repeat("downloading  1%\r", 200)+"downloading 99%"+end))
		if got := strings.Join(l.panel(80, 24), "\n"); !strings.Contains(got, " downloading 99%") {
			t.Errorf("with %q behind it: %q", end, got)
		}
	}
}

func TestTimeLeftGoesByWorkAndByPath(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f := &Forecast{
		Estimates: []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second},
		Paths:     []time.Duration{30 * time.Second, 20 * time.Second, 30 * time.Second}, Slots: 2,
	}
	tally := newTally()
	check := func(what string, want time.Duration) {
		t.Helper()
		if got, ok := f.left(tally, now); !ok || got != want {
			t.Errorf("%s: %v, %v; want %v", what, got, ok, want)
		}
	}
	if _, ok := f.left(tally, now); ok {
		t.Error("a guess before the run")
	}
	tally.take(RunStarted{Jobs: 3}, now)
	check("at the start", 30*time.Second)
	tally.take(JobStarted{Job: Job{Index: 2}, Start: now.Add(-25 * time.Second)}, now)
	tally.take(JobReused{Job{Index: 0}}, now)
	check("the path of what waits", 20*time.Second)
	tally.take(ended(1, job.Succeeded), now)
	check("the rest of what runs", 5*time.Second)
	now = now.Add(time.Hour)
	check("longer than ever", 0)
	f.Slots = 1
	f.Estimates[1], f.Paths[1] = 0, 0
	var none *Forecast
	if _, ok := none.left(tally, now); ok {
		t.Error("a guess from nothing")
	}
}

func TestTimeLeftCountsDownAndIsGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := NewLive(NewOutput(&frames{}), Options{}, func() (int, int) { return 80, 24 })
	l.now = func() time.Time { return now }
	l.plain.t.take(RunStarted{Jobs: 1, Forecast: &Forecast{
		Estimates: []time.Duration{10 * time.Second}, Paths: []time.Duration{10 * time.Second}, Slots: 1,
	}}, now)
	l.plain.t.take(JobStarted{Start: now}, now)
	check := func(want string) {
		t.Helper()
		if got := l.bar(80); !strings.HasSuffix(got, want) {
			t.Errorf("the bar says %q, want %q at its end", got, want)
		}
	}
	check("about 10s left")
	now = now.Add(leftPeriod - 100*time.Millisecond) // not yet worked out anew
	check("about 9s left")
	l.plain.t.take(ended(0, job.Succeeded), now)
	check("1 of 1  0.9s")
}

func TestSecondsAreToTheMillisecond(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		2595 * time.Millisecond: "2.595", 2_594_999_999: "2.595", 0: "0", 2 * time.Second: "2", time.Hour + time.Millisecond: "3600.001",
	} {
		if got, err := Seconds(d).MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%v is %s, %v; want %s", d, got, err, want)
		}
	}
}

// failing fails from the n-th write on.
type failing struct{ left, calls int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	f.calls++
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestOutputTellsOfTheFirstErrorAndDropsTheRest(t *testing.T) {
	t.Parallel()
	w := &failing{left: 1}
	out := NewOutput(w)
	d := NewPlain(out, Options{})
	d.Event(Notice{Text: "1"})
	select {
	case <-out.Failed():
		t.Fatal("failed too early")
	default:
	}
	d.Event(Notice{Text: "2"})
	<-out.Failed()
	d.Event(Notice{Text: "3"})
	if !errors.Is(out.Err(), errFull) || w.calls != 2 {
		t.Errorf("error %v after %d writes, want %v after 2", out.Err(), w.calls, errFull)
	}
}

func TestWaitForAFurtherAttemptIsShown(t *testing.T) {
	t.Parallel()
	var until time.Time
	all := drawn(t, 100, 12, func(l *Live) {
		until = time.Now().Add(time.Minute)
		l.Event(RunStarted{Name: "n", Jobs: 40})
		for i := range 30 {
			l.Event(began(i))
		}
		for i := range 20 {
			e := JobRetried{Job: began(i).Job, Attempt: 1, Outcome: "failed", Message: "exit code 7", Wait: Seconds(time.Minute), Until: &until}
			l.Event(e)
		}
		settle()
		l.Event(began(0))
		l.Event(ended(1, job.Cancelled))
		settle()
	})
	text := strings.Join(all, "\n")
	want := "waits until " + until.Local().Format("15:04:05 MST") + " (attempt 2 after exit code 7)"
	if n := strings.Count(text, want); n < 3 {
		t.Errorf("%d lines with %q in:\n%s", n, want, text)
	}
	for _, want := range []string{"20 waiting to be tried again", "18 waiting to be tried again", "the next in 1m00s, at " + until.Local().Format("15:04:05 MST")} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
