package farm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
)

// Naming says for a help text how a build or a job is named.
const Naming = `A build is named by its id, by the first or last digits of that (4 or more, as lists show them, among the newest 1000 builds), or
by its name: then the newest of that name is meant. A job is named by its id or digits of it (among the newest 5000 jobs), or as
BUILD/NAME. What could mean several is refused, and they are named.`

// NameError: what somebody named is not there, or could be several things.
type NameError struct{ text string }

// Error says what to do about it, too.
func (e *NameError) Error() string { return e.text }

const (
	pageSize    = 1000 // of the API, at most
	recentPages = 5    // of jobs that are looked through for digits of an id
	leastDigits = 4
)

// Found is a build or a job that somebody named.
type Found struct {
	Build *api.Build
	Job   *api.Job
}

func (n *Found) id() job.ID {
	if n.Build != nil {
		return n.Build.ID
	}
	return n.Job.ID
}

func (n *Found) String() string {
	if n.Build != nil {
		return fmt.Sprintf("build %s (%s)", n.Build.ID, progress.Visible(n.Build.Name))
	}
	return fmt.Sprintf("job %s (%s)", n.Job.ID, progress.Visible(cmp.Or(n.Job.Name, n.Job.Key, "no name")))
}

// Find gives the build or the job that is named. It reports *NameError.
func (f *Farm) Find(ctx context.Context, text string) (Found, error) {
	builds, err := f.buildsLike(ctx, text)
	if err != nil {
		return Found{}, err
	}
	jobs, err := f.jobsLike(ctx, text)
	if err != nil {
		return Found{}, err
	}
	return one("build or job", text, append(builds, jobs...))
}

// FindBuild gives the build that is named. It reports *NameError.
func (f *Farm) FindBuild(ctx context.Context, text string) (*api.Build, error) {
	all, err := f.buildsLike(ctx, text)
	if err != nil {
		return nil, err
	}
	found, err := one("build", text, all)
	return found.Build, err
}

// FindJob gives the job that is named. It reports *NameError.
func (f *Farm) FindJob(ctx context.Context, text string) (*api.Job, error) {
	all, err := f.jobsLike(ctx, text)
	if err != nil {
		return nil, err
	}
	found, err := one("job", text, all)
	return found.Job, err
}

// one gives the only thing that was found.
func one(what, text string, all []Found) (Found, error) {
	var distinct []Found
	for _, n := range all {
		if !slices.ContainsFunc(distinct, func(o Found) bool { return o.id() == n.id() }) {
			distinct = append(distinct, n)
		}
	}
	switch len(distinct) {
	case 0:
		hint := "give its id, the first or last digits of it, or its name"
		if what != "build" {
			hint = "give its id, the first or last digits of it, or BUILD/NAME for a job"
		}
		return Found{}, &NameError{fmt.Sprintf("there is no %s %q, or the token is not good for its channel; %s", what, text, hint)}
	case 1:
		return distinct[0], nil
	}
	const most = 10
	var names []string
	for i := range distinct[:min(len(distinct), most)] {
		names = append(names, "\n  "+distinct[i].String())
	}
	if more := len(distinct) - most; more > 0 {
		names = append(names, fmt.Sprintf("\n  and %d more", more))
	}
	return Found{}, &NameError{fmt.Sprintf("%q could be any of these; give more of the id:%s", text, strings.Join(names, ""))}
}

// buildsLike gives the builds that a text may mean.
func (f *Farm) buildsLike(ctx context.Context, text string) ([]Found, error) {
	if id, err := job.ParseID(text); err == nil && !id.IsZero() {
		b, err := f.Build(ctx, id)
		return foundBuild(&b, err)
	}
	var all []Found
	if text != "" && len(text) <= job.MaxName && utf8.ValidString(text) {
		page, err := f.Builds(ctx, api.BuildFilter{Name: text, Limit: 1})
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			all = append(all, Found{Build: &page.Items[i]})
		}
	}
	digits := digitsOf(text)
	if digits == "" {
		return all, nil
	}
	page, err := f.Builds(ctx, api.BuildFilter{Limit: pageSize})
	for i := range page.Items {
		if fits(page.Items[i].ID, digits) {
			all = append(all, Found{Build: &page.Items[i]})
		}
	}
	return all, err
}

func foundBuild(b *api.Build, err error) ([]Found, error) {
	switch {
	case errors.Is(err, job.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []Found{{Build: b}}, nil
}

// jobsLike gives the jobs that a text may mean.
func (f *Farm) jobsLike(ctx context.Context, text string) ([]Found, error) {
	if id, err := job.ParseID(text); err == nil && !id.IsZero() {
		j, err := f.Job(ctx, id)
		switch {
		case errors.Is(err, job.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return []Found{{Job: &j}}, nil
	}
	if strings.Contains(text, "/") {
		return f.jobsIn(ctx, text)
	}
	digits := digitsOf(text)
	if digits == "" {
		return nil, nil
	}
	var all []Found
	filter := api.JobFilter{Limit: pageSize}
	for range recentPages {
		page, err := f.Jobs(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			if fits(page.Items[i].ID, digits) {
				all = append(all, Found{Job: &page.Items[i]})
			}
		}
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	return all, nil
}

// jobsIn gives the jobs that BUILD/NAME may mean: both may have a slash in them.
func (f *Farm) jobsIn(ctx context.Context, text string) ([]Found, error) {
	const most = 8 // slashes that are tried
	var all []Found
	tried := 0
	for i, c := range text {
		name := text[min(i+1, len(text)):]
		if c != '/' || i == 0 || name == "" || len(name) > job.MaxName || !utf8.ValidString(name) {
			continue
		}
		if tried++; tried > most {
			break
		}
		builds, err := f.buildsLike(ctx, text[:i])
		if err != nil {
			return nil, err
		}
		for _, b := range builds {
			page, err := f.Jobs(ctx, api.JobFilter{Build: b.Build.ID, Name: name, Limit: 11})
			if err != nil {
				return nil, err
			}
			for k := range page.Items {
				all = append(all, Found{Job: &page.Items[k]})
			}
		}
	}
	return all, nil
}

// digitsOf gives the digits of an id that a text may be the beginning or the end of; "": it is none.
func digitsOf(text string) string {
	digits := strings.ToLower(strings.ReplaceAll(text, "-", ""))
	if len(digits) < leastDigits || len(digits) >= 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return digits
}

// fits reports whether an id begins or ends with the digits. The first ones of a new id are the time, so that those of the jobs of one
// build are the same; the last ones are random.
func fits(id job.ID, digits string) bool {
	all := strings.ReplaceAll(id.String(), "-", "")
	return strings.HasPrefix(all, digits) || strings.HasSuffix(all, digits)
}

// short gives the digits of an id by which lists on a narrow terminal name it.
func short(id job.ID) string {
	text := id.String()
	return text[len(text)-8:]
}

// idCell is the cell of an id.
func idCell(id job.ID) progress.Cell { return progress.Cell{Text: id.String(), Short: short(id)} }
