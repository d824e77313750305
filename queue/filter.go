package queue

import (
	"unicode/utf8"

	"github.com/headrace/headrace/job"
)

// Check reports a *job.InvalidError for a filter that asks for what cannot be.
func (f *JobFilter) Check() error { return checkPrefix(f.Prefix, f.Name) }

// Check reports a *job.InvalidError for a filter that asks for what cannot be.
func (f *BuildFilter) Check() error { return checkPrefix(f.Prefix, f.Name) }

func checkPrefix(prefix, name string) error {
	switch {
	case prefix == "":
		return nil
	case name != "":
		return &job.InvalidError{Field: "prefix", Want: "must not be set beside a name"}
	case !utf8.ValidString(prefix):
		return &job.InvalidError{Field: "prefix", Want: "is not valid UTF-8"}
	}
	return nil
}
