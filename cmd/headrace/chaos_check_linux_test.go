//go:build chaos

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// settle lets all that was asked for come to its end.
func (s *storm) settle() {
	s.t.Helper()
	close(s.enough)
	s.asking.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
	await(s.t, "no job is left", func() bool { n := s.lists(); return n["jobs blocked"]+n["jobs ready"]+n["jobs running"] == 0 })
	s.agree("once all has ended")
}

// stillLife has jobs stand still in each state that lasts, and compares what the gauges say of them with the lists and with the store, before
// and after the server is killed.
func (s *storm) stillLife() {
	s.t.Helper()
	ctx, cancel := s.within(2 * time.Minute)
	defer cancel()
	b := &asked{spec: api.Submission{BuildSpec: api.BuildSpec{Name: "still"}}}
	for i := range stormWorkers*stormSlots + 4 {
		p := &role{name: fmt.Sprintf("still-%d", i), way: behaves}
		spec := p.spec()
		spec.Args = []byte(fmt.Sprintf(`{"shell": %q}`, p.script()+"while [ ! -e go ]; do sleep 0.05; done"))
		s.ledger.play(p)
		b.spec.Jobs = append(b.spec.Jobs, spec)
	}
	for i := range 7 {
		p := &role{name: fmt.Sprintf("after-%d", i), way: behaves}
		spec := p.spec()
		spec.Needs = []api.Need{{Job: fmt.Sprintf("still-%d", i)}}
		s.ledger.play(p)
		b.spec.Jobs = append(b.spec.Jobs, spec)
	}
	receipt, err := s.client.Submit(ctx, &b.spec)
	if err != nil {
		s.t.Fatal(err)
	}
	b.id = receipt.Build
	for _, j := range receipt.Jobs {
		b.jobs = append(b.jobs, j.ID)
	}
	s.ledger.book(b)
	full := func() bool { return s.lists()["jobs running"] == stormWorkers*stormSlots }
	await(s.t, "each slot is taken", full)
	before := s.agree("while jobs stand still")
	s.server.kill()
	s.inStore(map[string]float64{"unfinished": stormWorkers*stormSlots + 4 + 7, "running": stormWorkers * stormSlots, "builds": 1})
	s.server.start()
	after := s.agree("after the server was killed while jobs stood still")
	if !maps.Equal(before, after) {
		s.t.Errorf("gauges before the kill: %v\nafter: %v", before, after)
	}
	write(s.t, s.dir, "go", "")
	if err := (&asker{s: s, name: "still"}).await(b); err != nil {
		s.t.Error(err)
	}
	await(s.t, "no job is left", func() bool { return s.lists()["jobs running"] == 0 })
	s.agree("at the end")
}

// lists counts what the API lists.
func (s *storm) lists() map[string]float64 {
	s.t.Helper()
	ctx, cancel := s.within(2 * time.Minute)
	defer cancel()
	n := map[string]float64{}
	must := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for _, state := range []string{"blocked", "ready", "running"} {
		page, err := s.client.Jobs(ctx, api.JobFilter{State: state, Limit: 1000})
		must(err)
		n["jobs "+state] = float64(len(page.Items))
	}
	builds, err := s.client.Builds(ctx, api.BuildFilter{Live: true, Limit: 1000})
	must(err)
	for i := range builds.Items {
		n["builds "+builds.Items[i].State]++
	}
	workers, err := s.client.Workers(ctx)
	must(err)
	n["workers known"] = float64(len(workers))
	for i := range workers {
		w := &workers[i]
		n["worker_slots"] += float64(w.Slots)
		n["worker_slots_used"] += float64(len(w.Running))
		if w.Drained {
			n["workers drained"]++
		}
		if w.Until != nil {
			n["workers quarantined"]++
		}
	}
	tokens, err := s.client.Tokens(ctx)
	must(err)
	n["tokens"] = float64(len(tokens))
	maps.DeleteFunc(n, func(_ string, v float64) bool { return v == 0 })
	return n
}

var gaugeLine = regexp.MustCompile(`^headrace_(jobs|builds|workers|worker_slots|worker_slots_used|tokens)(?:\{(.*)\})? (\S+)$`)

// gauges reads what /metrics says, added up over what is not compared; zeros are left out.
func (s *storm) gauges() map[string]float64 {
	s.t.Helper()
	ctx, cancel := s.within(time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://headrace/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.client.Token)
	answer, err := s.client.HTTP.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close() // Only read from.
	n, found := map[string]float64{}, false
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		m := gaugeLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		found = true
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		name := m[1]
		if _, state, ok := strings.Cut(m[2], `state="`); ok {
			name += " " + strings.TrimSuffix(state, `"`)
		}
		if v < 0 {
			s.t.Errorf("a gauge below 0: %s", lines.Text())
		}
		n[name] += v
	}
	if !found {
		s.t.Fatalf("there are no gauges: %s", answer.Status)
	}
	maps.DeleteFunc(n, func(_ string, v float64) bool { return v == 0 })
	return n
}

// agree checks that the gauges say what the lists do, where nothing moves: so it is so after a moment at the latest.
func (s *storm) agree(when string) map[string]float64 {
	s.t.Helper()
	var gauges, lists map[string]float64
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		lists = s.lists() // It waits until the server is there.
		if gauges = s.gauges(); maps.Equal(gauges, lists) {
			return gauges
		}
	}
	s.t.Errorf("%s the gauges are\n%v\nthe lists have\n%v", when, gauges, lists)
	return gauges
}

// where names the store.
func (s *storm) where() string {
	if s.store != "" {
		return s.store
	}
	return filepath.Join(s.dir, "data")
}

// address gives where the store is.
func (s *storm) address() *address {
	s.t.Helper()
	a, err := addressOf(nil, s.where())
	if err != nil {
		s.t.Fatal(err)
	}
	return &a
}

// inStore checks what the store holds that has not ended, while no server has it.
func (s *storm) inStore(want map[string]float64) {
	s.t.Helper()
	list := s.stored()
	n := map[string]float64{}
	for i := range list {
		if list[i].End == nil {
			n["unfinished"]++
		}
		if list[i].Running || list[i].Held {
			n["running"]++
		}
	}
	r, err := s.address().open(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close() // Only read from.
	builds, err := r.Builds(s.t.Context(), queue.BuildFilter{Live: true, Limit: 1000})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(builds) > 0 {
		n["builds"] = float64(len(builds))
	}
	if !maps.Equal(n, want) {
		s.t.Errorf("the store holds %v, want %v", n, want)
	}
}

// stored reads all jobs from the store.
func (s *storm) stored() (all []job.Record) {
	s.t.Helper()
	r, err := s.address().open(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close() // Only read from.
	for f := (queue.JobFilter{Limit: 10_000}); ; f.Before = all[len(all)-1].Seq {
		page, err := r.Jobs(s.t.Context(), f)
		if err != nil {
			s.t.Fatal(err)
		}
		if all = append(all, page...); len(page) < f.Limit {
			return all
		}
	}
}

// audit ends the farm, and compares what the clients were told, what the jobs noted and what is stored.
func (s *storm) audit() {
	s.t.Helper()
	for i := range s.ledger.builds {
		s.auditBuild(s.ledger.builds[i])
	}
	logs := s.auditJobs()
	s.auditFiles()
	for _, u := range s.units {
		u.leaving = true
		u.signal(syscall.SIGTERM)
	}
	for _, u := range s.units {
		u.awaitEnd()
		u.expected()
		s.emptied(u.name)
	}
	if n := s.gauges(); n["workers signed-off"] != stormWorkers || n["workers known"] != stormWorkers || n["worker_slots_used"] != 0 {
		s.t.Errorf("once the workers have ended, the gauges are %v", n)
	}
	s.server.kill()
	s.alone()
	s.inStore(map[string]float64{})
	out := tell(s.t, s.dir, exitOK, "check", "--store", s.where())
	s.t.Logf("chaos: %d builds, %d jobs, %d logs; headrace check: %s", len(s.ledger.builds), len(s.stored()), logs, strings.TrimSpace(out))
}

// emptied checks that a worker which has ended in order keeps nothing.
func (s *storm) emptied(name string) {
	s.t.Helper()
	home, err := worker.OpenHome(filepath.Join(s.dir, name), name)
	if err != nil {
		s.t.Error(err)
		return
	}
	if err := home.Close(); err != nil {
		s.t.Error(err)
	}
	for _, pattern := range []string{"attempts/*", "logs/*/*"} {
		left, err := filepath.Glob(filepath.Join(s.dir, name, pattern))
		if err != nil || len(left) > 0 {
			s.t.Errorf("worker %s has ended, and keeps %q, %v", name, left, err)
		}
	}
}

// auditBuild checks that a build is there and has ended, as it was told to have, and as it had to.
func (s *storm) auditBuild(b *asked) {
	s.t.Helper()
	ctx, cancel := s.within(time.Minute)
	defer cancel()
	now, err := s.client.Build(ctx, b.id)
	if err != nil || now.Ended == nil {
		s.t.Errorf("build %s %s was acknowledged; now %+v, %v", b.id, b.spec.Name, now, err)
		return
	}
	if b.ended != nil && (now.Outcome != b.ended.Outcome || !now.Ended.Equal(*b.ended.Ended)) {
		s.t.Errorf("build %s was told to have ended %s at %v, and has %s at %v", b.id, b.ended.Outcome, b.ended.Ended, now.Outcome, now.Ended)
	}
	page, err := s.client.Jobs(ctx, api.JobFilter{Build: b.id, Limit: 1000})
	if err != nil {
		s.t.Fatal(err)
	}
	have := map[job.ID]*api.Job{}
	for i := range page.Items {
		j := &page.Items[i]
		have[j.ID] = j
		if told, ok := b.ends[j.ID]; ok && told != [2]string{j.Outcome, fmt.Sprint(j.Attempts)} {
			s.t.Errorf("job %s %s was told to have ended as %v, and has as %s, %d", j.ID, j.Name, told, j.Outcome, j.Attempts)
		}
	}
	for i, id := range b.jobs {
		if have[id] == nil {
			s.t.Errorf("job %d of build %s was acknowledged, and is not there", i, b.id)
			return
		}
	}
	if !b.touched {
		s.foretold(b, &now, have)
	}
}

// foretold checks that a build nobody touched ended as it had to.
func (s *storm) foretold(b *asked, now *api.Build, have map[job.ID]*api.Job) {
	s.t.Helper()
	ends, well := map[string]string{}, true // by name
	for i, id := range b.jobs {
		spec, j := &b.spec.Jobs[i], have[id]
		want := job.Succeeded.String()
		if p := s.ledger.plays[spec.Name]; p.way == fails {
			want = job.Failed.String()
		}
		for _, n := range spec.Needs {
			if (n.Policy == "" || n.Policy == "success") && ends[n.Job] != job.Succeeded.String() {
				want = job.DependencyFailed.String()
			}
		}
		// What the end of its build finds unfinished, and nobody else needs, is dropped: not begun, or not tried again.
		if j.Outcome != want && spec.Role != api.RoleOptional {
			s.t.Errorf("job %s %s %s ended as %s %s %q, want %s", id, spec.Name, spec.Role, j.Outcome, j.Detail, j.Message, want)
		}
		ends[spec.Name] = j.Outcome
		if spec.Role == "" && j.Outcome != job.Succeeded.String() {
			well = false
		}
	}
	if well != (now.Outcome == job.Succeeded.String()) {
		s.t.Errorf("build %s %s ended as %s; all its targets succeeded: %v", b.id, b.spec.Name, now.Outcome, well)
	}
}

// auditJobs checks the attempts of all jobs and their logs.
func (s *storm) auditJobs() (logs int) {
	s.t.Helper()
	ctx, cancel := s.within(10 * time.Minute)
	defer cancel()
	list := s.stored()
	touched := map[job.ID]bool{} // Their builds may have ended before them: then they are not tried again.
	for _, b := range s.ledger.builds {
		for _, id := range b.jobs {
			touched[id] = touched[id] || b.touched
		}
	}
	for i := range list {
		rec := &list[i]
		p := s.ledger.plays[rec.Spec.Name]
		attempts, err := s.client.Attempts(ctx, rec.Spec.ID)
		if err != nil || p == nil || rec.End == nil {
			s.t.Errorf("job %s %s: played: %v, ended: %v, attempts: %v", rec.Spec.ID, rec.Spec.Name, p != nil, rec.End != nil, err)
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "ran", rec.Spec.ID.String()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.t.Fatal(err)
		}
		noted := map[string]string{} // by attempt
		for _, stint := range stints(string(text)) {
			_, n, _ := strings.Cut(stint.who, ".")
			noted[n] = stint.did
			if at, err := strconv.Atoi(n); err != nil || at < 1 || at > len(attempts) {
				s.t.Errorf("job %s %s: attempt %s ran, and is not stored", rec.Spec.ID, rec.Spec.Name, n)
			}
		}
		if quiet, ok := s.ledger.quiet[rec.Spec.ID]; ok && quiet != string(text) {
			s.t.Errorf("job %s %s was told to have succeeded, and ran on or again:\n%s\nthen\n%s", rec.Spec.ID, rec.Spec.Name, quiet, text)
		}
		failures := int32(0)
		for k := range attempts {
			a := &attempts[k]
			if a.Outcome == job.Failed.String() {
				failures++
			}
			if err := judge(p, rec, a, k == len(attempts)-1, noted[fmt.Sprint(k+1)]); err != nil {
				s.t.Errorf("job %s %s, attempt %d of %d, on %s, %s %s %q: %v", rec.Spec.ID, rec.Spec.Name, k+1, len(attempts), a.Worker, a.Outcome, a.Detail, a.Message, err)
			}
			logs++
			s.auditLog(p, rec.Spec.ID, a)
		}
		most := max(p.retries, 0) + 1
		if p.way == learns {
			most = 1
		} else if p.way == behaves {
			most = 0
		}
		if failures > most || p.way == fails && rec.End.Outcome == job.Failed && failures != most && !p.optional && !touched[rec.Spec.ID] {
			s.t.Errorf("job %s %s failed %d times, want %d", rec.Spec.ID, rec.Spec.Name, failures, most)
		}
	}
	return logs
}

// judge checks how one attempt ended, against what it noted.
func judge(p *role, rec *job.Record, a *api.Attempt, last bool, noted string) error {
	whole := "start " + strings.Repeat("tick ", p.ticks) + "end "
	switch {
	case a.Ended == nil:
		return errors.New("it has not ended")
	case a.Outcome == job.Succeeded.String():
		if !last || rec.End.Outcome != job.Succeeded {
			return fmt.Errorf("the job went on, to %v", rec.End.Outcome)
		}
		if noted != whole {
			return fmt.Errorf("it noted %q, want %q", noted, whole)
		}
	case last && rec.End.Outcome == job.Succeeded:
		return errors.New("the job succeeded without it")
	case a.Outcome == job.Failed.String():
		if p.way == behaves {
			return errors.New("it had no reason to fail")
		}
		if noted != whole {
			return fmt.Errorf("it noted %q, want %q", noted, whole)
		}
	case a.Outcome == job.Cancelled.String():
		if rec.End.Outcome != job.Cancelled {
			return fmt.Errorf("the job ended as %v", rec.End.Outcome)
		}
	case a.Outcome != job.Aborted.String() || a.Detail != job.HandedBack.String():
		return errors.New("it should have been handed back")
	}
	return nil
}

// auditLog checks that the log of an attempt that came to its end is whole, and that another is the beginning of one.
func (s *storm) auditLog(p *role, id job.ID, a *api.Attempt) {
	s.t.Helper()
	ctx, cancel := s.within(time.Minute)
	defer cancel()
	text, want := []byte(nil), p.log(a.Number)
	r, _, err := s.client.Log(ctx, id, api.LogOptions{Attempt: a.Number})
	if err == nil {
		text, err = io.ReadAll(r)
		err = errors.Join(err, r.Close())
	}
	written, notes := parted(string(text))
	complete := a.Outcome == job.Succeeded.String() || a.Outcome == job.Failed.String()
	at := fmt.Sprintf("log of job %s %s, attempt %d on %s, %s %s", id, p.name, a.Number, a.Worker, a.Outcome, a.Detail)
	switch {
	case err != nil && (complete || !errors.Is(err, api.ErrGone) && !errors.Is(err, job.ErrNotFound)):
		s.t.Errorf("%s: %v", at, err)
	case complete && written != want:
		s.t.Errorf("%s: has %d bytes, want %d; its end: %q", at, len(written), len(want), written[max(len(written)-60, 0):])
	case a.Outcome == job.Failed.String() && !strings.HasSuffix(notes, "headrace: failed: exit code 3\n"):
		s.t.Errorf("%s: lacks its last line; its notes are %q", at, notes)
	case !complete && !strings.HasPrefix(want, strings.TrimSuffix(strings.TrimSuffix(written, "Terminated\n"), "\n")):
		s.t.Errorf("%s: is no beginning of what it writes: %d bytes, its end: %q", at, len(written), written[max(len(written)-200, 0):])
	}
}

// parted tells what a job wrote from what headrace notes in its log.
func parted(log string) (written, notes string) {
	var w, n strings.Builder
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "headrace: ") {
			n.WriteString(line)
		} else {
			w.WriteString(line)
		}
	}
	return w.String(), n.String()
}

// stint is what one attempt noted while no other did.
type stint struct{ who, did string }

// stints reads the file of a job, or of a key.
func stints(text string) (list []stint) {
	for line := range strings.Lines(text) {
		who, did, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if len(list) == 0 || list[len(list)-1].who != who {
			list = append(list, stint{who: who})
		}
		if did != "back" {
			list[len(list)-1].did += did + " "
		}
	}
	return list
}

// auditFiles checks that no two attempts of a job, and no two jobs of a key, overlapped, and that none began twice.
func (s *storm) auditFiles() {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "ran", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		var seen []string
		for _, st := range stints(string(text)) {
			if slices.Contains(seen, st.who) || !strings.HasPrefix(st.did, "start ") || strings.Count(st.did, "start ") > 1 {
				s.t.Errorf("%s: attempt %s began twice, or another ran between its beginning and its end:\n%s", filepath.Base(path), st.who, text)
				break
			}
			seen = append(seen, st.who)
		}
	}
}
