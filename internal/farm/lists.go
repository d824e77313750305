package farm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
)

// ListBuilds shows at most so many builds, the newest first.
func (f *Farm) ListBuilds(ctx context.Context, filter api.BuildFilter, limit int) error {
	var all []api.Build
	for {
		filter.Limit = min(limit-len(all), pageSize)
		page, err := f.Builds(ctx, filter)
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if filter.Cursor = page.Next; page.Next == "" || len(all) >= limit {
			break
		}
	}
	more := filter.Cursor != ""
	if f.JSON {
		return encode(f.Out, all...)
	}
	var rows [][]progress.Cell
	for i := range all {
		rows = append(rows, f.buildRow(&all[i]))
	}
	if err := f.table("there are no such builds", buildColumns, rows); err != nil {
		return err
	}
	return f.more(more, limit)
}

// more says that the list goes on.
func (f *Farm) more(more bool, limit int) error { return f.further(more, "older ones", limit) }

func (f *Farm) further(more bool, which string, limit int) error {
	if !more {
		return nil
	}
	return f.line(f.Style.As(progress.Dim, fmt.Sprintf("there are %s; --limit %d shows more", which, limit*10)))
}

var buildColumns = []progress.Column{
	{Title: "ID", Keep: 8},
	{Title: "STATE", Keep: 9},
	{Title: "NAME", Keep: 10, Least: 16},
	{Title: "ASKED", Keep: 7},
	{Title: "TOOK", Keep: 6},
	{Title: "PRIO", Keep: 3, Right: true},
	{Title: "CHANNEL", Keep: 5, Least: 8},
	{Title: "GROUP", Keep: 2, Least: 8},
}

func (f *Farm) buildRow(b *api.Build) []progress.Cell {
	row := []progress.Cell{
		idCell(b.ID), place(b.State, b.Outcome),
		{Text: b.Name},
		f.moment(&b.Asked),
		{Text: f.took(&b.Asked, b.Ended)},
		{},
		{Text: b.Channel},
		{Text: b.Group},
	}
	if b.Priority != 0 {
		row[5].Text = strconv.Itoa(int(b.Priority))
	}
	return row
}

// ListJobs shows at most so many jobs, the newest first.
func (f *Farm) ListJobs(ctx context.Context, filter api.JobFilter, limit int) error {
	all, more, err := f.jobs(ctx, filter, limit)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, all...)
	}
	if err := f.table("there are no such jobs", jobColumns, f.jobRows(all)); err != nil {
		return err
	}
	return f.more(more, limit)
}

// jobs gives at most so many jobs, and whether there are more.
func (f *Farm) jobs(ctx context.Context, filter api.JobFilter, limit int) (all []api.Job, more bool, err error) {
	for {
		filter.Limit = min(limit-len(all), pageSize)
		page, err := f.Jobs(ctx, filter)
		if err != nil {
			return nil, false, err
		}
		all = append(all, page.Items...)
		if filter.Cursor = page.Next; page.Next == "" || len(all) >= limit {
			return all, page.Next != "", nil
		}
	}
}

var jobColumns = []progress.Column{
	{Title: "ID", Keep: 8},
	{Title: "STATE", Keep: 9},
	{Title: "NAME", Keep: 10, Least: 16},
	{Title: "WORKER", Keep: 5, Least: 8},
	{Title: "ASKED", Keep: 6},
	{Title: "TOOK", Keep: 7},
	{Title: "TRY", Keep: 2, Right: true},
	{Title: "SYSTEM", Keep: 1},
	{Title: "KIND", Keep: 0},
	{Title: "CHANNEL", Keep: 3, Least: 8},
	{Title: "MESSAGE", Keep: 4, Least: 24},
}

func (f *Farm) jobRows(all []api.Job) [][]progress.Cell {
	var rows [][]progress.Cell
	for i := range all {
		j := &all[i]
		row := []progress.Cell{
			idCell(j.ID), place(j.State, j.Outcome),
			{Text: cmp.Or(j.Name, j.Key)},
			{Text: j.Worker},
			f.moment(&j.Asked),
			{},
			{},
			{Text: j.System},
			{},
			{Text: j.Channel},
			{Text: firstLine(j.Message)},
		}
		if j.Started != nil && (j.State == "running" || j.Ended != nil) {
			row[5].Text = f.took(j.Started, j.Ended)
		}
		if j.Attempts > 1 {
			row[6].Text = strconv.Itoa(int(j.Attempts))
		}
		if j.Kind != api.DefaultKind {
			row[8].Text = j.Kind
		}
		rows = append(rows, row)
	}
	return rows
}

// firstLine is what a list tells of a message.
func firstLine(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(progress.Brief(message)), "\n")
	return line
}

// ListWorkers shows the workers by name.
func (f *Farm) ListWorkers(ctx context.Context) error {
	all, err := f.Workers(ctx)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, all...)
	}
	var rows [][]progress.Cell
	for i := range all {
		w := &all[i]
		load := fmt.Sprintf("%d/%d", len(w.Running), w.Slots)
		rows = append(rows, []progress.Cell{
			{Text: w.Name},
			f.stand(w),
			{Text: load},
			{Text: strings.Join(w.Systems, " ")},
			{Text: strings.Join(w.Channels, " ")},
			{Text: kindsOf(w)},
			{Text: strings.Join(w.Features, " ")},
			f.moment(w.Seen),
		})
	}
	return f.table("there are no workers, or the token is not good for their channels", []progress.Column{
		{Title: "NAME", Keep: 10, Least: 16},
		{Title: "STATE", Keep: 9},
		{Title: "BUSY", Keep: 8, Right: true},
		{Title: "SYSTEMS", Keep: 6, Least: 12},
		{Title: "CHANNELS", Keep: 5, Least: 8},
		{Title: "KINDS", Keep: 3, Least: 8},
		{Title: "FEATURES", Keep: 2, Least: 8},
		{Title: "SEEN", Keep: 4},
	}, rows)
}

// kindsOf gives the kinds of a worker, if it has others than that of commands.
func kindsOf(w *api.Worker) string {
	if slices.Equal(w.Kinds, []string{api.DefaultKind}) {
		return ""
	}
	return strings.Join(w.Kinds, " ")
}

// stand is the cell of how it stands with a worker.
func (f *Farm) stand(w *api.Worker) progress.Cell {
	switch {
	case !w.Online && w.Drained:
		return progress.Cell{Text: "offline, drained", Short: "offline", Tone: progress.Warn}
	case !w.Online:
		return progress.Cell{Text: "offline", Tone: progress.Warn}
	case w.Until != nil:
		return progress.Cell{Text: "quarantined for " + coarse(max(0, w.Until.Sub(f.Now()))), Short: "quarantined", Tone: progress.Bad}
	case w.Drained && len(w.Running) > 0:
		return progress.Cell{Text: "draining", Tone: progress.Warn}
	case w.Drained:
		return progress.Cell{Text: "drained", Tone: progress.Warn}
	case len(w.Running) == 0:
		return progress.Cell{Text: "idle", Tone: progress.Dim}
	}
	return progress.Cell{Text: "busy", Tone: progress.Good}
}

// ShowWorker shows one worker with what it runs.
func (f *Farm) ShowWorker(ctx context.Context, name string) error {
	w, err := f.Worker(ctx, name)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, w)
	}
	stand := f.stand(&w)
	err = f.fields(
		field{"worker", w.Name, progress.Bold},
		field{"state", stand.Text, stand.Tone},
		field{"slots", fmt.Sprintf("%d of %d busy", len(w.Running), w.Slots), 0},
		field{"systems", strings.Join(w.Systems, " "), 0},
		field{"channels", strings.Join(w.Channels, " "), 0},
		field{"kinds", strings.Join(w.Kinds, " "), 0},
		field{"features", strings.Join(w.Features, " "), 0},
		field{"mandatory", strings.Join(w.Mandatory, " "), 0},
		field{"speed", number(w.Speed), 0},
		field{"version", w.Version, 0},
		field{"machine", machineOf(w.Machine), 0},
		field{"faults in a row", number(float64(w.Faults)), progress.Bad},
		field{"quarantined until", f.when(w.Until), progress.Bad},
		field{"seen", f.when(w.Seen), 0},
	)
	if err != nil || len(w.Running) == 0 {
		return err
	}
	jobs, err := f.each(ctx, w.Running)
	if err != nil {
		return err
	}
	if err := f.line(""); err != nil {
		return err
	}
	return f.table("", jobColumns, f.jobRows(jobs))
}

// eachMost is how many jobs are looked up one by one.
const eachMost = 20

// each looks up jobs; those that the token is not good for, or that are gone, are left out.
func (f *Farm) each(ctx context.Context, ids []job.ID) ([]api.Job, error) {
	var all []api.Job
	for _, id := range ids[:min(len(ids), eachMost)] {
		found, err := f.jobsLike(ctx, id.String())
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			all = append(all, *n.Job)
		}
	}
	return all, nil
}

// number writes a number that says something; 0 does not.
func number(n float64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(n, 'g', 6, 64)
}

func machineOf(m *api.Machine) string {
	if m == nil {
		return ""
	}
	text := fmt.Sprintf("load %.2g", m.Load)
	if m.Memory > 0 {
		text += fmt.Sprintf(", %s of %s memory free", size(m.MemoryFree), size(m.Memory))
	}
	if m.Disk > 0 {
		text += fmt.Sprintf(", %s of %s disk free", size(m.DiskFree), size(m.Disk))
	}
	return text
}

// size writes a number of bytes.
func size(n int64) string {
	const kilo = 1024
	unit, f := 0, float64(n)
	for units := "BKMGTP"; f >= kilo && unit < len(units)-1; unit++ {
		f /= kilo
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %ciB", f, "BKMGTP"[unit])
}
