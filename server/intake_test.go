package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/api"
)

// manyLines are the lines of a submission of n jobs, of several portions if n is some thousands.
func manyLines(n int) []string {
	lines := make([]string, 0, n+1)
	lines = append(lines, `{"name":"b","group":"g"}`)
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"name":"job %d","args":{"n":%d,"text":"%s"}}`, i, i, strings.Repeat("x", i%200)))
	}
	return lines
}

// What a submission of lines says does not depend on how it comes, nor on how many portions it has.
func TestLinesAreReadInPortions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 7000} {
		lines := manyLines(n)
		if n > 1 {
			lines[2] = `{"name":"long","args":"` + strings.Repeat("y", 3*portionSize) + `"}`
		}
		var want api.Submission
		document := strings.NewReader(strings.TrimSuffix(lines[0], "}") + `,"jobs":[` + strings.Join(lines[1:], ",") + "]}")
		if err := readDocument(document, &want); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			want.Jobs = nil
		}
		for what, text := range map[string]string{
			"lines": strings.Join(lines, "\n") + "\n", "no newline at the end": strings.Join(lines, "\n"), "CRLF": strings.Join(lines, "\r\n") + "\r\n",
			"empty lines": "\n \n" + strings.Join(lines, "\n\n  ") + "\n\n", "several in a line": strings.Join(lines, " "),
		} {
			for how, from := range map[string]io.Reader{
				"at once": strings.NewReader(text), "half by half": iotest.HalfReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
			} {
				var got api.Submission
				if err := readLines(from, &got); err != nil {
					t.Errorf("%d, %s, %s: %v", n, what, how, err)
				} else if !reflect.DeepEqual(want, got) { // cmp takes minutes for thousands
					t.Errorf("%d, %s, %s: %d jobs differ from what a document of them says", n, what, how, len(got.Jobs))
				}
			}
		}
	}
}

// What is wrong is told with the first job that is, and with its place in the body, in whichever portion it is.
func TestWrongLinesAreTold(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 7000} {
		for _, at := range []int{0, 1, n / 2, n - 1} {
			for _, c := range []struct{ line, at, want string }{
				{"null", "body.jobs[#]", "want an object, got null"},
				{`{"name":1}`, "body.jobs[#].name", "want a string, got number"},
				{`{"name":"x","not_before":"yesterday"}`, "body.jobs[#]", `want a time in RFC 3339, as 2006-01-02T15:04:05Z, got "yesterday"`},
				{`{"nmae":"x"}`, "body.jobs[#]", `has an unknown field, "nmae"`},
				{`{"name":"x"`, "body.jobs[#]", "goes on in the next line, want one line"},
				{"{\"name\":\n\"x\"}", "body.jobs[#]", "goes on in the next line, want one line"},
				{`{"name":!}`, "body.jobs[#]", "is no JSON: invalid character '!' looking for beginning of value at byte "},
				{`]`, "body.jobs[#]", "is no JSON: invalid character ']' looking for beginning of value at byte "},
			} {
				lines := manyLines(n)
				lines[1+at] = c.line
				if at+1 < n {
					lines[n] = "null" // A later one does not matter.
				} else if strings.HasSuffix(c.line, `"x"`) {
					c.want = "ends in the middle" // There is no next line.
				}
				text := strings.Join(lines, "\n")
				var p *api.Problem
				if err := readLines(strings.NewReader(text), &api.Submission{}); !errors.As(err, &p) || len(p.Errors) != 1 {
					t.Errorf("%s at %d of %d: %v", c.line, at, n, err)
					continue
				}
				message, place, offset := p.Errors[0].Message, p.Errors[0].Location, 0
				if before, after, ok := strings.Cut(message, " at byte "); ok {
					message = before + " at byte "
					offset, _ = strconv.Atoi(after)
				}
				if message != c.want || place != strings.Replace(c.at, "#", strconv.Itoa(at), 1) {
					t.Errorf("%s at %d of %d: %s: %s, want %s", c.line, at, n, place, message, c.want)
				}
				if bad := strings.IndexAny(text, "!]"); offset > 0 && offset-1 != bad {
					t.Errorf("%s at %d of %d: it is at byte %d, told %d", c.line, at, n, bad, offset)
				}
			}
		}
	}
	for text, want := range map[string]string{
		"": "body: is empty", "\n\n": "body: is empty", "{": "body: ends in the middle", "{\"name\":\"b\"\n}\n": "body: goes on in the next line, want one line",
		"[]": "body: want an object, got array", "{\"nmae\":\"b\"}\n{\"name\":\"j\"}\n": `body: has an unknown field, "nmae"`,
	} {
		var p *api.Problem
		if err := readLines(strings.NewReader(text), &api.Submission{}); !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Location+": "+p.Errors[0].Message != want {
			t.Errorf("%q is told %v, want %s", text, err, want)
		}
	}
}

// A mistake in a document is told with the byte at which it is.
func TestWrongDocumentsAreTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, at string }{
		{`{"name":"b","jobs":[{"name":"a"}, {"name":!}]}`, "body.jobs[1]"},
		{`{"name":"b","jobs":[{"name":"a"}  !{"name":"b"}]}`, "body.jobs[1]"},
		{`{"name":"b","jobs":[{"name":"a"} }`, "body.jobs"},
		{`{"name":"b" , "labels" : {"a":!}}`, "body.labels"},
		{`{"name":"b" ! "jobs":[]}`, "body"},
		{`{!}`, "body"},
		{`  !`, "body"},
	} {
		at := strings.IndexByte(c.text, '!')
		if at < 0 {
			at = strings.LastIndexByte(c.text, '}')
		}
		var p *api.Problem
		err := readDocument(strings.NewReader(c.text), &api.Submission{})
		if !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Location != c.at || !strings.HasSuffix(p.Errors[0].Message, fmt.Sprintf(" at byte %d", at+1)) {
			t.Errorf("%s is told %v (at %q), want byte %d at %s", c.text, err, p.Errors, at+1, c.at)
		}
	}
}

// A body that breaks off is told as what broke it off, unless something is wrong before.
func TestLinesBreakOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("the line is cut")
	text := strings.Join(manyLines(7000), "\n") + "\n"
	ends := bytes.LastIndexByte([]byte(text[:len(text)/2]), '\n') + 1
	for what, cut := range map[string]int{"before anything": 0, "in the build": 5, "after the build": 25, "at the end of a line": ends, "in a line": ends + 7, "in the last line": len(text) - 3} {
		err := readLines(io.MultiReader(strings.NewReader(text[:cut]), iotest.ErrReader(broken)), &api.Submission{})
		var p *api.Problem
		if !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Message != broken.Error() {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := readLines(io.MultiReader(strings.NewReader("{\"name\":\"b\"}\nnull\n{\"name\":"), iotest.ErrReader(broken)), &api.Submission{})
	if err == nil || !strings.Contains(err.Error(), "got null") {
		t.Errorf("something is wrong before: %v", err)
	}
}

// Whatever comes is read, or refused with a place.
func TestLinesOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{
			"{", "}", "[", "]", ",", ":", "\"name\"", "\"args\"", "null", "1", "true", "\n", " ", "\r", "x", "{}", "{\"name\":\"b\"}\n", "{\"name\":\"j\"}\n", "\"",
		})).Draw(t, "parts")
		text := strings.Join(parts, "")
		for _, read := range []func(io.Reader, *api.Submission) error{readLines, readDocument} {
			err := read(strings.NewReader(text), &api.Submission{})
			var p *api.Problem
			if err != nil && (!errors.As(err, &p) || len(p.Errors) != 1 || !strings.HasPrefix(p.Errors[0].Location, "body")) {
				t.Fatalf("%q: %v", text, err)
			}
		}
	})
}

// A body is text, or is refused, however it is cut; what it says stays as it is.
func TestBodyIsText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "€", "𝄞", "\ufffd", "\x80", "\xc3", "\xe2\x82", "\xf0\x9d\x84", "\xff", "\xed\xa0\x80"})).Draw(t, "parts")
		size := rapid.IntRange(1, 9).Draw(t, "size")
		text := strings.Join(parts, "")
		var got []byte
		from, piece := &textBody{ReadCloser: io.NopCloser(strings.NewReader(text))}, make([]byte, size)
		var err error
		for n := 0; err == nil; got = append(got, piece[:n]...) {
			n, err = from.Read(piece)
		}
		if valid := utf8.ValidString(text); valid != errors.Is(err, io.EOF) || valid && string(got) != text {
			t.Fatalf("%q in pieces of %d: %q, %v", text, size, got, err)
		}
	})
}
