package progress

import (
	"slices"
	"strconv"
	"strings"
)

// Tone is what a text on a terminal is coloured for.
type Tone uint8

// Neutral text has no colour; the others say how good or weighty it is.
const (
	Neutral Tone = iota
	Good
	Bad
	Warn
	Dim
	Bold
)

// As colours a text, which is clean, in a tone.
func (s Style) As(t Tone, text string) string {
	switch t {
	case Good:
		return s.good(text)
	case Bad:
		return s.bad(text)
	case Warn:
		return s.warn(text)
	case Dim:
		return s.dim(text)
	case Bold:
		return s.bold(text)
	case Neutral:
	}
	return text
}

// Visible gives text with its control characters, and those that reorder or hide text, as escapes: what two names differ in is seen,
// and a terminal obeys neither.
func Visible(text string) string {
	if plain(text) {
		return text
	}
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(text, "\ufffd") {
		if strconv.IsPrint(c) {
			b.WriteRune(c)
			continue
		}
		quoted := strconv.QuoteRune(c)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Column is one of a Table.
type Column struct {
	Title string
	// Keep says what goes first where there is no room: the column that has the least of it. The most weighty one stays.
	Keep int
	// Least is to how many columns its text may be cut; 0: it is not cut.
	Least int
	// Right has numbers end below one another.
	Right bool
}

// Cell is one of a Table. Its text need not be clean.
type Cell struct {
	Text string
	// Short stands for Text where there is no room for that; "": nothing shorter does.
	Short string
	Tone  Tone
}

// Table shows a list to a person. The zero value of Style and Width: no colours, and as wide as it comes.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	Style   Style
	// Width is how many columns there are; 0: as many as it takes.
	Width int
}

// gap stands between two columns.
const gap = "  "

// String gives the lines of the table, each with its newline; a column that is empty in each row is left out. A table that is too
// wide is told more briefly, then cut, then loses columns.
func (t *Table) String() string {
	shown := t.fit()
	if len(shown) == 0 {
		return ""
	}
	var b strings.Builder
	line := func(cell func(c *fitted) (string, Tone)) {
		for i := range shown {
			c := &shown[i]
			text, tone := cell(c)
			text = cut(text, c.width)
			blanks := strings.Repeat(" ", max(0, c.width-columns(text)))
			if i > 0 {
				b.WriteString(gap)
			}
			switch {
			case t.Columns[c.at].Right:
				b.WriteString(blanks + t.Style.As(tone, text))
			case i == len(shown)-1:
				b.WriteString(t.Style.As(tone, text))
			default:
				b.WriteString(t.Style.As(tone, text) + blanks)
			}
		}
		b.WriteByte('\n')
	}
	line(func(c *fitted) (string, Tone) { return t.Columns[c.at].Title, Dim })
	for _, row := range t.Rows {
		line(func(c *fitted) (string, Tone) { return c.text(&row[c.at]), row[c.at].Tone })
	}
	return trimmed(b.String())
}

// trimmed takes away blanks that end a line: the last cell may be empty.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// fitted is a column as it is shown.
type fitted struct {
	at          int
	short       bool
	full, brief int // columns that its texts take
	width       int
}

func (c *fitted) text(cell *Cell) string {
	if c.short && cell.Short != "" {
		return Visible(cell.Short)
	}
	return Visible(cell.Text)
}

// fit chooses the columns that are shown, and their widths.
func (t *Table) fit() []fitted {
	var all []fitted
	for i := range t.Columns {
		c := fitted{at: i, width: columns(t.Columns[i].Title)}
		used := len(t.Rows) == 0
		c.full, c.brief = c.width, c.width
		for _, row := range t.Rows {
			used = used || row[i].Text != ""
			c.full = max(c.full, columns(Visible(row[i].Text)))
			c.short = true
			c.brief = max(c.brief, columns(c.text(&row[i])))
			c.short = false
		}
		if c.width = c.full; used {
			all = append(all, c)
		}
	}
	if t.Width <= 0 {
		return all
	}
	// The least weighty first.
	order := func(a, b fitted) int { return t.Columns[a.at].Keep - t.Columns[b.at].Keep }
	byWeight := slices.SortedStableFunc(slices.Values(all), order)
	for _, w := range byWeight {
		if over(all, t.Width) <= 0 {
			return all
		}
		for i := range all {
			if all[i].at == w.at {
				all[i].short, all[i].width = true, all[i].brief
			}
		}
	}
	for {
		if t.squeeze(all) || len(all) <= 1 {
			return all
		}
		drop := byWeight[0].at
		byWeight = byWeight[1:]
		all = slices.DeleteFunc(all, func(c fitted) bool { return c.at == drop })
	}
}

// over is by how many columns a table is too wide.
func over(all []fitted, width int) int {
	sum := -width
	for i := range all {
		sum += all[i].width
	}
	return sum + len(gap)*(len(all)-1)
}

// squeeze cuts columns that may be cut, the widest first, until the table fits. It reports whether it does; if not, none is cut but the last one.
func (t *Table) squeeze(all []fitted) bool {
	before := slices.Clone(all)
	for over(all, t.Width) > 0 {
		widest := -1
		for i := range all {
			least := t.Columns[all[i].at].Least
			if least > 0 && all[i].width > least && (widest < 0 || all[i].width > all[widest].width) {
				widest = i
			}
		}
		if widest < 0 {
			if len(all) > 1 {
				copy(all, before)
			}
			return false
		}
		all[widest].width--
	}
	return true
}
