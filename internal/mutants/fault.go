package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// fault is one change to one file that a test must catch.
type fault struct {
	id, plants, file string
	tests            []string // arguments of go test
	before, after    string
	listed           string // where it is listed, as file:line
}

var (
	idPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	fieldLine = regexp.MustCompile(`^([a-z]+):\s*(.*\S)\s*$`)
)

// load reads every list in the folder. It fails on the first mistake, naming file and line.
func load(folder fs.FS) ([]fault, error) {
	names, err := fs.Glob(folder, "*.txt")
	if err != nil {
		return nil, err
	}
	var all []fault
	seen := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		listed, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		for _, f := range listed {
			if first, twice := seen[f.id]; twice {
				return nil, fmt.Errorf("%s: fault %q is listed already at %s", f.listed, f.id, first)
			}
			seen[f.id] = f.listed
		}
		all = append(all, listed...)
	}
	return all, nil
}

// parse reads one list; name is for messages.
func parse(name, text string) ([]fault, error) {
	var all []fault
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		at := fmt.Sprintf("%s:%d", name, i+1)
		m := fieldLine.FindStringSubmatch(line)
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case m != nil && m[1] == "fault":
			if !idPattern.MatchString(m[2]) {
				return nil, fmt.Errorf("%s: fault %q: want small letters and digits, joined by dashes", at, m[2])
			}
			all = append(all, fault{id: m[2], listed: at})
		case len(all) == 0:
			return nil, fmt.Errorf("%s: want a line such as fault: some-name", at)
		case m != nil:
			if err := all[len(all)-1].set(m[1], m[2]); err != nil {
				return nil, fmt.Errorf("%s: %v", at, err)
			}
		case line == "-old-":
			f := &all[len(all)-1]
			var err error
			if i, err = f.texts(lines, i); err != nil {
				return nil, fmt.Errorf("%s: fault %q: %v", at, f.id, err)
			}
		default:
			return nil, fmt.Errorf("%s: want a field such as file:, or -old-", at)
		}
	}
	for _, f := range all {
		if f.plants == "" || f.file == "" || len(f.tests) == 0 || f.before == "" {
			return nil, fmt.Errorf("%s: fault %q: want plants:, file:, tests: and the two texts", f.listed, f.id)
		}
	}
	return all, nil
}

func (f *fault) set(field, value string) error {
	switch field {
	case "plants":
		f.plants = value
	case "file":
		if !fs.ValidPath(value) || path.Clean(value) != value {
			return fmt.Errorf("file %q: want a path from the root of the module", value)
		}
		f.file = value
	case "tests":
		f.tests = strings.Fields(value)
	default:
		return fmt.Errorf("unknown field %q: want fault, plants, file or tests", field)
	}
	return nil
}

// texts reads the two texts that begin after lines[from], and returns the index of their end.
func (f *fault) texts(lines []string, from int) (end int, err error) {
	middle := slices.Index(lines[from:], "-new-") + from
	end = slices.Index(lines[from:], "-end-") + from
	if middle <= from || end <= middle || slices.Contains(lines[from+1:end], "-old-") {
		return 0, fmt.Errorf("want -old-, -new- and -end-, in this order")
	}
	f.before = strings.Join(lines[from+1:middle], "\n")
	f.after = strings.Join(lines[middle+1:end], "\n")
	if f.before == f.after {
		return 0, fmt.Errorf("both texts are the same")
	}
	return end, nil
}

// plant returns the text of the fault's file with the fault in it.
func (f *fault) plant(root fs.FS) (string, error) {
	text, err := fs.ReadFile(root, f.file)
	if err != nil {
		return "", fmt.Errorf("%s: fault %q: %v", f.listed, f.id, err)
	}
	if n := strings.Count(string(text), f.before); n != 1 {
		return "", fmt.Errorf("%s: fault %q: the old text occurs %d times in %s, want once", f.listed, f.id, n, f.file)
	}
	return strings.Replace(string(text), f.before, f.after, 1), nil
}
