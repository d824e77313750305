//go:build chaos

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/worker"
)

// How a job of the storm behaves.
const (
	behaves = "ok"
	fails   = "fail"  // each time
	learns  = "learn" // it fails once, and then succeeds
)

// role is what a job of the storm does: known by its name.
type role struct {
	name  string
	way   string
	ticks int
	bulk  int // lines that it writes at its beginning
	// key is its identity over builds; "": it has none.
	key     string
	back    bool // it leaves a process behind
	retries int32
	pause   string // between ticks, in seconds
	// optional: once its build has ended, it is not tried again.
	optional bool
}

// script notes each step in the job's own file, which no two attempts may have at once, in that of its key, and at the pulse.
func (p *role) script() string {
	say := `say() { echo "$HEADRACE_JOB_ID.$HEADRACE_ATTEMPT $1" >> "ran/$HEADRACE_JOB_ID"; %secho > beats; }; `
	key := ""
	if p.key != "" {
		key = fmt.Sprintf(`echo "$HEADRACE_JOB_ID.$HEADRACE_ATTEMPT $1" >> ran/key-%s; `, p.key)
	}
	var b strings.Builder
	fmt.Fprintf(&b, say, key)
	b.WriteString("say start; echo \"this is $HEADRACE_JOB, attempt $HEADRACE_ATTEMPT\"; ")
	if p.bulk > 0 {
		fmt.Fprintf(&b, "seq 1 %d; ", p.bulk)
	}
	if p.back {
		b.WriteString(`(setsid sh -c 'while sleep 0.05; do echo "$HEADRACE_JOB_ID.$HEADRACE_ATTEMPT back" >> "ran/$HEADRACE_JOB_ID"; done' > /dev/null 2>&1 &); `)
	}
	fmt.Fprintf(&b, "i=0; while [ $i -lt %d ]; do sleep %s; i=$((i+1)); say tick; echo \"step $i\"; done; ", p.ticks, p.pause)
	b.WriteString("echo the end; say end; ")
	switch p.way {
	case fails:
		b.WriteString("exit 3")
	case learns:
		b.WriteString(`[ -e "ran/$HEADRACE_JOB_ID.learnt" ] || { : > "ran/$HEADRACE_JOB_ID.learnt"; exit 3; }`)
	}
	return b.String()
}

// log is what a whole attempt writes.
func (p *role) log(attempt int32) string {
	var b strings.Builder
	fmt.Fprintf(&b, "this is %s, attempt %d\n", p.name, attempt)
	for i := range p.bulk {
		fmt.Fprintf(&b, "%d\n", i+1)
	}
	for i := range p.ticks {
		fmt.Fprintf(&b, "step %d\n", i+1)
	}
	b.WriteString("the end\n")
	return b.String()
}

// spec is the job as it is asked for.
func (p *role) spec() api.JobSpec {
	args, _ := json.Marshal(worker.CommandArgs{Shell: p.script()}) // It is text.
	return api.JobSpec{Name: p.name, Key: p.key, Args: args, Retry: &api.Retry{Failures: p.retries, Delay: 0.001, Factor: 1}}
}

// ledger is what the clients were told.
type ledger struct {
	mu     sync.Mutex
	plays  map[string]*role // by the job's name
	builds []*asked
	// quiet has, of jobs that were told to have ended, what they had noted by then: nothing may follow.
	quiet map[job.ID]string
}

// asked is a build that was acknowledged.
type asked struct {
	id   job.ID
	spec api.Submission
	jobs []job.ID // in the order of the submission
	// touched: something of it was cancelled, or it is a retry, so that how it ends is open.
	touched bool
	ended   *api.Build           // as it was told; nil: it was not
	ends    map[job.ID][2]string // of jobs that were told to have ended: the outcome, and the number of attempts
}

func (l *ledger) init() { l.plays, l.quiet = map[string]*role{}, map[job.ID]string{} }

func (l *ledger) play(p *role) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plays[p.name] = p
}

func (l *ledger) book(b *asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.builds = append(l.builds, b)
}

// asker is a client that asks for one build after the other.
type asker struct {
	s    *storm
	rnd  *rand.Rand
	name string
	made int
}

// askPatience bounds the wait for one answer, over all that happens meanwhile.
const askPatience = 4 * time.Minute

func (a *asker) run() {
	for !a.s.t.Failed() {
		select {
		case <-a.s.enough:
			return
		default:
		}
		if err := a.build(); err != nil {
			a.s.t.Errorf("asker %s: %v", a.name, err)
			return
		}
	}
}

// build asks for a build, perhaps does something to it, and waits for its end.
func (a *asker) build() error {
	ctx, cancel := a.s.within(askPatience)
	defer cancel()
	b := &asked{spec: a.submission()}
	receipt, err := a.s.client.Submit(ctx, &b.spec)
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	a.s.pulse.beat()
	b.id = receipt.Build
	for _, j := range receipt.Jobs {
		b.jobs = append(b.jobs, j.ID)
	}
	a.s.ledger.book(b)
	if err := a.disturb(b); err != nil {
		return err
	}
	if err := a.await(b); err != nil {
		return err
	}
	if b.ended.Outcome == job.Succeeded.String() || a.rnd.IntN(3) > 0 {
		return nil
	}
	receipt, err = a.s.client.RetryBuild(ctx, b.id)
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	again := &asked{id: receipt.Build, touched: true}
	a.s.ledger.book(again)
	return a.await(again)
}

// disturb cancels something of a build, or gives it another priority.
func (a *asker) disturb(b *asked) error {
	ctx, cancel := a.s.within(askPatience)
	defer cancel()
	what := a.rnd.IntN(100)
	if what >= 55 {
		return nil
	}
	a.s.pulse.after(a.rnd.IntN(40), time.Second)
	switch {
	case what < 20:
		b.touched = true
		if err := a.s.client.CancelBuild(ctx, b.id, a.rnd.IntN(3) == 0); err != nil && !errors.Is(err, job.ErrEnded) {
			return fmt.Errorf("cancel build %s: %w", b.id, err)
		}
	case what < 40:
		i := a.rnd.IntN(len(b.jobs))
		if b.spec.Jobs[i].Key != "" {
			return nil // It may be another's, too.
		}
		b.touched = true
		if err := a.s.client.CancelJob(ctx, b.jobs[i], job.ID{}, true, "chaos"); err != nil && !errors.Is(err, job.ErrEnded) {
			return fmt.Errorf("cancel job %s: %w", b.jobs[i], err)
		}
	default:
		if err := a.s.client.Bump(ctx, b.id, int32(a.rnd.IntN(10))); err != nil && !errors.Is(err, job.ErrEnded) {
			return fmt.Errorf("bump build %s: %w", b.id, err)
		}
	}
	a.s.pulse.beat()
	return nil
}

// await waits for the end of a build, and notes all that it is told of it.
func (a *asker) await(b *asked) error {
	ctx, cancel := a.s.within(askPatience)
	defer cancel()
	told, err := a.s.client.AwaitBuild(ctx, b.id)
	if err != nil {
		return fmt.Errorf("await build %s: %w", b.id, err)
	}
	a.s.pulse.beat()
	page, err := a.s.client.Jobs(ctx, api.JobFilter{Build: b.id, Limit: 1000})
	if err != nil {
		return fmt.Errorf("jobs of build %s: %w", b.id, err)
	}
	l := &a.s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	b.ended, b.ends = &told, map[job.ID][2]string{}
	for i := range page.Items {
		j := &page.Items[i]
		if j.State != "done" {
			continue
		}
		b.ends[j.ID] = [2]string{j.Outcome, fmt.Sprint(j.Attempts)}
		if _, known := l.quiet[j.ID]; !known && j.Outcome == job.Succeeded.String() {
			text, err := os.ReadFile(filepath.Join(a.s.dir, "ran", j.ID.String()))
			if err != nil {
				return fmt.Errorf("job %s is told to have succeeded: %w", j.ID, err)
			}
			l.quiet[j.ID] = string(text)
		}
	}
	return nil
}

// submission draws a graph.
func (a *asker) submission() api.Submission {
	rnd := a.rnd
	a.made++
	s := api.Submission{BuildSpec: api.BuildSpec{Name: fmt.Sprintf("%s-%d", a.name, a.made), Priority: int32(rnd.IntN(5))}}
	for i := range 2 + rnd.IntN(7) {
		p := &role{
			name: fmt.Sprintf("%s-%d", s.Name, i), way: behaves, ticks: rnd.IntN(5), pause: fmt.Sprintf("0.%02d", 1+rnd.IntN(8)), back: rnd.IntN(6) == 0,
		}
		if rnd.IntN(8) == 0 {
			p.bulk = 1 + rnd.IntN(30_000)
		}
		switch n := rnd.IntN(20); {
		case n < 2:
			p.way, p.retries = fails, -1
		case n < 4:
			p.way, p.retries = fails, 1
		case n < 7:
			p.way, p.retries = learns, 3
		case n < 9:
			p.key = fmt.Sprintf("k%d", rnd.IntN(4))
		}
		spec := p.spec()
		if p.key == "" { // What is joined may need nothing of another build.
			for k := range i {
				if rnd.IntN(3) > 0 {
					continue
				}
				policy := []string{"", "", "success", "finish", "order"}[rnd.IntN(5)]
				spec.Needs = append(spec.Needs, api.Need{Job: fmt.Sprintf("%s-%d", s.Name, k), Policy: policy})
			}
		}
		spec.Role = []string{"", "", "", "", api.RoleAwaited, api.RoleOptional}[rnd.IntN(6)]
		p.optional = spec.Role == api.RoleOptional
		a.s.ledger.play(p)
		s.Jobs = append(s.Jobs, spec)
	}
	return s
}
