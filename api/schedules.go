package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/headrace/headrace/job"
)

// ScheduleSpec asks for a submission again and again.
type ScheduleSpec struct {
	Cron   string `json:"cron" minLength:"1" maxLength:"256" doc:"Minute, hour, day of month, month and day of week, as cron has them; or @hourly, @daily, @weekly, @monthly, @yearly, or @every and a span of time."`
	Zone   string `json:"zone,omitempty" maxLength:"64" doc:"The time zone in which that is meant, such as Europe/Berlin; left out: UTC."`
	Missed string `json:"missed,omitempty" enum:"skip,once,all" doc:"What becomes of times at which no server ran: skip: nothing. once: the last of them is made up for. all: each is. Left out: once."`
	Paused bool   `json:"paused,omitempty" doc:"It asks for nothing; its times count as missed by nobody."`
	// Submission is what is asked for each time.
	Submission Submission `json:"submission"`
}

// What becomes of missed times.
const (
	MissedSkip = "skip"
	MissedOnce = "once"
	MissedAll  = "all"
)

// Schedule is a schedule as lists show it.
type Schedule struct {
	Name    string  `json:"name"`
	Cron    string  `json:"cron"`
	Zone    string  `json:"zone"`
	Missed  string  `json:"missed"`
	Paused  bool    `json:"paused,omitempty"`
	Build   string  `json:"build" doc:"The name of the builds that it asks for."`
	Channel string  `json:"channel"`
	Jobs    int     `json:"jobs" doc:"How many each has."`
	Next    []Time  `json:"next" doc:"When it asks next; none if it is paused."`
	Last    *Time   `json:"last,omitempty" format:"date-time" doc:"The time for which it asked last."`
	Asked   *job.ID `json:"last_build,omitempty" format:"uuid" doc:"The build that came of it."`
	Problem string  `json:"problem,omitempty" doc:"Why nothing came of the last time."`
	// Submission is given for a single schedule alone.
	Submission *Submission `json:"submission,omitempty"`
}

// Schedules lists schedules by name.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	var list List[Schedule]
	err := c.get(ctx, "/schedules", nil, &list)
	return list.Items, err
}

// Schedule shows a schedule with its submission.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	var s Schedule
	err := c.get(ctx, schedulePath(name), nil, &s)
	return s, err
}

// SetSchedule makes a schedule, or puts another in its place.
func (c *Client) SetSchedule(ctx context.Context, name string, s *ScheduleSpec) (Schedule, error) {
	var out Schedule
	err := c.do(ctx, &call{method: http.MethodPut, path: schedulePath(name), body: s}, &out)
	return out, err
}

// RemoveSchedule removes a schedule. What it asked for stays.
func (c *Client) RemoveSchedule(ctx context.Context, name string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: schedulePath(name)}, nil)
}

// RunSchedule has a schedule ask now, besides its times.
func (c *Client) RunSchedule(ctx context.Context, name string) (Receipt, error) {
	var r Receipt
	err := c.post(ctx, schedulePath(name)+"/run", nil, &r)
	return r, err
}

func schedulePath(name string) string { return "/schedules/" + url.PathEscape(name) }
