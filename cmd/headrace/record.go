package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// notRunError: there is nothing to tell, as nothing of the file, or of a job in it, has been run yet. That is the user's mistake
// for those who want to see what a run left, and an answer for those who ask about runs.
type notRunError struct{ text string }

func (e *notRunError) Error() string { return e.text }

// openRuns opens what the runs of a file left. *notRunError: there were none; where the user says where to look, that is his mistake.
func (p place) openRuns(ctx context.Context) (storeReader, error) {
	r, err := p.read(ctx)
	if errors.Is(err, errNoRuns) {
		if _, err := os.Stat(p.file); err != nil && p.file != stream {
			return nil, usage("graph file %q: no such file, and no runs of it are kept in %s", p.file, p.name())
		}
		if _, err := kindOf(p.file); err != nil && p.file != stream {
			return nil, usage("%s: %v", inputName(p.file), err)
		}
		if p.folder != "" {
			return nil, usage("there is no store in %s: nothing of %s has been run there; run it: %s", p.name(), p.spoken(), p.command("run"))
		}
		return nil, &exit{exitUsage, &notRunError{fmt.Sprintf("nothing of %s has been run yet (looked in %s); run it: %s", p.spoken(), p.name(), p.command("run"))}}
	}
	return r, err
}

// find gives the newest job of a name: the one that the last build asked for or, if it did not, the last one made.
// *notRunError: the file has such a job, but no run has asked for it.
func (p place) find(ctx context.Context, h queue.History, name string) (*job.Record, error) {
	if name == "" { // To a filter that is any name.
		return nil, p.unknown(ctx, h, name)
	}
	builds, err := h.Builds(ctx, queue.BuildFilter{Limit: 1})
	if err != nil {
		return nil, err
	}
	filters := []queue.JobFilter{{Name: name, Limit: 1}}
	if len(builds) > 0 {
		filters = append([]queue.JobFilter{{Name: name, Build: builds[0].Build.ID, Limit: 1}}, filters...)
	}
	for _, f := range filters {
		recs, err := h.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		if len(recs) > 0 {
			return &recs[0], nil
		}
	}
	return nil, p.unknown(ctx, h, name)
}

// unknown says what is wrong with the name of a job that has not been run; h may be nil: nothing has. *notRunError: nothing is
// wrong with it.
func (p place) unknown(ctx context.Context, h queue.History, name string) error {
	g, err := parseFile(p.file)
	if err == nil {
		if slices.ContainsFunc(g.Jobs, func(j graph.Job) bool { return j.Name == name }) {
			return &exit{exitUsage, &notRunError{fmt.Sprintf("no run has asked for job %q yet; run it: %s", name, p.command("run", name))}}
		}
		var variants []string
		for i := range g.Jobs {
			if g.Jobs[i].Base == name {
				variants = append(variants, g.Jobs[i].Name)
			}
		}
		if len(variants) > 0 {
			const most = 10
			list := strings.Join(variants[:min(len(variants), most)], ", ")
			if len(variants) > most {
				list += ", ..."
			}
			return usage("job %q has variants; name one of them: %s", name, list)
		}
	}
	names := func(yield func(string) bool) {
		if g != nil {
			for i := range g.Jobs {
				if !yield(g.Jobs[i].Name) {
					return
				}
			}
		}
		if h == nil {
			return
		}
		recs, _ := h.Jobs(ctx, queue.JobFilter{Limit: page}) // For a hint only.
		for i := range recs {
			if !yield(recs[i].Spec.Name) {
				return
			}
		}
	}
	hint := ""
	if near := graph.Nearest(name, iter.Seq[string](names)); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return usage("no job %q in %s%s", name, p.spoken(), hint)
}

// holder tells which process runs the file now; nil: none does. It goes by the note that the owner of the store leaves.
func (p place) holder() *queue.HeldError {
	var h *queue.HeldError
	var err error
	if p.address != "" {
		h, err = p.databaseHolder()
	} else {
		h, err = sqlite.Holder(p.database())
	}
	if err != nil || h == nil || h.PID <= 0 {
		return nil
	}
	if host, err := os.Hostname(); err == nil && host != h.Host {
		return h // Who knows: better wait than say what is not so.
	}
	if gone(h.PID) {
		return nil
	}
	return h
}
