package linear

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
)

var (
	seeds = flag.Uint64("seeds", 8, "how many seeds to run on each store")
	first = flag.Uint64("first", 1, "the first seed")
	steps = flag.Int("steps", 30, "how many steps each client takes")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(pgtest.Main(m))
}

func TestSQLiteIsLinearizable(t *testing.T) {
	t.Parallel()
	each(t, 6, func() (place, error) { return &file{dir: t.TempDir()}, nil })
}

func TestPostgreSQLIsLinearizable(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	address, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	each(t, 3, func() (place, error) {
		clone, err := c.Clone(t.Context(), pgtest.Name(address))
		return &database{cluster: c, name: pgtest.Name(clone)}, err
	})
}

// each plays all seeds, some at a time: whoever follows a dead owner on PostgreSQL mostly waits.
func each(t *testing.T, kills int, found func() (place, error)) {
	const atOnce = 4
	counts, lapses := map[fault]int{}, 0
	var mu sync.Mutex
	var worlds sync.WaitGroup
	for lane := range uint64(atOnce) {
		worlds.Go(func() {
			for seed := *first + lane; seed < *first+*seeds && !t.Failed(); seed += atOnce {
				p, err := found()
				if err != nil {
					t.Error(err)
					return
				}
				w := &world{t: t, place: p, news: make(chan struct{})}
				w.faults.seed, w.faults.kills, w.faults.count = seed, kills, map[fault]int{}
				w.faults.random = rand.New(rand.NewPCG(seed, 0))
				if err := w.play(); err != nil {
					t.Errorf("seed %d: %v\nagain: go test ./internal/linear -run '^%s$' -first %d -seeds 1 -count 20", seed, err, t.Name(), seed)
				}
				mu.Lock()
				lapses += w.lapses
				for k, n := range w.faults.count {
					counts[k] += n
				}
				mu.Unlock()
			}
		})
	}
	worlds.Wait()
	t.Logf("commits: %v; %d leases ran out", counts, lapses)
	if lapses == 0 && *seeds > 3 && !t.Failed() {
		t.Error("no lease ran out")
	}
	for _, f := range planned {
		if counts[f] == 0 && *seeds >= uint64(len(planned)) && !t.Failed() {
			t.Errorf("no commit of %d seeds was one %s", *seeds, f)
		}
	}
}

// play lets the clients of one world do their steps, and judges what they saw.
func (w *world) play() error {
	finished := make(chan struct{})
	ruled := make(chan error, 1)
	go func() { ruled <- w.rule(finished) }()
	h := &history{keys: map[job.ID]string{}}
	played := make(chan *client, 1)
	go func() {
		last := newClient(w, h, 0)
		last.settle()
		var clients sync.WaitGroup
		for n := 1; n <= 6; n++ {
			c := newClient(w, h, n)
			clients.Go(func() {
				if n%2 == 0 {
					c.worker(*steps)
				} else {
					c.person(*steps)
				}
			})
		}
		clients.Wait()
		// In the end each job must be what all that was told makes it.
		h.stored = stored{}
		for _, id := range h.wished() {
			last.read(id)
		}
		played <- last
	}()
	select {
	case err := <-ruled:
		return err
	case <-played:
	}
	close(finished)
	if err := <-ruled; err != nil {
		return err
	}
	w.lapses = h.lapses
	return h.judge(w.faults.seed, w.t.ArtifactDir())
}

// ttl is how long a lease lasts: the least that a channel may say.
const ttl = time.Second

// settle gives the leases that length.
func (c *client) settle() {
	for {
		_, err := try(c, time.Minute, func(ctx context.Context, r *reign) (nothing, error) {
			channel := job.DefaultChannel("main")
			channel.TTL = ttl
			return nothing{}, r.q.SetChannel(ctx, channel)
		})
		if err == nil {
			return
		}
	}
}

// read notes what is stored of a job, if it is there: attempts one after the other, of which one succeeded at most.
func (c *client) read(id job.ID) {
	type found struct {
		jobs []job.Record
		ends []job.AttemptEnd
	}
	f, err := try(c, time.Minute, func(ctx context.Context, r *reign) (f found, err error) {
		if f.jobs, err = r.store.Jobs(ctx, queue.JobFilter{IDs: []job.ID{id}}); err == nil {
			f.ends, err = r.store.Attempts(ctx, id)
		}
		return f, err
	})
	switch {
	case errors.Is(err, errUnknown):
		c.read(id)
		return
	case err != nil:
		c.complain("read job %s: %v", id, err)
		return
	case len(f.jobs) == 0 && !slices.Contains(c.jobs, id):
		return // Nobody was told that it is there.
	case len(f.jobs) == 0:
		c.complain("job %s is not there", id)
		return
	}
	good := 0
	for i, a := range f.ends {
		if a.Outcome == job.Succeeded {
			good++
		}
		if a.Detail == job.LeaseLost {
			c.lapses++
		}
		if i > 0 && a.Number <= f.ends[i-1].Number {
			c.complain("job %s: attempt %d is stored after attempt %d", id, a.Number, f.ends[i-1].Number)
		}
	}
	if good > 1 {
		c.complain("job %s: %d attempts succeeded", id, good)
	}
	if f.jobs[0].Running {
		f.ends = append(f.ends, job.AttemptEnd{Attempt: *f.jobs[0].Last})
	}
	c.stored[id] = &kept{attempts: f.ends}
	if end := f.jobs[0].End; end != nil {
		c.stored[id].outcome = end.Outcome
	}
	c.look(id)
}

// judge compares the history with the specification, and draws in a folder what does not fit.
func (h *history) judge(seed uint64, folder string) error {
	if len(h.wrong) > 0 {
		return fmt.Errorf("%d answers are wrong by themselves:\n%s", len(h.wrong), strings.Join(h.wrong, "\n"))
	}
	// With what is stored the longest of some hundred histories took a fortieth of a second, and of five times the steps one second.
	const patience = time.Minute
	model := h.stored.spec()
	for key, ops := range h.byKey() {
		result, info := porcupine.CheckOperationsVerbose(model, ops, patience)
		switch result {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			return fmt.Errorf("the history of %s can be neither explained nor refuted in %v\n%s%s", key, patience, listing(ops), stuck(model, &info, ops))
		case porcupine.Illegal:
		}
		path := filepath.Join(folder, fmt.Sprintf("seed-%d-%s.html", seed, key))
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			return err
		}
		return fmt.Errorf("the history of %s cannot have been; with -artifacts, see %s\n%s%s", key, path, listing(ops), stuck(model, &info, ops))
	}
	return nil
}

// stuck tells where the longest explanation ends, and what it does not explain: the cause is nearly always among the first.
func stuck(model porcupine.Model, info *porcupine.LinearizationInfo, ops []porcupine.Operation) string {
	var longest []porcupine.Operation
	for _, list := range info.PartialLinearizationsOperations() {
		for _, l := range list {
			if len(l) > len(longest) {
				longest = l
			}
		}
	}
	explained := map[int64]bool{} // by its call: no two are one
	state := model.Init()
	for _, op := range longest {
		explained[op.Call] = true
		_, state = model.Step(state, op.Input, op.Output)
	}
	rest := slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool { return explained[op.Call] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	return fmt.Sprintf("%d of %d can be explained, up to the states\n%v\nand then not\n%s", len(longest), len(ops), state, listing(rest[:min(len(rest), 8)]))
}

// byKey gives each key the operations that are about it. One that is about all jobs is about each key by itself: this asks for
// less than that it happens for all at once. Where nothing can have come of it, it is left out.
func (h *history) byKey() map[string][]porcupine.Operation {
	untold := map[string]map[job.Lease]bool{} // by the worker
	had := map[[2]string]bool{}               // a worker an attempt of a key
	mayHave := map[[2]string]bool{}           // and nobody was told of it
	for id, k := range h.stored {
		for _, a := range k.attempts {
			had[[2]string{a.Worker, h.keys[id]}] = true
			l := job.Lease{Job: id, Attempt: a.Number, Token: a.Token}
			if slices.Contains(h.leases, l) {
				continue
			}
			mayHave[[2]string{a.Worker, h.keys[id]}] = true
			if untold[a.Worker] == nil {
				untold[a.Worker] = map[job.Lease]bool{}
			}
			untold[a.Worker][l] = true
		}
	}
	parts := map[string][]porcupine.Operation{}
	for _, key := range h.keys {
		parts[key] = nil
	}
	for _, op := range h.ops {
		in := op.Input.(*asked)
		if in.key != "" {
			if !op.Output.(*told).unknown || !h.stored.vain(in) {
				parts[in.key] = append(parts[in.key], op)
			}
			continue
		}
		in.untold = untold[in.worker]
		about := had
		if in.kind == lease {
			about = mayHave
		}
		for key := range parts {
			if about[[2]string{in.worker, key}] {
				parts[key] = append(parts[key], op)
			}
		}
	}
	return parts
}

func listing(ops []porcupine.Operation) string {
	ops = slices.SortedFunc(slices.Values(ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "%6d %6d  client %d: %s\n", op.Call, op.Return, op.ClientId, describe(op.Input.(*asked), op.Output.(*told)))
	}
	return b.String()
}
