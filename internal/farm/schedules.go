package farm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
)

// ListSchedules shows the schedules by name.
func (f *Farm) ListSchedules(ctx context.Context) error {
	all, err := f.Schedules(ctx)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, all...)
	}
	var rows [][]progress.Cell
	for i := range all {
		s := &all[i]
		next := progress.Cell{Text: "never"}
		switch {
		case s.Paused:
			next = progress.Cell{Text: "paused", Tone: progress.Warn}
		case len(s.Next) > 0:
			next = f.moment(&s.Next[0])
		}
		last := f.moment(s.Last)
		if s.Problem != "" {
			last = progress.Cell{Text: "refused: " + firstLine(s.Problem), Short: "refused", Tone: progress.Bad}
		}
		rows = append(rows, []progress.Cell{
			{Text: s.Name},
			next,
			{Text: s.Cron},
			{Text: s.Zone},
			{Text: s.Missed},
			{Text: s.Build},
			{Text: s.Channel},
			{Text: strconv.Itoa(s.Jobs)},
			last,
		})
	}
	return f.table("there are no schedules, or the token is not good for their channels", []progress.Column{
		{Title: "NAME", Keep: 10, Least: 16},
		{Title: "NEXT", Keep: 9},
		{Title: "CRON", Keep: 7},
		{Title: "ZONE", Keep: 5},
		{Title: "MISSED", Keep: 1},
		{Title: "BUILD", Keep: 6, Least: 16},
		{Title: "CHANNEL", Keep: 3, Least: 8},
		{Title: "JOBS", Keep: 2, Right: true},
		{Title: "LAST", Keep: 4, Least: 24},
	}, rows)
}

// NextOf says when a schedule asks next.
func (f *Farm) NextOf(s *api.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case len(s.Next) == 0:
		return "never"
	}
	return "next " + f.when(&s.Next[0])
}

// scheduledShown is how many jobs of a schedule are shown.
const scheduledShown = 50

// ShowSchedule shows one schedule with what it asks for.
func (f *Farm) ShowSchedule(ctx context.Context, name string) error {
	s, err := f.Schedule(ctx, name)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, s)
	}
	next, tone := "never", progress.Warn
	if s.Paused {
		next = "paused"
	}
	if len(s.Next) > 0 {
		var times []string
		for i := range s.Next {
			times = append(times, f.when(&s.Next[i]))
		}
		next, tone = strings.Join(times, "\n"), progress.Neutral
	}
	last := f.when(s.Last)
	if s.Asked != nil && last != "" {
		last += ": build " + s.Asked.String()
	}
	fields := []field{
		{"schedule", s.Name, progress.Bold},
		{"next", next, tone},
		{"cron", s.Cron + ", in " + s.Zone, 0},
		{"missed", s.Missed, 0},
		{"build", s.Build, 0},
		{"channel", s.Channel, 0},
		{"last", last, 0},
		{"problem", s.Problem, progress.Bad},
	}
	if s.Submission == nil {
		return f.fields(fields...)
	}
	fields = append(fields, field{"group", s.Submission.Group, 0}, field{"priority", number(float64(s.Submission.Priority)), 0})
	var names []string
	for i := range s.Submission.Jobs[:min(len(s.Submission.Jobs), scheduledShown)] {
		names = append(names, s.Submission.Jobs[i].Name)
	}
	if more := len(s.Submission.Jobs) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return f.fields(append(fields, field{"jobs", strings.Join(names, "\n"), 0})...)
}
