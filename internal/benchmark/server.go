package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// webSizes are how much is measured of the server.
type webSizes struct {
	drain    int           // jobs that are leased and finished
	workers  int           // that do it
	batches  []int         // of jobs in one call
	crowd    int           // workers that wait
	foreign  int           // jobs that wait, and that nobody serves
	offered  int           // jobs that are made while they do
	every    time.Duration // one of them
	idle     int           // workers that wait for long
	rest     time.Duration // how long
	cancels  int
	trees    int // jobs of several processes that are cancelled
	graph    int // jobs of one submission
	past     int // finished jobs
	builds   int // of which lists tell
	reads    int // of each list
	log      int // bytes
	watchers int
	told     int // jobs that they are told of
}

var fullWeb = webSizes{
	drain: 20_000, workers: 64, batches: []int{1, 16}, crowd: 1000, foreign: 100_000, offered: 5000, every: 2 * time.Millisecond,
	idle: 10_000, rest: 50 * time.Second, cancels: 1000, trees: 200, graph: 100_000, past: 1_000_000, builds: 2000, reads: 200, log: 100 << 20,
	watchers: 1000, told: 200,
}

var quickWeb = webSizes{
	drain: 60, workers: 3, batches: []int{2}, crowd: 4, foreign: 20, offered: 10, every: time.Millisecond, idle: 8, rest: 20 * time.Millisecond,
	cancels: 5, trees: 2, graph: 50, past: 1000, builds: 5, reads: 2, log: 1 << 20, watchers: 3, told: 3,
}

// servers measures package server over HTTP.
func servers(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "The server",
		note: "Over HTTP on loopback, without TLS, with a token in each call: the server is a process of its own, the client is package api in another, and both share the cores with the database. " +
			"The server logs to a file and has a depot, as `headrace serve`. Arguments and results are 100 bytes of JSON. " +
			fmt.Sprintf("In lifecycles, %d workers run %d jobs that were submitted before; each call of sync states what has ended, and wants as many again. ", l.web.workers, l.web.drain) +
			fmt.Sprintf("A start is from the call that submits a build of one job to the return of a worker's held call with it, %d workers waiting, %d other jobs waiting that nobody serves, one build each %s. ", l.web.crowd, l.web.foreign, l.web.every) +
			fmt.Sprintf("Idle workers are %d whose calls are held for 55 s each, over %s once all were connected; memory is what the server's process has more than before they came. ", l.web.idle, l.web.rest) +
			"A cancel is from its call to the return of the held call of the worker that runs the job. " +
			fmt.Sprintf("The death of its processes is seen from outside, on `headrace worker`, %d times: a shell with three of them below it, one in a session of its own, of which none ignores SIGTERM. ", l.web.trees) +
			fmt.Sprintf("The submission has %d jobs of three needs each, as lines of JSON; a worker finishes other jobs meanwhile, one at a time. ", l.web.graph) +
			fmt.Sprintf("Lists are pages of 100 with %d finished jobs stored (rows copied as in \"After so many finished jobs\") and %d builds. ", l.web.past, l.web.builds) +
			fmt.Sprintf("The tail is the last 100 lines of a log of %d MiB, to its first byte. ", l.web.log>>20) +
			fmt.Sprintf("%d watchers of all events are told of %d builds of one job, 20 a second. ", l.web.watchers, l.web.told) +
			"The load is the machine's of the minute before, of whatever else ran: above 2, processes waited for a core.",
	}
	parts := []struct {
		name    string
		measure func(context.Context, kind, *section) error
	}{
		{"lifecycles", l.webLifecycles},
		{"starts", l.webStarts},
		{"idle", l.webIdle},
		{"cancels", l.webCancels},
		{"trees", l.webTrees},
		{"submission", l.webSubmission},
		{"lists", l.webLists},
		{"watchers", l.webWatchers},
	}
	for _, k := range l.kinds {
		for _, p := range parts {
			if l.parts != "" && !slices.Contains(strings.Split(l.parts, ","), p.name) {
				continue
			}
			before, load := len(s.rows), load()
			if err := p.measure(ctx, k, &s); err != nil {
				return s, fmt.Errorf("%s, %s: %w", k, p.name, err)
			}
			for i := range s.rows[before:] {
				s.rows[before+i].value += "; load " + load
				fmt.Fprintf(os.Stderr, "        %s: %s\n", s.rows[before+i].what, s.rows[before+i].value) // It takes long.
			}
		}
	}
	return s, nil
}

// load is the average number of processes that ran, or waited for a core, in the last minute, as Linux tells it.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg") // Elsewhere there is none.
	first, _, _ := strings.Cut(string(text), " ")
	return cmp.Or(first, "unknown")
}

// webPayload is what each job is given, and what it leaves.
var webPayload = json.RawMessage(`{"payload":"` + strings.Repeat("p", 86) + `"}`)

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// plain asks for a build of n jobs of a kind that need nothing.
func plain(jobKind string, n int) *api.Submission {
	s := &api.Submission{BuildSpec: api.BuildSpec{Name: "build"}, Jobs: make([]api.JobSpec, n)}
	for i := range s.Jobs {
		id := newID()
		s.Jobs[i] = api.JobSpec{ID: &id, Name: jobKind, Kind: jobKind, System: "linux", Args: webPayload}
	}
	return s
}

// stock asks for n jobs of a kind, in builds of at most 10,000.
func (r *remote) stock(ctx context.Context, jobKind string, n int) error {
	const most = 10_000
	for ; n > 0; n -= most {
		if _, err := r.Submit(ctx, plain(jobKind, min(n, most))); err != nil {
			return err
		}
	}
	return nil
}

// hired is a worker's side of the protocol.
type hired struct {
	r    *remote
	name string
	says api.Sync
}

func (r *remote) hire(name, jobKind string, slots int) *hired {
	return &hired{r, name, api.Sync{
		Version: api.ProtocolVersion, Session: newID(), WaitSeconds: 300,
		Worker: &api.WorkerSpec{Channels: []string{api.DefaultChannel}, Kinds: []string{jobKind}, Systems: []string{"linux"}, Slots: int32(slots)},
	}}
}

// call makes the worker's next call, which wants so many jobs.
func (h *hired) call(ctx context.Context, want int) (api.SyncReply, error) {
	h.says.Number++
	h.says.Want = want
	return h.r.Sync(ctx, h.name, &h.says)
}

// register makes the worker known.
func (h *hired) register(ctx context.Context) error {
	wait := h.says.WaitSeconds
	h.says.WaitSeconds = 0
	_, err := h.call(ctx, 0)
	h.says.WaitSeconds = wait
	return err
}

// ran states that what was started has succeeded; it is stated once, as every answer here comes.
func (h *hired) ran(started []api.Start) {
	h.says.Finished = h.says.Finished[:0]
	for i := range started {
		h.says.Finished = append(h.says.Finished, api.Finished{Lease: started[i].Lease, Outcome: job.Succeeded.String(), Result: webPayload})
	}
}

// crew hires n workers that are known to the server.
func (r *remote) crew(ctx context.Context, jobKind string, n, slots int) ([]*hired, error) {
	list := make([]*hired, n)
	return list, together(64, n, func(i int) error {
		list[i] = r.hire(fmt.Sprintf("worker-%d", i), jobKind, slots)
		return list[i].register(ctx)
	})
}
