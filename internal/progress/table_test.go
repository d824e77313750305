package progress

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// people is a table as commands make them.
func people(width int, rows ...[]Cell) string {
	t := Table{
		Columns: []Column{{Title: "ID", Keep: 3}, {Title: "NAME", Keep: 4, Least: 6}, {Title: "N", Right: true}, {Title: "NOTE", Keep: 1, Least: 5}, {Title: "NEVER"}},
		Rows:    rows, Width: width,
	}
	return t.String()
}

func row(id, short, name, n, note string) []Cell {
	return []Cell{{Text: id, Short: short}, {Text: name}, {Text: n}, {Text: note}, {}}
}

func TestTableFitsItsWidth(t *testing.T) {
	t.Parallel()
	rows := [][]Cell{
		row("0123456789abcdef", "89abcdef", "first", "1", "a note that is rather long"),
		row("fedcba9876543210", "76543210", "the second one", "1000", ""),
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, `ID                NAME               N  NOTE
0123456789abcdef  first              1  a note that is rather long
fedcba9876543210  the second one  1000
`},
		{60, `ID        NAME               N  NOTE
89abcdef  first              1  a note that is rather long
76543210  the second one  1000
`},
		{36, `ID        NAME          N  NOTE
89abcdef  first         1  a note t…
76543210  the seco…  1000
`},
		{24, `ID        NAME    NOTE
89abcdef  first   a not…
76543210  the s…
`},
		{17, `ID        NAME
89abcdef  first
76543210  the se…
`},
		{3, "NAME\nfirst\nthe s…\n"}, // The last column stays, however narrow the terminal.
	} {
		got := people(c.width, rows...)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("width %d:\n%s", c.width, diff)
		}
		for line := range strings.Lines(got) {
			if n := columns(strings.TrimSuffix(line, "\n")); c.width > 6 && n > c.width {
				t.Errorf("width %d: a line takes %d: %q", c.width, n, line)
			}
		}
	}
}

func TestTableOfNothingHasItsTitlesAlone(t *testing.T) {
	t.Parallel()
	if got := people(0); got != "ID  NAME  N  NOTE  NEVER\n" {
		t.Errorf("got %q", got)
	}
}

func TestTableShowsControlCharacters(t *testing.T) {
	t.Parallel()
	got := people(0, row("1", "", "a\x1b[31m\nb\u202ec\xff\t", "", ""))
	if want := "ID  NAME\n1   a\\x1b[31m\\nb\\u202ec\ufffd\\t\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTableColoursCells(t *testing.T) {
	t.Parallel()
	x := Table{Columns: []Column{{Title: "A"}}, Rows: [][]Cell{{{Text: "x", Tone: Bad}}}, Style: Style{Colour: true}}
	if got, want := x.String(), "\x1b[2mA\x1b[0m\n\x1b[1;31mx\x1b[0m\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
