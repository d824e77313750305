package queue_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// world is a queue on a disk in memory, with everything that a script names. It lives in a synctest bubble: time
// passes when the script says so.
type world struct {
	t     *testing.T
	start time.Time
	disk  *memory.Disk
	store *memory.Store
	queue *queue.Queue
	stop  func() // the running queue

	ids    uint64
	labels map[job.ID]string // of jobs and builds
	jobs   map[string]job.ID
	builds map[string]job.ID

	sessions map[string]job.ID // of workers
	leases   map[string]queue.Assignment
	told     map[string]bool // leases whose Stop was seen
	tasks    []*task
	seen     uint64 // rounds of the feed that were shown
}

// render shows an answer. It is called from the script's goroutine alone.
type render func() []string

// task is a command that has not answered yet.
type task struct {
	name   string
	again  []string // the command, if it is to be given again after a restart
	cancel context.CancelFunc
	done   chan render
}

// steady is a source without chance: no jitter.
type steady struct{}

func (steady) Uint64() uint64 { return 0 }

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, start: time.Now(), disk: memory.NewDisk(),
		labels: map[job.ID]string{}, jobs: map[string]job.ID{}, builds: map[string]job.ID{},
		sessions: map[string]job.ID{}, leases: map[string]queue.Assignment{}, told: map[string]bool{},
	}
	w.boot()
	return w
}

// boot starts a queue on the disk. A handle that was open before is dead from here on.
func (w *world) boot() {
	w.store = w.disk.Open()
	q, err := queue.Open(queue.Config{
		Store: w.store, History: w.store, Random: steady{}, NewID: w.newID,
		NewToken: func() job.Token { return job.Token(w.newID()) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := q.Run(ctx); err != nil {
			w.t.Errorf("run: %v", err)
		}
	}()
	w.queue, w.stop = q, func() { cancel(); <-done }
	synctest.Wait()
}

// crash stops the queue between two rounds, as if the process had died, and starts another on what is stored. It
// gives the tasks that were cut off.
func (w *world) crash() []*task {
	w.stop()
	synctest.Wait()
	cut := w.tasks
	for _, k := range cut {
		<-k.done
		k.cancel()
	}
	w.tasks = nil
	w.boot()
	return cut
}

// restart crashes where the script does not say so: who waited waits again, as a client would.
func (w *world) restart() {
	for _, k := range w.crash() {
		w.begin(step{words: k.again}, k.name)
		synctest.Wait() // one after the other, as before
	}
}

func (w *world) close() {
	w.stop()
	for _, k := range w.tasks {
		<-k.done
		k.cancel()
	}
}

func (w *world) newID() job.ID {
	w.ids++
	var id job.ID
	id[0] = 0xa0
	for i, n := 15, w.ids; n > 0; i, n = i-1, n>>8 {
		id[i] = byte(n)
	}
	return id
}

// play carries one command out, and gives what came of it: replies, then rounds of the feed.
func (w *world) play(s step) []string {
	w.t.Helper()
	name := s.words[0]
	if len(s.words) > 1 {
		name += " " + s.words[1]
	}
	var out []string
	switch s.words[0] {
	case "crash":
		for _, k := range w.crash() {
			out = append(out, k.name+": cut off")
		}
	case "advance":
		w.advance(s)
	default:
		w.begin(s, name)
		synctest.Wait()
	}
	out = append(out, w.replies(name)...)
	out = append(out, w.stops()...)
	out = append(out, w.news()...)
	w.check(s)
	for i := range out {
		out[i] = w.readable(s, out[i])
	}
	return out
}

// begin gives a command to the queue.
func (w *world) begin(s step, name string) *task {
	run := w.command(s)
	ctx, cancel := context.WithCancel(context.Background())
	k := &task{name: name, again: s.words, cancel: cancel, done: make(chan render, 1)}
	w.tasks = append(w.tasks, k)
	go func() { k.done <- run(ctx) }()
	return k
}

// replies collects what the tasks answered: first the command of this step, which may name what the others speak of.
func (w *world) replies(name string) []string {
	var out []string
	var own *task
	if n := len(w.tasks); n > 0 && w.tasks[n-1].name == name {
		own = w.tasks[n-1]
		w.tasks = w.tasks[:n-1]
		if !own.answered("-> ", &out) {
			out = append(out, "-> waits")
			defer func() { w.tasks = append(w.tasks, own) }()
		}
	}
	w.tasks = slices.DeleteFunc(w.tasks, func(k *task) bool { return k.answered(k.name+": ", &out) })
	return out
}

// answered shows the answer of a task, if it has one.
func (k *task) answered(prefix string, out *[]string) bool {
	select {
	case show := <-k.done:
		for _, l := range show() {
			*out = append(*out, prefix+l)
		}
		k.cancel()
		return true
	default:
		return false
	}
}

// stops tells which workers were told to stop an attempt.
func (w *world) stops() []string {
	var out []string
	for name, a := range w.leases {
		select {
		case <-a.Stop:
			if !w.told[name] {
				w.told[name] = true
				out = append(out, fmt.Sprintf("its worker is told to stop %s", name))
			}
		default:
		}
	}
	slices.Sort(out)
	return out
}

// advance lets time pass, with heartbeats for the named leases.
func (w *world) advance(s step) {
	o := w.options(s, s.words[2:])
	d := o.wordDuration(s.words[1])
	beats, output := o.list("beat"), o.flag("output")
	o.end()
	const step = 30 * time.Second
	for d > 0 {
		pass := d
		if len(beats) > 0 {
			pass = min(d, step)
		}
		<-time.After(pass)
		synctest.Wait()
		d -= pass
		var list []queue.Beat
		for _, name := range beats {
			b := queue.Beat{Lease: w.lease(s, name).Lease}
			if output {
				b.Output = time.Now()
			}
			list = append(list, b)
		}
		if len(list) > 0 {
			if _, err := w.queue.Heartbeat(context.Background(), list...); err != nil {
				w.t.Fatalf("%s: %v", s.place, err)
			}
			synctest.Wait()
		}
	}
}

// check holds what the queue says of itself to what is stored: a running job has exactly one lease, and
// whoever has a lease runs or is being stopped (Q5).
func (w *world) check(s step) {
	workers, err := w.queue.Workers(context.Background())
	if err != nil {
		w.t.Fatalf("%s: %v", s.place, err)
	}
	leases := map[job.ID]int{}
	for _, v := range workers {
		for _, id := range v.Leases {
			leases[id]++
		}
		if len(v.Leases) > int(v.Slots) {
			w.t.Errorf("%s: worker %s has %d leases in %d slots", s.place, v.Name, len(v.Leases), v.Slots)
		}
	}
	recs, err := w.store.Jobs(context.Background(), queue.JobFilter{Limit: 10000})
	if err != nil {
		w.t.Fatalf("%s: %v", s.place, err)
	}
	for _, r := range recs {
		want := 0
		if r.Running || r.Held {
			want = 1
		}
		if leases[r.Spec.ID] != want {
			w.t.Errorf("%s: job %s has %d leases, want %d", s.place, w.label(r.Spec.ID), leases[r.Spec.ID], want)
		}
		if r.Running && r.End != nil {
			w.t.Errorf("%s: job %s is Running and Done", s.place, w.label(r.Spec.ID))
		}
	}
}

var rawID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// readable puts names in the place of ids.
func (w *world) readable(s step, line string) string {
	return rawID.ReplaceAllStringFunc(line, func(text string) string {
		id, err := job.ParseID(text)
		if err != nil || w.labels[id] == "" {
			w.t.Errorf("%s: no name for the id in %q", s.place, line)
			return text
		}
		return w.labels[id]
	})
}

func (w *world) label(id job.ID) string {
	if l := w.labels[id]; l != "" {
		return l
	}
	return id.String()
}

// nameJob gives a job its label: its name, or, where an older job has it, the name with a number.
func (w *world) nameJob(id job.ID, name string) string {
	label := name
	for n := 2; ; n++ {
		if _, taken := w.jobs[label]; !taken {
			break
		}
		label = fmt.Sprintf("%s#%d", name, n)
	}
	w.jobs[label], w.labels[id] = id, label
	return label
}

func (w *world) since(t time.Time) string { return t.Sub(w.start).String() }

// lease finds a lease by its job's name, which means the newest attempt, or by that with the attempt's number after a dot.
func (w *world) lease(s step, name string) queue.Assignment {
	if a, ok := w.leases[name]; ok {
		return a
	}
	best := int32(0)
	var found queue.Assignment
	for n, a := range w.leases {
		if prefix, _, _ := cutLast(n, "."); prefix == name && a.Lease.Attempt > best {
			best, found = a.Lease.Attempt, a
		}
	}
	if best == 0 {
		w.t.Fatalf("%s: nobody has had a lease of %q", s.place, name)
	}
	return found
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
