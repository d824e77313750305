package progress

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/job"
)

// glass is the screen of a terminal that wraps its lines anew when it becomes narrower, as most do: enough of one for what
// frames contain.
type glass struct {
	cols     int
	rows     []glassRow
	row, col int
	wraps    bool
}

type glassRow struct {
	text []rune
	soft bool // the next row belongs to the same line
}

func newGlass(cols int) *glass { return &glass{cols: cols, rows: make([]glassRow, 1), wraps: true} }

// narrow wraps the lines anew. The cursor is at the beginning of a line whenever a frame has been written.
func (g *glass) narrow(cols int) {
	old, at := g.rows, g.row
	g.cols, g.rows = cols, nil
	for i, line := 0, []rune(nil); i < len(old); i++ {
		if i == at {
			g.row = len(g.rows)
		}
		if line = append(line, old[i].text...); old[i].soft {
			continue
		}
		for len(line) > cols {
			g.rows = append(g.rows, glassRow{line[:cols:cols], true})
			line = line[cols:]
		}
		g.rows = append(g.rows, glassRow{line, false})
		line = nil
	}
}

func (g *glass) write(text string) {
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; c {
		case '\n':
			g.row++
			g.col = 0
		case '\r':
			g.col = 0
		case 0x1b:
			n = escape(text[i:])
			g.obey(text[i+2 : i+n])
		default:
			r := []rune(text[i:])[0]
			n = len(string(r))
			g.put(r)
		}
		for len(g.rows) <= g.row {
			g.rows = append(g.rows, glassRow{})
		}
		i += n
	}
}

func (g *glass) put(r rune) {
	if g.col == g.cols && !g.wraps {
		g.col--
	}
	if g.col == g.cols {
		g.rows[g.row].soft = true
		g.row, g.col = g.row+1, 0
		if len(g.rows) <= g.row {
			g.rows = append(g.rows, glassRow{})
		}
	}
	line := &g.rows[g.row]
	for len(line.text) <= g.col {
		line.text = append(line.text, ' ')
	}
	line.text[g.col] = r
	g.col++
}

func (g *glass) obey(sequence string) {
	line := &g.rows[g.row]
	switch sequence {
	case "K":
		// In the last column, written to without wrapping, it erases what stands there.
		line.text, line.soft = line.text[:min(g.col, len(line.text))], false
	case "J":
		line.text, line.soft = line.text[:min(g.col, len(line.text))], false
		g.rows = g.rows[:g.row+1]
	case "?7l", "?7h":
		g.wraps = sequence == "?7h"
	default:
		var up int
		if n, _ := fmt.Sscanf(sequence, "%dA", &up); n == 1 {
			g.row = max(0, g.row-up)
		}
	}
}

func (g *glass) String() string {
	var b strings.Builder
	for _, r := range g.rows {
		b.WriteString(string(r.text))
		if !r.soft {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// A terminal that becomes narrower wraps what is on it at once, but who writes learns of it later: frames for the old width
// may come before it, after it, or not at all. Nothing of an old panel stays, and nothing of what is above it goes.
func TestNarrowedTerminalKeepsNothingOfOldPanels(t *testing.T) {
	t.Parallel()
	for late := range 4 { // frames for the old width that come after it
		for _, to := range []int{79, 60, 40, 23} {
			t.Run(fmt.Sprintf("%d late, to %d", late, to), func(t *testing.T) {
				t.Parallel()
				g, cols := newGlass(80), 80
				synctest.Test(t, func(t *testing.T) {
					l := NewLive(NewOutput(screenOf{g}), Options{}, func() (int, int) { return cols, 24 })
					l.Event(RunStarted{Name: "above", Jobs: 9})
					l.Event(ended(8, job.Succeeded))
					for i := range 3 {
						l.Event(began(i))
						l.Line(i, []byte(strings.Repeat("output ", 5*(i+1))))
					}
					l.draw()
					g.narrow(to)
					for range late {
						l.draw()
					}
					cols = to
					l.draw()
					l.draw()
					text := g.String()
					for _, once := range []string{"above: 9 jobs, 0 at once", "ok     job-8", "job-0", "job-1", "job-2", "1 of 9"} {
						if n := strings.Count(text, once); n != 1 {
							t.Errorf("%q is there %d times", once, n)
						}
					}
					over, stop := context.WithCancel(t.Context())
					stop()
					l.Run(over)
					if text := g.String(); strings.Contains(text, "job-1") || !strings.Contains(text, "ok     job-8") {
						t.Errorf("at the end:\n%s", text)
					}
					if t.Failed() {
						t.Logf("the screen was:\n%s", text)
					}
				})
			})
		}
	}
}

// screenOf writes to a screen.
type screenOf struct{ *glass }

func (s screenOf) Write(p []byte) (int, error) {
	s.write(string(p))
	return len(p), nil
}
