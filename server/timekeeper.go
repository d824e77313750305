package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/robfig/cron/v3"
)

// timekeeper asks for what schedules ask for, when their times come.
type timekeeper struct{ s *Server }

// lookEvery is how often schedules are looked at, at least: so late may be heeded what another server changed, or a step of the clock.
const lookEvery = 30 * time.Second

func (k timekeeper) run(ctx context.Context) {
	for {
		next, err := k.look(ctx)
		if err != nil && ctx.Err() == nil {
			next = time.Now().Add(time.Second)
			var retry *queue.RetryError
			if !errors.As(err, &retry) && !errors.Is(err, queue.ErrClosed) {
				k.s.Log.Error("schedules cannot be run", "err", err)
			}
		}
		timer := time.NewTimer(min(time.Until(next), lookEvery))
		select {
		case <-timer.C:
		case <-k.s.nudge: // one was changed
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// look asks for all that is due, and gives when something is due next.
func (k timekeeper) look(ctx context.Context) (next time.Time, err error) {
	next = time.Now().Add(lookEvery)
	settings, err := k.s.Queue.Settings(ctx, scheduleSpace)
	if err != nil {
		return next, err
	}
	for _, v := range settings {
		var kept keptSchedule
		if err := json.Unmarshal(v.Body, &kept); err != nil {
			k.s.Log.Error("a stored schedule cannot be read", "schedule", v.Name, "err", err)
			continue
		}
		then, err := k.one(ctx, v.Name, &kept)
		if err != nil {
			return next, err
		}
		if !then.IsZero() && then.Before(next) {
			next = then
		}
	}
	return next, nil
}

// one asks for what is due of a schedule. It asks before it notes that it has, under a request id that the time gives: so each is asked
// for once, wherever it is cut off, and whoever else does the same. It gives the time that is due next.
func (k timekeeper) one(ctx context.Context, name string, kept *keptSchedule) (next time.Time, err error) {
	at, zone, err := times(&kept.ScheduleSpec)
	if err != nil {
		k.s.Log.Error("a schedule cannot be run", "schedule", name, "err", err)
		return next, nil
	}
	now := time.Now()
	place := k.s.placeOf(ctx, name, kept)
	first := at.Next(place.Done.In(zone))
	if first.IsZero() || first.After(now) {
		return first, nil
	}
	var due []time.Time
	if kept.Missed != api.MissedAll {
		first = newest(at, zone, first, now)
	}
	last := first
	for t := first; !t.IsZero() && !t.After(now); t = at.Next(t) {
		if last = t; kept.Missed == api.MissedAll || now.Sub(t) <= lateness {
			due = append(due, t)
		}
		if len(due) == madeUp {
			break // The rest is due the next time.
		}
	}
	switch {
	case kept.Missed == api.MissedAll:
	case len(due) > 0:
		due = due[len(due)-1:] // Of several that are late, those before the last are missed.
	case kept.Missed == api.MissedOnce:
		due = append(due, last)
	}
	if kept.Paused {
		due = nil
	}
	for _, t := range due {
		if err := k.fire(ctx, name, kept, &place, t); err != nil {
			return next, err
		}
	}
	next = at.Next(last)
	if place.Done = last.UTC(); len(due) > 0 {
		return next, nil // It is noted with the last.
	}
	return next, k.note(ctx, name, &place)
}

// newest skips what is long past: it gives a time of the schedule from first on, such that few are left up to now, and the last is
// among them.
func newest(at cron.Schedule, zone *time.Location, first, now time.Time) time.Time {
	for back := lateness; now.Add(-back).After(first); back *= 2 {
		if t := at.Next(now.Add(-back).In(zone)); !t.IsZero() && !t.After(now) {
			return t
		}
	}
	return first
}

// fire asks for the build of one time. What the engine refuses is noted, and not tried again: the next time comes.
func (k timekeeper) fire(ctx context.Context, name string, kept *keptSchedule, place *keptPlace, t time.Time) error {
	sum := sha256.Sum256([]byte("schedule\x00" + kept.Life + "\x00" + t.UTC().Format(time.RFC3339Nano)))
	var id job.ID
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	receipt, err := k.s.submitScheduled(queue.WithRequest(ctx, id), name, kept)
	var retry *queue.RetryError
	if errors.As(err, &retry) || errors.Is(err, queue.ErrClosed) || ctx.Err() != nil {
		return err
	}
	place.Done, place.Last, place.Build, place.Problem = t.UTC(), t.UTC(), receipt.Build, ""
	if err != nil {
		place.Problem = err.Error()
		k.s.Log.Error("a schedule asked for what is refused", "schedule", name, "err", err)
	} else {
		k.s.Log.Info("a schedule asked for a build", "schedule", name, "build", receipt.Build)
	}
	return k.note(ctx, name, place)
}

func (k timekeeper) note(ctx context.Context, name string, place *keptPlace) error {
	body, err := json.Marshal(place)
	if err != nil {
		return err
	}
	return k.s.Queue.PutSetting(ctx, job.Setting{Space: placeSpace, Name: name, Body: body}, job.Always)
}
