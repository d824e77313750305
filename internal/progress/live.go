package progress

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
)

// Live shows a run on a terminal: lines that stay, as Plain has them, and below them a panel that is drawn anew ten
// times a second with what runs now and how far the run is.
//
// Rules of the screen: a frame is one write, so that nothing flickers; no line of the panel is wider than the
// terminal, as the way back up counts rows, and none wraps as it is drawn, if the terminal has just become narrower; the cursor is never hidden, and rests below the panel, so that a
// program killed at any moment leaves a usable terminal. Nothing is written while a lock is held, since a
// terminal may be stopped (Ctrl-S).
type Live struct {
	out  *Output
	size func() (columns, rows int)
	now  func() time.Time

	mu    sync.Mutex
	plain *Plain
	fresh []byte // lines that stay and are not written yet
	over  bool   // Run has returned: lines are written at once

	// The rest belongs to Run's goroutine.
	cols   int           // of the terminal, and
	rows   int           // when it last told
	drawn  []string      // the lines of the panel that is on the screen
	left   time.Duration // at leftAt; below 0: unknown
	leftAt time.Time
}

const (
	framePeriod = 100 * time.Millisecond
	// leftPeriod is how often the time left is worked out: it looks at every job.
	leftPeriod = time.Second
)

// NewLive gives a live display. size tells the terminal's size, as it is now; 0 stands for unknown.
func NewLive(out *Output, o Options, size func() (columns, rows int)) *Live {
	p := NewPlain(out, o)
	p.brief = true
	return &Live{out: out, plain: p, size: size, now: time.Now, cols: 80, rows: 24}
}

// Event implements Display.
func (l *Live) Event(e Event) {
	l.mu.Lock()
	l.plain.t.take(e, l.now())
	l.fresh = append(l.fresh, l.plain.describe(e)...)
	var late []byte
	if l.over {
		late, l.fresh = l.fresh, nil
	}
	l.mu.Unlock()
	if len(late) > 0 {
		_, _ = l.out.Write(late) // Output keeps the error.
	}
}

// Line implements Display.
func (l *Live) Line(index int, text []byte) {
	const enough = 512
	// What a carriage return would overwrite is left out before the cut: a progress bar is one long line.
	text = bytes.TrimRight(text, "\r")
	text = text[bytes.LastIndexByte(text, '\r')+1:]
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.plain.t.running[index]; a != nil {
		a.last = string(text[:min(len(text), enough)])
	}
}

// Run implements Display.
func (l *Live) Run(ctx context.Context) {
	tick := time.NewTicker(framePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.finish()
			return
		case <-tick.C:
			l.draw()
		}
	}
}

// measure learns the terminal's size. One that does not tell it is as it was: the way back up is counted in its rows, and must
// never lead above what was drawn.
func (l *Live) measure() {
	cols, rows := l.size()
	if cols > 0 {
		l.cols = cols
	}
	if rows > 0 {
		l.rows = rows
	}
}

// draw writes one frame.
func (l *Live) draw() {
	l.measure()
	l.mu.Lock()
	fresh := l.fresh
	l.fresh = nil
	panel := l.panel(l.cols, l.rows)
	l.mu.Unlock()
	if len(fresh) == 0 && len(panel) == 0 && len(l.drawn) == 0 {
		return
	}
	_, _ = l.out.Write(l.frame(fresh, panel)) // Output keeps the error.
}

// finish takes the panel off the screen, and has what comes written at once.
func (l *Live) finish() {
	l.measure()
	l.mu.Lock()
	fresh := l.fresh
	l.fresh, l.over = nil, true
	l.mu.Unlock()
	if len(fresh) > 0 || len(l.drawn) > 0 {
		_, _ = l.out.Write(l.frame(fresh, nil)) // Output keeps the error.
	}
}

// frame gives the bytes that replace the panel on the screen: fresh lines, which stay, then the new panel.
func (l *Live) frame(fresh []byte, panel []string) []byte {
	var b bytes.Buffer
	b.WriteString("\x1b[?2026h") // Terminals that know it show the frame in one go.
	if up := l.rowsDrawn(l.cols); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	if len(fresh) > 0 {
		b.WriteString("\x1b[J")
		b.Write(fresh)
	}
	l.drawn = l.drawn[:0]
	if len(panel) > 0 {
		b.WriteString("\x1b[?7l")
	}
	for _, line := range panel {
		b.WriteString(line)
		b.WriteString("\x1b[K\n")
		l.drawn = append(l.drawn, stripped(line))
	}
	if len(panel) > 0 {
		b.WriteString("\x1b[?7h")
	}
	b.WriteString("\x1b[J\x1b[?2026l")
	return b.Bytes()
}

// rowsDrawn is how many rows the panel takes: more than it has lines if the terminal became narrower since, for then it wraps
// them. If it did so just before the last frame came, that frame went up too few rows, and left as many above as its own lines,
// which did not wrap, take less: the count is the same.
func (l *Live) rowsDrawn(cols int) int {
	rows := 0
	for _, line := range l.drawn {
		rows += rowsOf(line, cols)
	}
	return rows
}

// rowsOf is how many rows of so many columns a line takes: a wide letter that does not fit at the end of a row goes to the next.
func rowsOf(line string, cols int) int {
	rows, used := 1, 0
	for _, r := range line {
		w := width(r)
		if used+w > cols && used > 0 {
			rows, used = rows+1, 0
		}
		used += w
	}
	return rows
}

// stripped drops the colours that this package itself put in.
func stripped(line string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(line, 0x1b)
		if i < 0 {
			b.WriteString(line)
			return b.String()
		}
		b.WriteString(line[:i])
		line = line[i+escape(line[i:]):]
	}
}

// panel gives the lines below those that stay. It needs mu.
func (l *Live) panel(cols, rows int) []string {
	t := l.plain.t
	if t.run.Jobs == 0 || t.end != nil {
		return nil
	}
	running := make([]*attempt, 0, len(t.running))
	for _, a := range t.running {
		running = append(running, a)
	}
	// The oldest first, then by place: map order must not make lines jump.
	slices.SortFunc(running, func(a, b *attempt) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return a.Index - b.Index
	})
	waiting := slices.SortedFunc(maps.Values(t.waiting), func(a, b JobWaiting) int {
		if c := a.Until.Compare(b.Until); c != 0 {
			return c
		}
		return a.Index - b.Index
	})
	// What runs goes first; what waits takes the rows that are left, a few in any case.
	const few = 3
	room := max(1, rows-4)
	waiting = waiting[:min(len(waiting), max(min(few, room-1), room-len(running)), room)]
	room = max(1, room-len(waiting))
	more := 0
	if len(running) > room {
		more = len(running) - room + 1
		running = running[:room-1]
	}
	name := 12
	for _, a := range running {
		name = max(name, columns(Clean(a.Name)))
	}
	name = min(name, max(12, cols/3))
	var lines []string
	for _, a := range running {
		lines = append(lines, l.line(a, name, cols))
	}
	if more > 0 {
		lines = append(lines, cut(fmt.Sprintf("  and %d more run", more), cols-1))
	}
	for i := range waiting {
		lines = append(lines, cut("  "+pad(cut(Clean(waiting[i].Name), name-1), name)+" "+Clean(waiting[i].Text()), cols-2))
	}
	return append(lines, l.bar(cols))
}

// line shows an attempt that runs: its job, the time, and the last line of output.
func (l *Live) line(a *attempt, name, cols int) string {
	s := l.plain.o.Style
	head := "  " + pad(cut(Clean(a.Name), name-1), name)
	clock := pad(clock(l.now().Sub(a.Start)), 6)
	if room := cols - 1; columns(head+" "+clock) > room {
		return cut(head+" "+clock, room-1)
	}
	last := cut(Clean(a.last), max(0, cols-2-columns(head+" "+clock+" ")))
	return s.bold(head) + " " + s.warn(clock) + " " + s.dim(last)
}

// clock is Span for a time that is seen to pass.
func clock(d time.Duration) string {
	if d > 0 && d < time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return Span(d)
}

// bar shows how far the run is.
func (l *Live) bar(cols int) string {
	t, s := l.plain.t, l.plain.o.Style
	const width = 20
	full := t.ended * width / t.run.Jobs
	text := fmt.Sprintf("%d of %d", t.ended, t.run.Jobs)
	if n := len(t.running); n > 0 {
		text += fmt.Sprintf(", %d running", n)
	}
	if n := len(t.waiting); n > 0 {
		text += fmt.Sprintf(", %d waiting to be tried again", n)
	}
	if n := t.failed.owns; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	if n := t.failed.followings; n > 0 {
		text += fmt.Sprintf(", %d skipped", n)
	}
	if n := t.counts[job.Cancelled]; n > 0 {
		text += fmt.Sprintf(", %d %s", n, NotStarted)
	}
	text += "  " + clock(l.now().Sub(t.started))
	if left := l.timeLeft(); left != "" {
		text += ", " + left
	}
	if t.stop != nil {
		text += "  stopping"
	}
	bar := "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "] "
	if columns(bar+text) > cols-1 {
		return cut(text, cols-2)
	}
	paint := s.good
	if t.failed.len() > 0 {
		paint = s.bad
	}
	return paint(bar) + text
}

// timeLeft is worked out once a second, and shrinks in between.
func (l *Live) timeLeft() string {
	t, now := l.plain.t, l.now()
	if t.ended == t.run.Jobs {
		return ""
	}
	if now.Sub(l.leftAt) >= leftPeriod {
		l.leftAt, l.left = now, -1
		if left, ok := t.run.Forecast.left(t, now); ok {
			l.left = left
		}
	}
	if l.left < 0 {
		return ""
	}
	left := max(0, l.left-now.Sub(l.leftAt)).Round(time.Second)
	text := Span(left)
	if left < 10*time.Second {
		text = fmt.Sprintf("%.0fs", left.Seconds())
	}
	return "about " + text + " left"
}
