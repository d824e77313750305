package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/headrace/headrace/worker"
)

// counted is a store that counts the jobs that are read from its lists.
type counted struct {
	*sqlite.Store
	read int
}

func (c *counted) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	list, err := c.Store.Jobs(ctx, f)
	c.read += len(list)
	return list, err
}

// ran is a job that ran; without an outcome it never started.
type ran struct {
	name, key string
	outcome   job.Outcome
}

// commit stores jobs, the oldest first.
func (c *counted) commit(t *testing.T, list ...ran) []job.ID {
	t.Helper()
	var ids []job.ID
	b := queue.Batch{Number: 1, At: 1}
	for i, r := range list {
		seq := int64(i + 1)
		s := job.Spec{ID: job.ID{14: byte(seq >> 8), 15: byte(seq), 13: byte(seq >> 16)}, Kind: worker.CommandKind, Name: r.name, Key: r.key}
		end := job.JobEnded{Job: s.ID, Seq: seq, End: job.End{At: 1, Outcome: r.outcome}}
		b.Changes = append(b.Changes, job.JobAdded{Record: job.Record{Spec: s, Seq: seq, At: 1}})
		if r.outcome == 0 {
			end.End.Outcome = job.Cancelled
		} else {
			a := job.Attempt{Number: 1, Token: job.Token{1}, Worker: "w", Start: 1}
			end.Attempt = &job.AttemptEnd{Attempt: a, At: 1, Outcome: r.outcome}
			b.Changes = append(b.Changes, job.JobReleased{Job: s.ID, Seq: seq}, job.JobStarted{Job: s.ID, Seq: seq, Attempt: a})
		}
		b.Changes = append(b.Changes, end)
		ids = append(ids, s.ID)
	}
	if err := c.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return ids
}

// A success serves unless another job of its name has run since; and to find out, no more is read than that takes, however
// long the history has become since.
func TestSuccessIsOvertakenByTheNextRunOfItsName(t *testing.T) {
	t.Parallel()
	const others = 3 * 5 * page / 2
	for _, c := range []struct {
		name  string
		jobs  int // in the graph
		since []ran
		stays bool // the first of them
		read  int  // at most
	}{
		{"nothing since", 3, nil, true, 3},
		{"others since", 3, many(others, ran{"other", "o", job.Succeeded}), true, 3},
		{"many, and others since", 2 * fewNames, many(others, ran{"other", "o", job.Succeeded}), true, 5*page + 2*fewNames},
		{"many, and nothing since", 2 * fewNames, nil, true, 2 * fewNames},
		{"another form", 3, []ran{{"j0", "other", job.Failed}}, false, 3},
		{"the same form", 3, []ran{{"j0", "k0", job.Failed}}, false, 3},
		{"one that never started", 3, []ran{{"j0", "other", 0}}, true, 4},
		{"many that never started", 3, many(50, ran{"j0", "other", 0}), true, 2*51 + 2},
		{"many that never started, after another form", 3, append([]ran{{"j0", "other", job.Failed}}, many(50, ran{"j0", "other", 0})...), false, 2*52 + 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			s := &counted{Store: store}
			w := &work{Graph: &graph.Graph{}}
			var list []ran
			for i := range c.jobs {
				r := ran{fmt.Sprintf("j%d", i), fmt.Sprintf("k%d", i), job.Succeeded}
				list = append(list, r)
				w.Jobs, w.keys = append(w.Jobs, graph.Job{Name: r.name}), append(w.keys, r.key)
			}
			ids := s.commit(t, append(list, c.since...)...)
			p := &past{kept: append([]job.ID(nil), ids[:c.jobs]...), seqs: make([]int64, c.jobs)}
			if err := p.dropOvertaken(t.Context(), s, w); err != nil {
				t.Fatal(err)
			}
			for i, id := range p.kept {
				if want := i > 0 || c.stays; id.IsZero() == want {
					t.Errorf("job %d: kept %t, want %t", i, !id.IsZero(), want)
				}
			}
			if s.read > c.read {
				t.Errorf("%d jobs were read, want at most %d", s.read, c.read)
			}
		})
	}
}

func many(n int, r ran) []ran {
	list := make([]ran, n)
	for i := range list {
		list[i] = r
	}
	return list
}
