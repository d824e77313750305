package progress

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean makes text of a job harmless for a terminal: escape sequences are dropped, of what a carriage return
// would overwrite only the last remains, tabs become blanks, and what else controls a terminal or is no
// UTF-8 becomes a replacement character.
func Clean(text string) string {
	text = strings.TrimRight(text, "\r")
	if i := strings.LastIndexByte(text, '\r'); i >= 0 {
		text = text[i+1:]
	}
	if plain(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == 0x1b:
			i += escape(text[i:])
			continue
		case r == '\t':
			b.WriteString("    ")
		case r == utf8.RuneError && size == 1, !printable(r):
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// printable refuses control characters, and the format characters that reorder or hide text.
func printable(r rune) bool {
	return r == ' ' || unicode.IsPrint(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r)
}

// escape gives the length of the escape sequence at the start of s (ECMA-48): CSI up to its final byte, a string
// (OSC, DCS, APC, PM, SOS) up to its end, anything else with its intermediate bytes.
func escape(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	i := 2
	switch s[1] {
	case '[':
		for i < len(s) && s[i] >= 0x20 && s[i] <= 0x3f {
			i++
		}
	case ']', 'P', '_', '^', 'X':
		for i < len(s) && s[i] != 0x07 && s[i] != 0x1b {
			i++
		}
		if i+1 < len(s) && s[i] == 0x1b && s[i+1] == '\\' {
			i++
		}
	default:
		i = 1
		for i < len(s) && s[i] >= 0x20 && s[i] <= 0x2f {
			i++
		}
	}
	if i < len(s) && s[i] != 0x1b && s[i] < utf8.RuneSelf {
		i++ // the final byte
	}
	return i
}

// width is at least how many columns a rune takes. It errs on the wide side, which only cuts a line earlier.
func width(r rune) int {
	switch {
	case unicode.Is(unicode.Mn, r), unicode.Is(unicode.Me, r):
		return 0
	case r < 0x1100 || r >= 0x2010 && r < 0x2300 || r >= 0x2500 && r < 0x25fd:
		return 1
	}
	return 2
}

// cut shortens clean text to so many columns.
func cut(s string, columns int) string {
	used := 0
	for i, r := range s {
		w := width(r)
		if used+w > columns {
			for used >= columns && i > 0 {
				last, size := utf8.DecodeLastRuneInString(s[:i])
				used, i = used-width(last), i-size
			}
			if columns <= 0 {
				return ""
			}
			return s[:i] + "…"
		}
		used += w
	}
	return s
}

// columns is how many columns clean text takes, at most.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += width(r)
	}
	return n
}

// pad fills with blanks up to so many columns.
func pad(s string, to int) string { return s + strings.Repeat(" ", max(0, to-columns(s))) }

// Span writes a duration as people say it: 35ms, 1.3s, 42s, 3m07s, 2h05m.
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Count writes a number with its noun: 1 job, 3 jobs.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// For people, the words for a job that was cancelled: before it began, and before a further attempt.
const (
	NotStarted    = "not started"
	NotTriedAgain = "not tried again"
)

// PauseAfterInterrupts says why a job waits that was handed back again and again as soon as it had started.
const PauseAfterInterrupts = "a pause after attempts that were interrupted as soon as they had begun"

// missing is how an attempt says that there is no such program, with the folders in which it looked.
var missing = regexp.MustCompile(`^(program ".*" is not in PATH) \(.*\)$`)

// Brief is a message without what its log and JSON tell as well: the folders of a PATH would fill the screen.
func Brief(message string) string { return missing.ReplaceAllString(message, "$1") }

// Style colours text, or not.
type Style struct{ Colour bool }

func (s Style) paint(code, text string) string {
	if !s.Colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s Style) good(t string) string { return s.paint("32", t) }
func (s Style) bad(t string) string  { return s.paint("1;31", t) }
func (s Style) warn(t string) string { return s.paint("33", t) }
func (s Style) dim(t string) string  { return s.paint("2", t) }
func (s Style) bold(t string) string { return s.paint("1", t) }
