package farm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
)

// ShowBuild shows a build and at most so many of its jobs: first what failed, then what runs, what waits, and the rest.
func (f *Farm) ShowBuild(ctx context.Context, id job.ID, limit int) error {
	b, err := f.Build(ctx, id)
	if err != nil {
		return err
	}
	jobs, err := f.failedFirst(ctx, id, limit)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, struct {
			Build api.Build `json:"build"`
			Jobs  []api.Job `json:"jobs"`
		}{b, append([]api.Job{}, jobs...)})
	}
	stand := place(b.State, b.Outcome)
	took := f.took(&b.Asked, b.Ended)
	err = f.fields(
		field{"build", b.ID.String(), 0},
		field{"name", b.Name, progress.Bold},
		field{"state", stand.Text, stand.Tone},
		field{"asked", f.when(&b.Asked), 0},
		field{"ended", f.when(b.Ended), 0},
		field{"took", took, 0},
		field{"channel", b.Channel, 0},
		field{"group", b.Group, 0},
		field{"priority", number(float64(b.Priority)), 0},
		field{"limits", limitsOf(b.Limits), 0},
		field{"labels", labelsOf(b.Labels), 0},
		field{"jobs", counted(b.Counts), 0},
	)
	if err != nil || len(jobs) == 0 {
		return err
	}
	if err := f.line(""); err != nil {
		return err
	}
	if err := f.table("", jobColumns, f.jobRows(jobs)); err != nil {
		return err
	}
	if b.Counts != nil && b.Counts.Jobs > len(jobs) {
		return f.line(f.Style.As(progress.Dim, fmt.Sprintf("and %d more; see: headrace jobs --build %s", b.Counts.Jobs-len(jobs), short(id))))
	}
	return nil
}

// failedFirst gives jobs of a build in the order in which a person wants to see them.
func (f *Farm) failedFirst(ctx context.Context, build job.ID, limit int) ([]api.Job, error) {
	all, more, err := f.jobs(ctx, api.JobFilter{Build: build}, pageSize)
	if err != nil {
		return nil, err
	}
	if !more {
		slices.Reverse(all) // in the order of the graph
		slices.SortStableFunc(all, func(a, b api.Job) int { return cmp.Compare(urgency(&a), urgency(&b)) })
		return all[:min(len(all), limit)], nil
	}
	// It is large: ask for each sort by itself.
	all = nil
	for _, sort := range sorts {
		if len(all) == limit {
			break
		}
		sort.Build = build
		some, _, err := f.jobs(ctx, sort, limit-len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// sorts of jobs, those that a person wants to see first.
var sorts = []api.JobFilter{
	{Outcome: "failed"},
	{Outcome: "timed-out"},
	{Outcome: "aborted"},
	{Outcome: "unsupported"},
	{Outcome: "cancelled"},
	{State: "running"},
	{State: "ready"},
	{State: "blocked"},
	{Outcome: "dependency-failed"},
	{Outcome: "succeeded"},
}

func urgency(j *api.Job) int {
	return slices.IndexFunc(sorts, func(f api.JobFilter) bool {
		return f.Outcome != "" && f.Outcome == j.Outcome || f.State != "" && f.State == j.State
	})
}

// counted tells how many jobs are where.
func counted(c *api.Counts) string {
	if c == nil {
		return ""
	}
	parts := []string{}
	for _, s := range sorts {
		n, word := c.Ends[s.Outcome], s.Outcome
		if s.State != "" {
			n, word = c.States[s.State], s.State
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	text := strconv.Itoa(c.Jobs)
	if c.Further {
		text += " and more"
	}
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

func limitsOf(l api.Limits) string {
	var parts []string
	if l.Timeout > 0 {
		parts = append(parts, "timeout "+progress.Span(api.Duration(l.Timeout)))
	}
	if l.Silence > 0 {
		parts = append(parts, "silence "+progress.Span(api.Duration(l.Silence)))
	}
	return strings.Join(parts, ", ")
}

func labelsOf(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, "\n")
}

// ShowJob shows a job with its attempts and what it needs.
func (f *Farm) ShowJob(ctx context.Context, id job.ID) error {
	j, err := f.Job(ctx, id)
	if err != nil {
		return err
	}
	attempts, err := f.Attempts(ctx, id)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, struct {
			Job      api.Job       `json:"job"`
			Attempts []api.Attempt `json:"attempts"`
		}{j, append([]api.Attempt{}, attempts...)})
	}
	stand := place(j.State, j.Outcome)
	if j.Cached {
		stand.Text += ", remembered: it failed before, and was not run; headrace cached-failures clear has it run again"
	}
	root := ""
	if j.Root != nil {
		root = fmt.Sprintf("%s ended as %s", f.nameOf(ctx, *j.Root), j.RootEnd)
	}
	err = f.fields(
		field{"job", j.ID.String(), 0},
		field{"name", j.Name, progress.Bold},
		field{"state", stand.Text, stand.Tone},
		field{"detail", j.Detail, 0},
		field{"message", progress.Brief(j.Message), 0},
		field{"because", root, 0},
		field{"worker", j.Worker, 0},
		field{"asked", f.when(&j.Asked), 0},
		field{"not before", f.when(j.NotBefore), 0},
		field{"started", f.when(j.Started), 0},
		field{"ended", f.when(j.Ended), 0},
		field{"took", f.tookOf(&j), 0},
		field{"channel", j.Channel, 0},
		field{"kind", j.Kind, 0},
		field{"key", j.Key, 0},
		field{"system", j.System, 0},
		field{"features", strings.Join(j.Features, " "), 0},
		field{"only on", j.Pin, 0},
	)
	if err == nil {
		err = f.attempts(attempts)
	}
	if err == nil {
		err = f.needs(ctx, j.Needs)
	}
	if err == nil && (j.State == "blocked" || j.State == "ready") {
		err = f.line("\nwhy it does not run: headrace why " + short(id))
	}
	return err
}

// tookOf says how long the last attempt of a job took, or has taken.
func (f *Farm) tookOf(j *api.Job) string {
	if j.State != "running" && j.Ended == nil {
		return ""
	}
	return f.took(j.Started, j.Ended)
}

// nameOf names a job for a person.
func (f *Farm) nameOf(ctx context.Context, id job.ID) string {
	found, err := f.jobsLike(ctx, id.String())
	if err != nil || len(found) == 0 {
		return "job " + id.String()
	}
	return fmt.Sprintf("%s (%s)", cmp.Or(found[0].Job.Name, "a job"), short(id))
}

func (f *Farm) attempts(all []api.Attempt) error {
	if len(all) == 0 {
		return nil
	}
	var rows [][]progress.Cell
	for i := range all {
		a := &all[i]
		rows = append(rows, []progress.Cell{
			{Text: strconv.Itoa(int(a.Number))},
			place("running", a.Outcome),
			{Text: a.Worker},
			f.moment(&a.Started),
			{Text: f.took(&a.Started, a.Ended)},
			{Text: a.Detail},
			{Text: firstLine(a.Message)},
		})
	}
	if err := f.line("\n" + f.Style.As(progress.Bold, "attempts")); err != nil {
		return err
	}
	return f.table("", []progress.Column{
		{Title: "TRY", Keep: 9, Right: true},
		{Title: "STATE", Keep: 8},
		{Title: "WORKER", Keep: 7, Least: 12},
		{Title: "STARTED", Keep: 5},
		{Title: "TOOK", Keep: 6},
		{Title: "DETAIL", Keep: 2},
		{Title: "MESSAGE", Keep: 4, Least: 16},
	}, rows)
}

func (f *Farm) needs(ctx context.Context, needs []api.Need) error {
	if len(needs) == 0 {
		return nil
	}
	var rows [][]progress.Cell
	for _, n := range needs[:min(len(needs), eachMost)] {
		row := []progress.Cell{{Text: n.Job}, {}, {Text: n.Policy}, {}}
		found, err := f.jobsLike(ctx, n.Job)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			j := found[0].Job
			row[0], row[1], row[3] = idCell(j.ID), place(j.State, j.Outcome), progress.Cell{Text: j.Name}
		}
		rows = append(rows, row)
	}
	if err := f.line("\n" + f.Style.As(progress.Bold, "needs")); err != nil {
		return err
	}
	err := f.table("", []progress.Column{{Title: "ID", Keep: 3}, {Title: "STATE", Keep: 2}, {Title: "POLICY"}, {Title: "NAME", Keep: 4, Least: 16}}, rows)
	if more := len(needs) - eachMost; err == nil && more > 0 {
		err = f.line(f.Style.As(progress.Dim, fmt.Sprintf("and %d more; --json has all", more)))
	}
	return err
}

// TellWhy tells why a job does not run, or where it is.
func (f *Farm) TellWhy(ctx context.Context, id job.ID) error {
	e, err := f.Why(ctx, id)
	if errors.Is(err, job.ErrEnded) || err == nil && e.State == "running" {
		return f.stands(ctx, id)
	}
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, e)
	}
	name := cmp.Or(progress.Visible(e.Name), "the job")
	if err := f.line(fmt.Sprintf("%s is %s", f.Style.As(progress.Bold, name), e.State)); err != nil {
		return err
	}
	for _, r := range e.Reasons {
		text := r.Text
		if r.What == "dependency" && r.Name != "" && r.State != "" {
			text = fmt.Sprintf("waits for %s, which is %s", r.Name, r.State)
		}
		if err := f.line("  " + progress.Visible(text)); err != nil {
			return err
		}
	}
	if e.Ahead > 0 {
		if err := f.line(fmt.Sprintf("  %s would go first", progress.Count(e.Ahead, "job"))); err != nil {
			return err
		}
	}
	if e.Start != nil {
		if err := f.line("  it may start " + f.age(*e.Start)); err != nil {
			return err
		}
	}
	return f.nearest(e.Nearest)
}

// nearest tells of the workers that come closest to running a job.
func (f *Farm) nearest(all []api.Near) error {
	if len(all) == 0 {
		return nil
	}
	var rows [][]progress.Cell
	for _, n := range all {
		text := n.Busy
		if len(n.Lacks) > 0 {
			text = "lacks " + strings.Join(n.Lacks, ", ")
			if n.Busy != "" {
				text += "; " + n.Busy
			}
		}
		rows = append(rows, []progress.Cell{{Text: n.Worker}, {Text: cmp.Or(text, "could run it")}})
	}
	return f.table("", []progress.Column{{Title: "NEAREST WORKERS", Keep: 1, Least: 15}, {Title: "", Least: 16}}, rows)
}

// stands tells of a job that runs or has ended.
func (f *Farm) stands(ctx context.Context, id job.ID) error {
	j, err := f.Job(ctx, id)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, j)
	}
	name := f.Style.As(progress.Bold, cmp.Or(progress.Visible(j.Name), "the job"))
	worker := progress.Visible(j.Worker)
	switch {
	case j.State == "running":
		err = f.line(fmt.Sprintf("%s runs on %s, attempt %d, since %s", name, worker, j.Attempts, f.when(j.Started)))
	case j.Root != nil:
		err = f.line(fmt.Sprintf("%s did not run: %s ended as %s", name, progress.Visible(f.nameOf(ctx, *j.Root)), j.RootEnd))
	case j.Cached:
		err = f.line(fmt.Sprintf("%s was not run: it failed before, and that is remembered; have it run again by: headrace cached-failures clear %s", name, short(id)))
	case j.Ended != nil:
		on := ""
		if worker != "" {
			on = " on " + worker
		}
		err = f.line(fmt.Sprintf("%s ended as %s%s, %s", name, f.Style.As(toneOf(j.Outcome), j.Outcome), on, f.when(j.Ended)))
	default:
		err = f.line(fmt.Sprintf("%s is %s", name, j.State)) // It has just moved on.
	}
	if message := progress.Brief(j.Message); err == nil && message != "" {
		for line := range strings.SplitSeq(strings.TrimRight(message, "\n"), "\n") {
			if err = f.line("  " + progress.Visible(line)); err != nil {
				break
			}
		}
	}
	return err
}
