package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// graph is a submission as a script writes it: a line a job, then lines that begin with "want".
type graph struct {
	w       *world
	step    step
	sub     queue.Submission
	here    map[string]job.ID // jobs of this submission
	names   []string
	needs   map[string][]string
	request job.ID
}

// submit NAME [options]: a build of that name, new or not; a dash is no build.
func (w *world) submit(s step) func(context.Context) render {
	g := &graph{w: w, step: s, here: map[string]job.ID{}, needs: map[string][]string{}}
	o := w.options(s, s.words[2:])
	channel := channelName(o.text("channel", "default"))
	g.request = w.request(o.text("request", ""))
	if s.words[1] == "-" {
		g.sub.Own = job.Own{Priority: o.number("priority"), Group: o.text("group", ""), Limits: o.limits()}
	} else {
		g.sub.Build = &job.Build{
			ID: w.build(s.words[1]), Name: s.words[1], Group: o.text("group", ""), Priority: o.number("priority"),
			Limits: o.limits(), Gate: o.gate("gate"),
		}
	}
	o.end()
	var wants []string
	for _, line := range s.more {
		if rest, ok := strings.CutPrefix(line, "want "); ok {
			wants = append(wants, strings.Split(rest, ",")...)
			continue
		}
		g.job(strings.Fields(line), channel)
	}
	g.link()
	if g.sub.Build != nil {
		g.refer(wants)
	}
	return g.send
}

// job reads NAME [options].
func (g *graph) job(words []string, channel string) {
	w, name := g.w, words[0]
	o := w.options(g.step, words[1:])
	j := job.Spec{
		ID: w.newID(), Name: name, Channel: channel, Kind: o.text("kind", "run"), Key: o.text("key", ""),
		System: o.text("system", ""), Features: o.list("features"), Pin: o.text("pin", ""),
		Exclusive: o.flag("exclusive"), Gate: o.gate("gate"), Retry: o.retry(), Estimate: o.duration("estimate"),
		CacheFailure: o.flag("cache-failure"), Reuse: o.flag("reuse"), Args: []byte(o.text("args", "")),
	}
	if o.has("not-before") {
		j.NotBefore = job.At(time.Now().Add(o.duration("not-before")))
	}
	g.needs[name] = o.list("needs")
	o.end()
	g.here[name] = j.ID
	g.names = append(g.names, name)
	g.sub.Jobs = append(g.sub.Jobs, j)
}

// link reads the needs, each NAME or NAME:policy; names of this submission go first.
func (g *graph) link() {
	for i, name := range g.names {
		for _, text := range g.needs[name] {
			to, word, found := strings.Cut(text, ":")
			policy, ok := job.ParsePolicy(word)
			if found && !ok {
				g.w.t.Fatalf("%s: no policy %q", g.step.place, word)
			}
			g.sub.Jobs[i].Needs = append(g.sub.Jobs[i].Needs, job.Need{Job: g.find(to), Policy: policy})
		}
	}
}

func (g *graph) find(name string) job.ID {
	if id, ok := g.here[name]; ok {
		return id
	}
	return g.w.job(name)
}

// refer reads the wants, or takes the jobs that no other needs.
func (g *graph) refer(wants []string) {
	if wants == nil {
		needed := map[job.ID]bool{}
		for _, j := range g.sub.Jobs {
			for _, n := range j.Needs {
				needed[n.Job] = needed[n.Job] || n.Policy != job.Order
			}
		}
		for i, j := range g.sub.Jobs {
			if !needed[j.ID] {
				wants = append(wants, g.names[i])
			}
		}
	}
	for _, text := range wants {
		words := strings.Fields(text)
		if len(words) == 0 || words[0] == "nothing" {
			continue
		}
		o := g.w.options(g.step, words[1:])
		g.sub.Refs = append(g.sub.Refs, job.Ref{
			Job: g.find(words[0]), Awaited: o.flag("awaited"), Optional: o.flag("optional"),
			Priority: o.number("priority"), Limits: o.limits(),
		})
		o.end()
	}
}

// request makes a request id of a word; "" is none.
func (w *world) request(word string) job.ID {
	var id job.ID
	if copy(id[:], word) > 0 {
		w.labels[id] = word
	}
	return id
}

// send submits, and names what was made.
func (g *graph) send(ctx context.Context) render {
	w := g.w
	receipt, err := w.queue.Submit(queue.WithRequest(ctx, g.request), g.sub)
	return func() []string {
		for i, name := range g.names {
			if err != nil {
				w.labels[g.sub.Jobs[i].ID] = name
			} else if h := receipt.Jobs[i].How; w.labels[receipt.Jobs[i].ID] == "" && (h == job.Created || h == job.CachedFailure) {
				w.nameJob(receipt.Jobs[i].ID, name)
			}
		}
		if err != nil {
			return []string{refusal(err)}
		}
		words := []string{"ok"}
		for i, r := range receipt.Jobs {
			if r.How != job.Created || w.labels[r.ID] != g.names[i] {
				words = append(words, fmt.Sprintf("%s %s %s", g.names[i], r.How, w.label(r.ID)))
			}
		}
		return []string{strings.Join(words, "; ")}
	}
}

// bulk NAME count=N [bad=K]: a build of so many jobs in a chain of ten wide rows; the K-th job is not as it must be.
func (w *world) bulk(s step) func(context.Context) render {
	o := w.options(s, s.words[2:])
	count, bad := int(o.number("count")), int(o.number("bad"))
	o.end()
	sub := queue.Submission{Build: &job.Build{Name: s.words[1]}}
	for i := range count {
		j := job.Spec{ID: w.newID(), Name: fmt.Sprintf("%s-%d", s.words[1], i+1), Kind: "run"}
		if i+1 == bad {
			j.Kind = ""
		}
		if i >= 10 {
			j.Needs = []job.Need{{Job: sub.Jobs[i-10].ID}}
		}
		w.labels[j.ID] = j.Name
		w.jobs[j.Name] = j.ID
		sub.Jobs = append(sub.Jobs, j)
	}
	for _, j := range slices.Backward(sub.Jobs) {
		if len(sub.Refs) == 10 {
			break
		}
		sub.Refs = append(sub.Refs, job.Ref{Job: j.ID})
	}
	return func(ctx context.Context) render {
		receipt, err := w.queue.Submit(ctx, sub)
		return func() []string {
			if err == nil {
				w.builds[s.words[1]], w.labels[receipt.Build] = receipt.Build, s.words[1]
			}
			return told(err)()
		}
	}
}
