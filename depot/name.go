package depot

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headrace/headrace/job"
)

// MaxName is how many bytes a name may have.
const MaxName = 512

// ReservedSuffix ends no part of a name: it is kept for uploads under way.
const ReservedSuffix = ".headrace-part"

// CheckName reports, as a *job.InvalidError, whether an artifact may not have this name. A name is valid UTF-8 of 1 to
// MaxName bytes without control characters and backslashes: parts with slashes between, of which none is empty, ".", or
// "..", or ends in a space, a dot or ReservedSuffix. So it is relative, stays where it is put, and can be a file's name
// wherever somebody unpacks it.
func CheckName(name string) error {
	bad := func(want string, args ...any) error {
		return &job.InvalidError{Field: "name", Want: fmt.Sprintf("%.100q: ", name) + fmt.Sprintf(want, args...)}
	}
	switch {
	case name == "" || len(name) > MaxName:
		return bad("%d bytes, want 1 to %d", len(name), MaxName)
	case !utf8.ValidString(name):
		return bad("want valid UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return bad("want no control characters")
	case strings.Contains(name, `\`):
		return bad("want no backslash")
	case strings.HasPrefix(name, "/"):
		return bad("want a relative name")
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return bad("want no empty part")
		case part == "." || part == "..":
			return bad("want no part %q", part)
		case strings.HasSuffix(part, " ") || strings.HasSuffix(part, "."):
			return bad("want no part that ends in a space or a dot")
		case strings.HasSuffix(part, ReservedSuffix):
			return bad("want no part that ends in %q", ReservedSuffix)
		}
	}
	return nil
}
