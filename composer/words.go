package composer

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/job"
)

// composer's types, channels and architectures are any strings, and are told apart to the letter. Those of the engine are words: some are not
// empty, have no blank and no control character, are UTF-8, and are not "*". So what is not is written otherwise there, as in a URL; names
// are stored: that must not change. Most are the same.

// escape writes the bytes of a string otherwise that the engine does not take, and the one that says so.
func escape(s string, odd func(r rune) bool) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == '%' || r == utf8.RuneError && n == 1 || odd(r) {
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// unescape is the inverse. What nobody here has written stays as it is.
func unescape(s string) string {
	if s == empty {
		return ""
	}
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// empty stands for the empty string where the engine takes none; no other is written so.
const empty = "%"

// word gives what the engine knows a type or an architecture by. Error: *job.InvalidError.
func word(field, s string) (string, error) {
	if s == "" {
		return empty, nil
	}
	return short(field, escape(s, func(r rune) bool { return r <= ' ' || r == 0x7f }))
}

// channelWord does so for a channel.
func channelWord(s string) (string, error) {
	if s == job.AnyChannel {
		return "%2A", nil
	}
	return short("channel", escape(s, func(r rune) bool { return r < ' ' || r == 0x7f }))
}

func short(field, s string) (string, error) {
	if len(s) > job.MaxName {
		return "", &job.InvalidError{Field: field, Want: fmt.Sprintf("takes %d bytes, want at most %d", len(s), job.MaxName)}
	}
	return s, nil
}

// types gives what the engine knows types by, each once. Error: *job.InvalidError.
func types(list []string) ([]string, error) {
	return words(list, func(s string) (string, error) { return word("type", s) })
}

// words gives a list of words in order, each once.
func words(list []string, word func(string) (string, error)) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, s := range list {
		w, err := word(s)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
