package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/robfig/cron/v3"
)

// Spaces of the settings that schedules are. How far one has come is apart, so that who changes a schedule and who runs it do
// not overwrite one another.
const (
	scheduleSpace = "schedule"
	placeSpace    = "schedule-place"
)

// keptSchedule is a schedule as it is stored.
type keptSchedule struct {
	api.ScheduleSpec
	// Life tells a schedule from one of the same name that was there before.
	Life  string    `json:"life"`
	Since time.Time `json:"since"` // when it was made, or changed: no earlier time is its
}

// keptPlace is how far a schedule has come.
type keptPlace struct {
	Life    string    `json:"life"`
	Done    time.Time `json:"done"` // no time up to this one is asked for any more
	Last    time.Time `json:"last,omitzero"`
	Build   job.ID    `json:"build,omitzero"`
	Problem string    `json:"problem,omitempty"`
}

// lateness is how late a time may be asked for without being a missed one.
const lateness = time.Minute

// madeUp bounds how many missed times are made up for at once.
const madeUp = 1000

var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// times reads when a schedule asks.
func times(s *api.ScheduleSpec) (cron.Schedule, *time.Location, error) {
	zone := time.UTC
	if s.Zone != "" {
		var err error
		if zone, err = time.LoadLocation(s.Zone); err != nil || s.Zone == "Local" {
			return nil, nil, api.Invalid("body.zone", fmt.Sprintf("%q is no time zone that is known here; want a name such as Europe/Berlin", s.Zone))
		}
	}
	if strings.Contains(s.Cron, "TZ=") {
		return nil, nil, api.Invalid("body.cron", "want the time zone in zone")
	}
	if every, ok := strings.CutPrefix(s.Cron, "@every "); ok {
		if d, err := time.ParseDuration(strings.TrimSpace(every)); err != nil || d < time.Second {
			return nil, nil, api.Invalid("body.cron", "@every: want a span of at least a second, such as 90m")
		}
	}
	at, err := cronParser.Parse(sundays(s.Cron))
	if err != nil {
		return nil, nil, api.Invalid("body.cron", err.Error())
	}
	if at.Next(time.Now().In(zone)).IsZero() {
		return nil, nil, api.Invalid("body.cron", "that time never comes")
	}
	return at, zone, nil
}

// sundays writes the seventh day of the week as the day 0, which cron allows and the parser does not know.
func sundays(text string) string {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return text
	}
	var parts []string
	for part := range strings.SplitSeq(fields[4], ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to, ranged := strings.Cut(span, "-")
		first, err := strconv.Atoi(from)
		by := 1
		if stepped && err == nil {
			by, err = strconv.Atoi(step)
		}
		switch {
		case err == nil && !stepped && !ranged && first == 7:
			part = "0"
		case err == nil && ranged && to == "7" && first >= 0 && by > 0:
			var days []string
			for day := first; day <= 7; day += by {
				days = append(days, strconv.Itoa(day%7))
			}
			part = strings.Join(days, ",")
		}
		parts = append(parts, part)
	}
	fields[4] = strings.Join(parts, ",")
	return strings.Join(fields, " ")
}

func (s *Server) scheduleOperations() {
	type one struct {
		Name string `path:"name" maxLength:"64" doc:"The schedule."`
	}
	handle(s, operation{
		id: "list-schedules", method: http.MethodGet, path: "/schedules", tag: "schedules", role: reader, summary: "List schedules by name",
	}, func(ctx context.Context, _ *struct{}) (*out[api.List[api.Schedule]], error) {
		settings, err := s.Queue.Settings(ctx, scheduleSpace)
		if err != nil {
			return nil, err
		}
		list := api.List[api.Schedule]{Items: []api.Schedule{}}
		for _, v := range settings {
			var kept keptSchedule
			if err := json.Unmarshal(v.Body, &kept); err != nil {
				s.Log.Error("a stored schedule cannot be read", "schedule", v.Name, "err", err)
				continue
			}
			if passOf(ctx).sees(channelNamed(kept.Submission.Channel)) {
				list.Items = append(list.Items, s.viewSchedule(ctx, v.Name, &kept))
			}
		}
		return &out[api.List[api.Schedule]]{list}, nil
	})
	handle(s, operation{
		id: "get-schedule", method: http.MethodGet, path: "/schedules/{name}", tag: "schedules", role: reader, summary: "Show a schedule with what it asks for",
	}, func(ctx context.Context, in *one) (*out[api.Schedule], error) {
		kept, err := s.schedule(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		view := s.viewSchedule(ctx, in.Name, kept)
		view.Submission = &kept.Submission
		return &out[api.Schedule]{view}, nil
	})
	type set struct {
		Name string `path:"name" maxLength:"64" doc:"The schedule."`
		Body api.ScheduleSpec
	}
	handle(s, operation{
		id: "set-schedule", method: http.MethodPut, path: "/schedules/{name}", tag: "schedules", role: submitter, limit: job.MaxSettingBody,
		summary: "Ask for a build at certain times, again and again", about: "Each is asked for once, also over restarts. The request may have at most 1 MiB.",
	}, func(ctx context.Context, in *set) (*out[api.Schedule], error) {
		kept, err := s.setSchedule(ctx, in.Name, &in.Body)
		if err != nil {
			return nil, err
		}
		return &out[api.Schedule]{s.viewSchedule(ctx, in.Name, kept)}, nil
	})
	handle(s, operation{
		id: "remove-schedule", method: http.MethodDelete, path: "/schedules/{name}", tag: "schedules", role: submitter, summary: "Remove a schedule",
		about: "What it asked for stays.",
	}, func(ctx context.Context, in *one) (*struct{}, error) {
		if _, err := s.schedule(ctx, in.Name); err != nil {
			return nil, err
		}
		if err := s.Queue.RemoveSetting(ctx, scheduleSpace, in.Name); err != nil {
			return nil, err
		}
		// What is left of one of another life counts for nothing.
		_ = s.Queue.RemoveSetting(queue.WithRequest(ctx, job.ID{}), placeSpace, in.Name)
		return nil, nil
	})
	type created struct {
		Status int
		Body   api.Receipt
	}
	handle(s, operation{
		id: "run-schedule", method: http.MethodPost, path: "/schedules/{name}/run", tag: "schedules", role: submitter, status: http.StatusCreated,
		summary: "Have a schedule ask now, besides its times",
	}, func(ctx context.Context, in *one) (*created, error) {
		kept, err := s.schedule(ctx, in.Name)
		if err != nil {
			return again[created](ctx, s, err, func(r api.Receipt) created { return created{http.StatusCreated, r} })
		}
		receipt, err := s.submitScheduled(ctx, in.Name, kept)
		return &created{http.StatusCreated, receipt}, err
	})
}

func channelNamed(name string) string {
	if name == "" {
		return api.DefaultChannel
	}
	return name
}

// schedule gives one that the request may see.
func (s *Server) schedule(ctx context.Context, name string) (*keptSchedule, error) {
	v, err := s.Queue.Setting(ctx, scheduleSpace, name)
	if err != nil {
		return nil, err
	}
	var kept keptSchedule
	if err := json.Unmarshal(v.Body, &kept); err != nil {
		return nil, fmt.Errorf("schedule %q: %v", name, err)
	}
	if !passOf(ctx).sees(channelNamed(kept.Submission.Channel)) {
		return nil, queue.ErrNotFound
	}
	return &kept, nil
}

func (s *Server) setSchedule(ctx context.Context, name string, in *api.ScheduleSpec) (*keptSchedule, error) {
	if !plainName(name) {
		return nil, api.Invalid("path.name", "want 1 to 64 letters, digits, dots, hyphens and underscores, none of the marks at the start")
	}
	if in.Missed == "" {
		in.Missed = api.MissedOnce
	}
	if _, _, err := times(in); err != nil {
		return nil, err
	}
	if err := within(ctx, channelNamed(in.Submission.Channel)); err != nil {
		return nil, err
	}
	// What the engine would refuse each time is refused now.
	d := draft{newID: s.Queue.NewID, in: &in.Submission}
	if submission, err := d.submission(); err != nil {
		return nil, inSubmission(err)
	} else if err := s.reaches(ctx, &d, submission.Jobs); err != nil {
		return nil, inSubmission(err)
	}
	for i := range in.Submission.Jobs {
		if in.Submission.Jobs[i].ID != nil {
			return nil, api.Invalid(fmt.Sprintf("body.submission.jobs[%d].id", i), "each job of a schedule gets its own id")
		}
	}
	if old, err := s.Queue.Setting(ctx, scheduleSpace, name); err == nil {
		if _, err := s.schedule(ctx, old.Name); err != nil {
			return nil, job.ErrExists // another channel's
		}
	} else if !errors.Is(err, queue.ErrNotFound) {
		return nil, err
	}
	kept := &keptSchedule{ScheduleSpec: *in, Life: rand.Text(), Since: time.Now().UTC().Truncate(time.Microsecond)}
	body, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	if len(body) > job.MaxSettingBody {
		return nil, api.ErrTooLarge
	}
	if err := s.Queue.PutSetting(ctx, job.Setting{Space: scheduleSpace, Name: name, Body: body}, job.Always); err != nil {
		return nil, err
	}
	s.Log.Info("schedule set", "schedule", name)
	select {
	case s.nudge <- struct{}{}:
	default: // It will be looked at anyway.
	}
	return kept, nil
}

// inSubmission gives an error with the places of a submission that is a part.
func inSubmission(err error) error {
	p := api.ProblemOf(err)
	for i := range p.Errors {
		if rest, ok := strings.CutPrefix(p.Errors[i].Location, "body."); ok {
			p.Errors[i].Location = "body.submission." + rest
		}
	}
	return p
}

// nextShown is how many times lists show.
const nextShown = 3

func (s *Server) viewSchedule(ctx context.Context, name string, kept *keptSchedule) api.Schedule {
	v := api.Schedule{
		Name: name, Cron: kept.Cron, Zone: kept.Zone, Missed: kept.Missed, Paused: kept.Paused, Build: kept.Submission.Name,
		Channel: channelNamed(kept.Submission.Channel), Jobs: len(kept.Submission.Jobs), Next: []api.Time{},
	}
	if v.Zone == "" {
		v.Zone = "UTC"
	}
	place := s.placeOf(ctx, name, kept)
	v.Last, v.Problem = timeAt(place.Last), place.Problem
	if !place.Build.IsZero() {
		v.Asked = &place.Build
	}
	at, zone, err := times(&kept.ScheduleSpec)
	if err != nil {
		v.Problem = err.Error()
		return v
	}
	next := time.Now()
	if place.Done.After(next) {
		next = place.Done
	}
	for range nextShown {
		if next = at.Next(next.In(zone)); next.IsZero() || kept.Paused {
			break
		}
		v.Next = append(v.Next, next.UTC())
	}
	return v
}

// placeOf tells how far a schedule has come.
func (s *Server) placeOf(ctx context.Context, name string, kept *keptSchedule) keptPlace {
	var place keptPlace
	if v, err := s.Queue.Setting(ctx, placeSpace, name); err == nil && json.Unmarshal(v.Body, &place) == nil && place.Life == kept.Life {
		return place
	}
	return keptPlace{Life: kept.Life, Done: kept.Since}
}

// submitScheduled asks for what a schedule asks for.
func (s *Server) submitScheduled(ctx context.Context, name string, kept *keptSchedule) (api.Receipt, error) {
	in := kept.Submission
	d := draft{newID: s.Queue.NewID, in: &in}
	submission, err := d.submission()
	if err != nil {
		return api.Receipt{}, err
	}
	submission.Build.Labels[cronLabel] = name
	receipt, err := s.place(ctx, submission)
	if err != nil {
		return api.Receipt{}, d.named(err)
	}
	return d.receipt(receipt), nil
}
