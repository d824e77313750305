package archive

import (
	"reflect"
	"strings"
	"sync"
	"unicode"

	"github.com/headrace/headrace/job"
)

// field is one of a type's, with those of embedded types among them.
type field struct {
	name  string
	index []int
}

var known sync.Map // reflect.Type to []field

func fieldsOf(t reflect.Type) []field {
	if f, ok := known.Load(t); ok {
		return f.([]field)
	}
	var list []field
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			list = append(list, field{snake(f.Name), f.Index})
		}
	}
	known.Store(t, list)
	return list
}

// snake gives a name of Go in small letters: NotBefore is not_before, FailureTTL failure_ttl.
func snake(name string) string {
	letters := []rune(name)
	var b strings.Builder
	for i, r := range letters {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// changes has the type of each change by its name in a dump.
var changes = map[string]reflect.Type{}

func init() {
	for _, c := range []job.Change{
		job.BuildAdded{},
		job.BuildReferred{},
		job.BuildSealed{},
		job.BuildActivated{},
		job.BuildBumped{},
		job.BuildEnded{},
		job.BuildDeleted{},
		job.JobAdded{},
		job.JobKept{},
		job.JobReleased{},
		job.JobBlocked{},
		job.JobStarted{},
		job.JobRetried{},
		job.JobEnded{},
		job.JobFreed{},
		job.JobSettled{},
		job.JobProgress{},
		job.JobDeleted{},
		job.WorkerPut{},
		job.WorkerRemoved{},
		job.ClassMarked{},
		job.ChannelPut{},
		job.SettingPut{},
		job.SettingRemoved{},
		job.UsagePut{},
		job.DurationLearned{},
		job.FailureCached{},
		job.FailureCleared{},
	} {
		t := reflect.TypeOf(c)
		changes[snake(t.Name())] = t
	}
}
