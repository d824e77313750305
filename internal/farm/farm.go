package farm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
)

// Farm shows what there is on a server.
type Farm struct {
	*api.Client
	Out io.Writer
	// JSON has it print objects, one a line, with the names of the API.
	JSON bool
	// Style and Width are those of the terminal; Width 0: as wide as it comes.
	Style progress.Style
	Width int
	// Now tells the time, to which ages are relative.
	Now func() time.Time
}

// encode prints objects, one a line.
func encode[T any](out io.Writer, items ...T) error {
	w := bufio.NewWriter(out)
	e := json.NewEncoder(w)
	for i := range items {
		if err := e.Encode(items[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}

// table prints rows, or says that there are none.
func (f *Farm) table(none string, columns []progress.Column, rows [][]progress.Cell) error {
	if len(rows) == 0 {
		return f.line(none)
	}
	t := progress.Table{Columns: columns, Rows: rows, Style: f.Style, Width: f.Width}
	_, err := io.WriteString(f.Out, t.String())
	return err
}

// line prints a line of our own words, in which names are quoted or clean.
func (f *Farm) line(text string) error {
	_, err := fmt.Fprintln(f.Out, text)
	return err
}

// field is a line of what is told of one thing.
type field struct {
	name, text string
	tone       progress.Tone
}

// fields prints those that have a text, one below the other. Lines of a text stand below one another.
func (f *Farm) fields(list ...field) error {
	width := 0
	for _, x := range list {
		if x.text != "" {
			width = max(width, len(x.name))
		}
	}
	var b strings.Builder
	for _, x := range list {
		if x.text == "" {
			continue
		}
		fmt.Fprintf(&b, "%s%s  ", f.Style.As(progress.Dim, x.name), strings.Repeat(" ", width-len(x.name)))
		first := true
		for line := range strings.SplitSeq(strings.TrimRight(x.text, "\n"), "\n") {
			for _, part := range filled(progress.Visible(line), f.Width-width-2) {
				if !first {
					b.WriteString(strings.Repeat(" ", width+2))
				}
				b.WriteString(f.Style.As(x.tone, part) + "\n")
				first = false
			}
		}
	}
	_, err := io.WriteString(f.Out, b.String())
	return err
}

// leastFilled is how wide lines are at least, however narrow the terminal.
const leastFilled = 30

// filled cuts a line at blanks into lines of a width; below leastFilled: it stays as it is.
func filled(line string, width int) []string {
	var lines []string
	for width >= leastFilled && utf8.RuneCountInString(line) > width {
		at := strings.LastIndexByte(line[:len(string([]rune(line)[:width+1]))], ' ')
		if at <= 0 {
			break
		}
		lines = append(lines, line[:at])
		line = line[at+1:]
	}
	return append(lines, line)
}

// stamp is how people are shown a moment: by their own clock, and which that is.
func stamp(t time.Time) string { return t.Local().Format(time.DateTime + " MST") }

// when shows a moment with its age.
func (f *Farm) when(t *api.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return stamp(*t) + " (" + f.age(*t) + ")"
}

// age says how long ago something was, or in how long it will be.
func (f *Farm) age(t time.Time) string {
	d := f.Now().Sub(t)
	switch {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + coarse(-d)
	}
	return coarse(d) + " ago"
}

// coarse writes a long time by its largest unit.
func coarse(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// moment is the cell of a time.
func (f *Farm) moment(t *api.Time) progress.Cell {
	if t == nil || t.IsZero() {
		return progress.Cell{}
	}
	return progress.Cell{Text: f.when(t), Short: f.age(*t)}
}

// took says how long something ran, or has run so far; "": it never did.
func (f *Farm) took(from, to *api.Time) string {
	switch {
	case from == nil || from.IsZero():
		return ""
	case to == nil:
		return progress.Span(f.Now().Sub(*from).Truncate(time.Second))
	}
	return progress.Span(to.Sub(*from))
}

// place is the cell of where something is, or of how it ended.
func place(state, outcome string) progress.Cell {
	if outcome != "" {
		return progress.Cell{Text: outcome, Tone: toneOf(outcome)}
	}
	return progress.Cell{Text: state, Tone: toneOf(state)}
}

func toneOf(word string) progress.Tone {
	switch word {
	case "succeeded":
		return progress.Good
	case "failed", "timed-out", "aborted", "unsupported":
		return progress.Bad
	case "dependency-failed", "cancelled":
		return progress.Warn
	case "running":
		return progress.Bold
	case "blocked", "ready", "waiting":
		return progress.Dim
	}
	return progress.Neutral
}
