package server_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// gaugeLine is a line of /metrics that is compared with lists.
var gaugeLine = regexp.MustCompile(`(?m)^headrace_(jobs|builds|workers|worker_slots|worker_slots_used|tokens)(?:\{(.*)\})? (\S+)$`)

// gauges reads what /metrics tells, added up by state; zeros are left out.
func (l *lab) gauges() map[string]int {
	l.t.Helper()
	status, text := l.call("GET", "/metrics", "")
	if status != 200 {
		l.t.Fatalf("/metrics: %d %s", status, text)
	}
	n := map[string]int{}
	for _, m := range gaugeLine.FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		if _, state, ok := strings.Cut(m[2], `state="`); ok {
			name += " " + strings.TrimSuffix(state, `"`)
		}
		v, err := strconv.Atoi(m[3])
		l.must(err)
		n[name] += v
	}
	if len(n) == 0 {
		l.t.Fatalf("there are no gauges:\n%s", text)
	}
	maps.DeleteFunc(n, func(_ string, v int) bool { return v == 0 })
	return n
}

// counted counts what the lists have.
func (l *lab) counted() map[string]int {
	l.t.Helper()
	n := map[string]int{}
	ctx := l.t.Context()
	for _, state := range []string{"blocked", "ready", "running"} {
		page, err := l.Jobs(ctx, api.JobFilter{State: state, Limit: 1000})
		l.must(err)
		n["jobs "+state] = len(page.Items)
	}
	builds, err := l.Builds(ctx, api.BuildFilter{Live: true, Limit: 1000})
	l.must(err)
	for i := range builds.Items {
		n["builds "+builds.Items[i].State]++
	}
	workers, err := l.Workers(ctx)
	l.must(err)
	n["workers known"] = len(workers)
	for i := range workers {
		n["worker_slots"] += int(workers[i].Slots)
		n["worker_slots_used"] += len(workers[i].Running)
		if workers[i].Drained {
			n["workers drained"]++
		}
	}
	tokens, err := l.Tokens(ctx)
	l.must(err)
	n["tokens"] = len(tokens)
	maps.DeleteFunc(n, func(_ string, v int) bool { return v == 0 })
	return n
}

// Gauges are what the lists tell, whatever has happened, and however often another server took over.
func TestGaugesDoNotDrift(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 23))
			l := guardedLab(t)
			ctx := t.Context()
			var crew []*syncer
			has := map[*syncer][]api.Start{}
			for i := range 3 {
				crew = append(crew, &syncer{lab: l, name: fmt.Sprint("w", i), session: newID(), spec: spec(int32(1 + i))})
				crew[i].sync(api.Sync{})
			}
			var builds []job.ID
			ended := func(err error) {
				if !errors.Is(err, job.ErrEnded) {
					l.must(err)
				}
			}
			for step := range 120 {
				w := crew[rnd.IntN(len(crew))]
				switch n := rnd.IntN(12); {
				case n < 3:
					jobs := []api.JobSpec{{Name: "a"}, {Name: "b", Needs: []api.Need{{Job: "a"}}}, {Name: "c", Role: api.RoleOptional}, {Name: "d", System: "none"}}
					builds = append(builds, l.submit(jobs[:1+rnd.IntN(len(jobs))]...).Build)
				case n < 6:
					has[w] = append(has[w], w.sync(api.Sync{Want: 1 + rnd.IntN(3), Running: running(has[w]...)}).Start...)
				case n < 9 && len(has[w]) > 0:
					s := has[w][0]
					has[w] = has[w][1:]
					outcome := []string{"succeeded", "failed", "aborted"}[rnd.IntN(3)]
					w.sync(api.Sync{Running: running(has[w]...), Finished: []api.Finished{{Lease: s.Lease, Outcome: outcome}}})
				case n == 9 && len(builds) > 0:
					ended(l.CancelBuild(ctx, builds[rnd.IntN(len(builds))], rnd.IntN(2) == 0))
				case n == 10:
					l.must(l.Drain(ctx, w.name, rnd.IntN(2) == 0))
				case n == 11 && step%3 == 0:
					l.restart()
				}
				if gauges, lists := l.gauges(), l.counted(); !sameButStopping(gauges, lists) {
					t.Fatalf("step %d: the gauges are\n%v\nthe lists have\n%v", step, gauges, lists)
				}
			}
			if g := l.gauges(); g["jobs ready"]+g["jobs running"] == 0 || len(builds) < 10 {
				t.Errorf("next to nothing happened: %v", g)
			}
		})
	}
}

// sameButStopping compares gauges with lists; of attempts that are being stopped, whose jobs are done, lists of jobs tell nothing.
func sameButStopping(gauges, lists map[string]int) bool {
	delete(gauges, "jobs done")
	return maps.Equal(gauges, lists)
}
