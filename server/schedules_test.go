package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/memory"
)

// clockLab is a server in virtual time, which is called without a network.
type clockLab struct {
	t       *testing.T
	store   *memory.Store
	queue   *queue.Queue
	server  *server.Server
	handler http.Handler
	stop    func()
}

func inClockLab(t *testing.T, test func(t *testing.T, l *clockLab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &clockLab{t: t, store: memory.New()}
		l.start()
		test(t, l)
		l.stop()
	})
}

func (l *clockLab) start() {
	l.t.Helper()
	var err error
	if l.queue, err = queue.Open(queue.Config{Store: l.store, History: l.store}); err != nil {
		l.t.Fatal(err)
	}
	s, err := server.New(server.Config{Queue: l.queue, History: l.store, Failures: l.store, Open: true})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := l.queue.Run(ctx); err != nil {
			l.t.Error(err)
		}
	})
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			l.t.Error(err)
		}
	})
	l.server, l.handler = s, s.Handler()
	l.stop = func() { s.Close(); cancel(); run.Wait() }
	synctest.Wait()
}

// call makes a request that must succeed, and reads its answer into v.
func (l *clockLab) call(method, path string, body, v any) {
	l.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		l.t.Fatal(err)
	}
	r := httptest.NewRequest(method, "/api/v1"+path, bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	if w.Code/100 != 2 {
		l.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *clockLab) set(name string, spec api.ScheduleSpec) {
	l.t.Helper()
	spec.Submission = api.Submission{BuildSpec: api.BuildSpec{Name: name}, Jobs: []api.JobSpec{{Name: "j"}}}
	l.call("PUT", "/schedules/"+name, spec, nil)
}

// asked tells when builds of that name were asked for, the first first.
func (l *clockLab) asked(name string) (at []string) {
	l.t.Helper()
	builds, err := l.store.Builds(l.t.Context(), queue.BuildFilter{Name: name})
	if err != nil {
		l.t.Fatal(err)
	}
	for i := len(builds) - 1; i >= 0; i-- {
		at = append(at, builds[i].At.Std().Truncate(time.Minute).Format("02 15:04"))
	}
	return at
}

// away lets time pass while no server runs. Runs in a synctest bubble.
func (l *clockLab) away(d time.Duration) {
	l.t.Helper()
	l.stop()
	time.Sleep(d)
	l.start()
}

// wait lets time pass: the clock begins at midnight, 2000-01-01, UTC. Runs in a synctest bubble.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Each time is asked for once, also over restarts, and what was missed as the schedule says.
func TestScheduleOverRestarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		missed string
		want   []string
	}{
		{api.MissedSkip, []string{"01 01:00", "01 02:00", "01 06:00"}},
		{api.MissedOnce, []string{"01 01:00", "01 02:00", "01 05:30", "01 06:00"}},
		{api.MissedAll, []string{"01 01:00", "01 02:00", "01 05:30", "01 05:30", "01 05:30", "01 06:00"}},
		{"", []string{"01 01:00", "01 02:00", "01 05:30", "01 06:00"}},
	} {
		t.Run("missed "+c.missed, func(t *testing.T) {
			t.Parallel()
			inClockLab(t, func(t *testing.T, l *clockLab) {
				l.set("hourly", api.ScheduleSpec{Cron: "0 * * * *", Missed: c.missed})
				wait(time.Hour + time.Minute)
				l.stop()
				l.start()
				wait(time.Hour + 10*time.Minute)
				l.away(3*time.Hour + 19*time.Minute) // to half past five
				wait(time.Second)
				l.stop()
				l.start()
				wait(40 * time.Minute)
				if diff := cmp.Diff(c.want, l.asked("hourly")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A schedule goes by the clock of its zone, also where that is set forward and back.
func TestScheduleInItsZone(t *testing.T) {
	t.Parallel()
	inClockLab(t, func(t *testing.T, l *clockLab) {
		l.set("local", api.ScheduleSpec{Cron: "30 9 25-27 3 *", Zone: "Europe/Berlin", Missed: api.MissedAll})
		var s api.Schedule
		l.call("GET", "/schedules/local", nil, &s)
		var next []string
		for _, n := range s.Next {
			next = append(next, n.UTC().Format("2006-01-02 15:04"))
		}
		// In 2000 the clocks of Berlin were set forward on 26 March.
		want := []string{"2000-03-25 08:30", "2000-03-26 07:30", "2000-03-27 07:30"}
		if diff := cmp.Diff(want, next); diff != "" {
			t.Error(diff)
		}
		l.away(84 * 24 * time.Hour) // to 25 March
		wait(3 * 24 * time.Hour)
		if diff := cmp.Diff([]string{"25 08:30", "26 07:30", "27 07:30"}, l.asked("local")); diff != "" {
			t.Error(diff)
		}
	})
}

// A change counts from when it is made; one that is paused or removed asks for nothing; one that is made anew begins anew.
func TestScheduleIsChanged(t *testing.T) {
	t.Parallel()
	inClockLab(t, func(t *testing.T, l *clockLab) {
		l.set("s", api.ScheduleSpec{Cron: "@hourly"})
		wait(90 * time.Minute)
		l.set("s", api.ScheduleSpec{Cron: "*/20 * * * *"})
		wait(35 * time.Minute) // 02:05
		l.set("s", api.ScheduleSpec{Cron: "@hourly", Paused: true})
		wait(2 * time.Hour)
		l.set("s", api.ScheduleSpec{Cron: "@hourly"})
		wait(time.Hour)
		l.call("DELETE", "/schedules/s", nil, nil)
		wait(2 * time.Hour)
		if diff := cmp.Diff([]string{"01 01:00", "01 01:40", "01 02:00", "01 05:00"}, l.asked("s")); diff != "" {
			t.Error(diff)
		}
		l.set("s", api.ScheduleSpec{Cron: "@hourly", Missed: api.MissedAll})
		wait(time.Minute)
		if got := l.asked("s"); len(got) != 4 {
			t.Errorf("made anew, it asks for what was before: %q", got)
		}
		var r api.Receipt
		l.call("POST", "/schedules/s/run", nil, &r)
		if got := l.asked("s"); len(got) != 5 || len(r.Jobs) != 1 {
			t.Errorf("run at once: %q, %+v", got, r)
		}
	})
}

// A schedule that was away for long, and asks every second, is not counted up for long.
func TestScheduleAfterALongTime(t *testing.T) {
	t.Parallel()
	inClockLab(t, func(t *testing.T, l *clockLab) {
		l.set("s", api.ScheduleSpec{Cron: "@every 1s", Missed: api.MissedOnce})
		l.away(20 * 365 * 24 * time.Hour)
		wait(5 * time.Second)
		if got := l.asked("s"); len(got) < 1 || len(got) > 66 {
			t.Errorf("asked %d times", len(got))
		}
	})
}

// What is wrong with a schedule is named, and nothing is kept of it.
func TestSchedulesThatAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	good := `"submission":{"name":"b","jobs":[{}]}`
	for _, c := range []struct{ name, body, where string }{
		{"no cron", `{` + good + `}`, "body"},
		{"a wrong cron", `{"cron":"61 * * * *",` + good + `}`, "body.cron"},
		{"a time that never comes", `{"cron":"0 0 30 2 *",` + good + `}`, "body.cron"},
		{"a zone in the cron", `{"cron":"TZ=UTC @daily",` + good + `}`, "body.cron"},
		{"a wrong zone", `{"cron":"@daily","zone":"Mars/Olympus",` + good + `}`, "body.zone"},
		{"a wrong policy", `{"cron":"@daily","missed":"maybe",` + good + `}`, "body.missed"},
		{"a wrong need", `{"cron":"@daily","submission":{"name":"b","jobs":[{"needs":[{"job":"x"}]}]}}`, "body.submission.jobs[0].needs[0].job"},
		{"an id", `{"cron":"@daily","submission":{"name":"b","jobs":[{"id":"0190163d-8694-739b-aea5-966c26f8ad91"}]}}`, "body.submission.jobs[0].id"},
		{"too large", `{"cron":"@daily","submission":{"name":"b","jobs":[{"args":"` + strings.Repeat("x", job.MaxSettingBody) + `"}]}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := l.problem("PUT", "/api/v1/schedules/s", c.body)
			if c.where == "" && p.Status != http.StatusRequestEntityTooLarge || c.where != "" && (len(p.Errors) == 0 || p.Errors[0].Location != c.where) {
				t.Errorf("told %d %v, want %s", p.Status, p.Errors, c.where)
			}
		})
	}
	list, err := l.Schedules(t.Context())
	if err != nil || len(list) != 0 {
		t.Errorf("kept %+v, %v", list, err)
	}
}

// A server that dies between asking and noting that it has asks once all the same.
func TestScheduleThatIsCutOff(t *testing.T) {
	t.Parallel()
	inClockLab(t, func(t *testing.T, l *clockLab) {
		l.set("s", api.ScheduleSpec{Cron: "@hourly", Missed: api.MissedAll})
		wait(time.Hour + time.Minute)
		// What it noted is lost, as if it had died before.
		if err := l.queue.RemoveSetting(t.Context(), "schedule-place", "s"); err != nil {
			t.Fatal(err)
		}
		l.away(0)
		wait(5 * time.Minute)
		if got := l.asked("s"); len(got) != 1 {
			t.Errorf("asked %q", got)
		}
	})
}

// Of times that pass quickly the last is made up for, or none, however short the server was away; all are only where that is wished for.
func TestScheduleOfSecondsOverARestart(t *testing.T) {
	t.Parallel()
	for missed, most := range map[string]int{api.MissedSkip: 1, api.MissedOnce: 1, api.MissedAll: 6} {
		t.Run(missed, func(t *testing.T) {
			t.Parallel()
			inClockLab(t, func(t *testing.T, l *clockLab) {
				l.set("often", api.ScheduleSpec{Cron: "@every 5s", Missed: missed})
				wait(12 * time.Second)
				before := len(l.asked("often"))
				l.away(30 * time.Second)
				wait(time.Second)
				if made := len(l.asked("often")) - before; made < 1 || made > most || missed == api.MissedAll && made != most {
					t.Errorf("%d builds after half a minute, want %d at most", made, most)
				}
			})
		})
	}
}

// Cron knows Sunday by two numbers.
func TestSundays(t *testing.T) {
	t.Parallel()
	for text, next := range map[string]string{
		"0 0 * * 7": "0 0 * * 0", "0 0 * * 0-7": "0 0 * * 0,1,2,3,4,5,6,0", "0 0 * * 5-7": "0 0 * * 5,6,0", "0 0 * * 1-7/3": "0 0 * * 1,4,0",
		"0 0 * * 1,7": "0 0 * * 1,0", "0 0 7 7 *": "0 0 7 7 *", "0 0 * * mon-fri": "0 0 * * mon-fri", "@daily": "@daily",
	} {
		l := newLab(t)
		spec := api.ScheduleSpec{Cron: text, Submission: api.Submission{BuildSpec: api.BuildSpec{Name: "n"}, Jobs: []api.JobSpec{}}}
		made, err := l.SetSchedule(t.Context(), "a", &spec)
		l.must(err)
		spec.Cron = next
		same, err := l.SetSchedule(t.Context(), "b", &spec)
		l.must(err)
		if !cmp.Equal(made.Next, same.Next) || made.Cron != text {
			t.Errorf("%q asks at %v, %q at %v", made.Cron, made.Next, next, same.Next)
		}
	}
	l := newLab(t)
	for _, text := range []string{"0 0 * * 8", "0 0 * * 0-8", "@every 0s", "@every -5s", "@every 1ms", "@every soon", "7 7 7 7"} {
		p := l.problem("PUT", "/api/v1/schedules/x", `{"cron":"`+text+`","submission":{"name":"n","jobs":[]}}`)
		if len(p.Errors) != 1 || p.Errors[0].Location != "body.cron" {
			t.Errorf("%q: told %+v", text, p)
		}
	}
}
