package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// command takes a command apart, and gives what carries it out.
func (w *world) command(s step) func(context.Context) render {
	verbs := map[string]func(*world, step) func(context.Context) render{
		"channel": (*world).channel, "pause": (*world).pause, "resume": (*world).pause,
		"worker": (*world).worker, "drain": (*world).drain, "undrain": (*world).drain, "pardon": (*world).pardon, "remove": (*world).remove,
		"signoff": (*world).signOff,
		"submit":  (*world).submit, "bulk": (*world).bulk,
		"lease": (*world).leaseJobs, "lost": (*world).lost, "beat": (*world).beat, "progress": (*world).progress, "finish": (*world).finish,
		"cancel": (*world).cancel, "bump": (*world).bump, "fail": (*world).fail, "delete": (*world).deleteJob, "clear": (*world).clear,
		"await": (*world).await, "why": (*world).why, "jobs": (*world).listJobs, "builds": (*world).listBuilds,
		"workers": (*world).listWorkers, "show": (*world).show, "damage": (*world).damage,
	}
	verb, ok := verbs[s.words[0]]
	if !ok {
		w.t.Fatalf("%s: no command %q", s.place, s.words[0])
	}
	if len(s.words) < 2 && !strings.Contains("jobs builds workers", s.words[0]) {
		w.t.Fatalf("%s: %s what?", s.place, s.words[0])
	}
	return verb(w, s)
}

// told shows the outcome of a command that only succeeds.
func told(err error) render {
	return func() []string {
		if err != nil {
			return []string{refusal(err)}
		}
		return []string{"ok"}
	}
}

func refusal(err error) string {
	var retry *queue.RetryError
	switch {
	case errors.As(err, &retry):
		return "cut off: " + err.Error()
	case errors.Is(err, context.Canceled):
		return "gave up waiting"
	}
	return "refused: " + err.Error()
}

func (w *world) channel(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	name := channelName(s.words[1])
	c := job.DefaultChannel(name)
	if o.text("order", "rank") == "age" {
		c.Discipline = job.ByAge
	}
	if o.has("grace") {
		c.Grace = o.duration("grace")
	}
	if o.has("ttl") {
		c.TTL = o.duration("ttl")
	}
	c.CallerJudges = o.text("judge", "engine") == "caller"
	c.Retry = o.retry().Or(c.Retry)
	c.FailureTTL = o.duration("failure-ttl")
	if o.has("shares") {
		c.Shares = o.number("shares")
	}
	for _, g := range o.list("group-shares") {
		group, n, _ := strings.Cut(g, ":")
		if c.GroupShares == nil {
			c.GroupShares = map[string]int32{}
		}
		var shares int32
		if _, err := fmt.Sscan(n, &shares); err != nil {
			o.bad("%v", err)
		}
		c.GroupShares[group] = shares
	}
	o.end()
	return func(ctx context.Context) render { return told(w.queue.SetChannel(ctx, c)) }
}

func (w *world) pause(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	kind := o.text("kind", "")
	o.end()
	return func(ctx context.Context) render {
		return told(w.queue.Pause(ctx, channelName(s.words[1]), kind, s.words[0] == "pause"))
	}
}

// worker registers a new life of a worker.
func (w *world) worker(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	name := s.words[1]
	v := job.Worker{
		Name: name, Kinds: o.list("kinds", "run"), Systems: o.list("systems"),
		Features: o.list("features"), Mandatory: o.list("mandatory"),
		Slots: max(o.number("slots"), 1), Speed: o.real("speed"), Session: w.newID(),
	}
	for _, c := range o.list("channels", "default") {
		v.Channels = append(v.Channels, channelName(c))
	}
	var running []job.Lease
	for _, l := range o.list("running") {
		running = append(running, w.lease(s, l).Lease)
	}
	o.end()
	return func(ctx context.Context) render {
		err := w.queue.Register(ctx, v, running...)
		return func() []string {
			if err == nil {
				w.sessions[name] = v.Session
			}
			return told(err)()
		}
	}
}

func (w *world) signOff(s step) func(context.Context) render {
	session := w.sessions[s.words[1]]
	return func(ctx context.Context) render { return told(w.queue.SignOff(ctx, s.words[1], session)) }
}

func (w *world) drain(s step) func(context.Context) render {
	return func(ctx context.Context) render { return told(w.queue.Drain(ctx, s.words[1], s.words[0] == "drain")) }
}

func (w *world) pardon(s step) func(context.Context) render {
	return func(ctx context.Context) render { return told(w.queue.Pardon(ctx, s.words[1])) }
}

func (w *world) remove(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	force := o.flag("force")
	o.end()
	return func(ctx context.Context) render { return told(w.queue.RemoveWorker(ctx, s.words[1], force)) }
}

// leaseJobs lets a worker wait for jobs; without any it goes on waiting while the script goes on.
func (w *world) leaseJobs(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	name, want, load := s.words[1], max(o.number("want"), 1), o.real("load")
	o.end()
	session := w.sessions[name]
	return func(ctx context.Context) render {
		got, err := w.queue.Lease(ctx, name, session, int(want), load)
		return func() []string {
			if err != nil {
				return []string{refusal(err)}
			}
			var names []string
			for _, a := range got {
				l := fmt.Sprintf("%s.%d", w.label(a.Lease.Job), a.Lease.Attempt)
				w.leases[l] = a
				if a.Limits != (job.Limits{}) {
					l += fmt.Sprintf(" (timeout %s, silence %s)", a.Limits.Timeout, a.Limits.Silence)
				}
				names = append(names, l)
			}
			return []string{"got " + strings.Join(names, ", ")}
		}
	}
}

// lost lists the attempts of a channel that were not heard of for so long.
func (w *world) lost(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	silent := o.duration("silent")
	o.end()
	return func(ctx context.Context) render {
		leases, err := w.queue.Lost(ctx, channelName(s.words[1]), silent)
		return func() []string {
			var out []string
			for _, l := range leases {
				out = append(out, fmt.Sprintf("%s.%d", w.label(l.Job), l.Attempt))
			}
			return lines(out, err)
		}
	}
}

func (w *world) beat(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	b := queue.Beat{Lease: w.lease(s, s.words[1]).Lease}
	if o.flag("output") {
		b.Output = time.Now()
	}
	o.end()
	return func(ctx context.Context) render {
		errs, err := w.queue.Heartbeat(ctx, b)
		if err == nil {
			err = errs[0]
		}
		return told(err)
	}
}

func (w *world) progress(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	l, result := w.lease(s, s.words[1]).Lease, o.text("result", "")
	o.end()
	return func(ctx context.Context) render { return told(w.queue.Progress(ctx, l, []byte(result))) }
}

func (w *world) finish(s step) func(context.Context) render {
	if len(s.words) < 3 {
		w.t.Fatalf("%s: finish how?", s.place)
	}
	o := w.options(s, s.words[3:])
	r := job.Report{Lease: w.lease(s, s.words[1]).Lease, NoRetry: o.flag("no-retry"), Message: o.text("message", "")}
	if token := o.text("token", ""); token != "" {
		r.Lease.Token = w.lease(s, token).Lease.Token
	}
	if result := o.text("result", ""); result != "" {
		r.Result = []byte(result)
	}
	var ok [2]bool
	r.Outcome, ok[0] = job.ParseOutcome(s.words[2])
	r.Detail, ok[1] = job.ParseDetail(o.text("detail", ""))
	request := w.request(o.text("request", ""))
	o.end()
	if !ok[0] || !ok[1] {
		w.t.Fatalf("%s: no such outcome or detail", s.place)
	}
	l := fmt.Sprintf("%s.%d", w.label(r.Lease.Job), r.Lease.Attempt)
	return func(ctx context.Context) render {
		err := w.queue.Finish(queue.WithRequest(ctx, request), r)
		return func() []string {
			w.told[l] = true // whoever finishes need not be told
			return told(err)()
		}
	}
}

// target finds what "build b" or "job j" names; an unknown name gets an id that nobody has.
func (w *world) target(s step) (id job.ID, isBuild bool, rest []string) {
	if len(s.words) < 3 {
		w.t.Fatalf("%s: %s which?", s.place, s.words[0])
	}
	name := s.words[2]
	switch s.words[1] {
	case "build":
		return w.build(name), true, s.words[3:]
	case "job":
		return w.job(name), false, s.words[3:]
	}
	w.t.Fatalf("%s: want build or job", s.place)
	return job.ID{}, false, nil
}

func (w *world) build(name string) job.ID {
	if id, ok := w.builds[name]; ok {
		return id
	}
	id := w.newID()
	w.builds[name], w.labels[id] = id, name
	return id
}

func (w *world) job(name string) job.ID {
	if id, ok := w.jobs[name]; ok {
		return id
	}
	id := w.newID()
	w.nameJob(id, name)
	return id
}

func (w *world) cancel(s step) func(context.Context) render {
	id, isBuild, rest := w.target(s)
	o := w.options(s, rest)
	spare, force, why, of := o.flag("spare"), o.flag("force"), o.text("why", ""), job.ID{}
	if b := o.text("of", ""); b != "" {
		of = w.build(b)
	}
	o.end()
	return func(ctx context.Context) render {
		if isBuild {
			return told(w.queue.CancelBuild(ctx, id, spare))
		}
		return told(w.queue.CancelJob(ctx, id, of, force, why))
	}
}

func (w *world) bump(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	id, p := w.build(s.words[1]), o.number("priority")
	o.end()
	return func(ctx context.Context) render { return told(w.queue.Bump(ctx, id, p)) }
}

func (w *world) fail(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	id, why, result := w.job(s.words[1]), o.text("why", ""), o.text("result", "")
	o.end()
	return func(ctx context.Context) render { return told(w.queue.FailJob(ctx, id, why, []byte(result))) }
}

func (w *world) deleteJob(s step) func(context.Context) render {
	id, isBuild, _ := w.target(s)
	return func(ctx context.Context) render {
		if isBuild {
			return told(w.queue.DeleteBuild(ctx, id))
		}
		return told(w.queue.DeleteJob(ctx, id))
	}
}

func (w *world) clear(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	i := job.Identity{Channel: channelName(o.text("channel", "default")), Kind: o.text("kind", "run"), Key: s.words[1]}
	o.end()
	return func(ctx context.Context) render { return told(w.queue.ClearFailures(ctx, i)) }
}

// damage spoils what is stored of a job or a build; memory does not know until the next load.
func (w *world) damage(s step) func(context.Context) render {
	table := "job"
	id, ok := w.builds[s.words[1]]
	if ok {
		table = "build"
	} else {
		id = w.job(s.words[1])
	}
	return func(context.Context) render {
		if !w.disk.Damage(table, id.String()) {
			return told(queue.ErrNotFound)
		}
		return told(nil)
	}
}

func (w *world) await(s step) func(context.Context) render {
	id, isBuild, _ := w.target(s)
	return func(ctx context.Context) render {
		var outcome job.Outcome
		var err error
		if isBuild {
			var r job.BuildRecord
			r, err = w.queue.AwaitBuild(ctx, id)
			outcome = r.Outcome
		} else {
			var r job.Record
			if r, err = w.queue.AwaitJob(ctx, id); err == nil {
				outcome = r.End.Outcome
			}
		}
		if err != nil {
			return told(err)
		}
		return func() []string { return []string{outcome.String()} }
	}
}
