package storetest

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Compare gives random plausible batches to a store and to a model and wants the same answers from both, also
// after crashes. Now and then a batch has an impossible change, and both must refuse it.
func Compare(t *testing.T, model, open func(t testing.TB) Reopener) {
	rapid.Check(t, func(rt *rapid.T) {
		m, p := &place{Reopener: model(t)}, &place{Reopener: open(t)}
		defer m.Close(t)
		defer p.Close(t)
		m.reopen(t)
		p.reopen(t)
		w := &world{t: rt, at: start, built: map[int64]bool{}}
		batches := rapid.IntRange(1, 12).Draw(rt, "batches")
		for range batches {
			b := w.batch()
			want, got := m.Store.Commit(t.Context(), b), p.Store.Commit(t.Context(), b)
			if (want == nil) != (got == nil) {
				rt.Fatalf("batch %d: the model says %v, the store %v\n%#v", b.Number, want, got, b.Changes)
			}
			w.committed(want == nil)
			if w.one(4) {
				m.reopen(t)
				p.reopen(t)
				w.compare(t, m.Store, p.Store)
			}
		}
		p.reopen(t)
		w.compare(t, m.Store, p.Store)
	})
}

// Batches gives random plausible batches, one after the other, for an empty store; the same for the same seed.
func Batches(seed int) []*queue.Batch {
	return rapid.Custom(func(t *rapid.T) (list []*queue.Batch) {
		w := &world{t: t, at: start}
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			if b := w.batch(); !w.bad {
				list = append(list, b)
			}
			w.committed(!w.bad)
		}
		return list
	}).Example(seed)
}

// world is what the random changes are about. Seqs of jobs and builds run from 1.
type world struct {
	t      *rapid.T
	number uint64
	at     job.Time
	seq    int64
	jobs   []*actor
	builds []job.ID
	built  map[int64]bool // what was ever the seq of a build
	// bad: the batch under way has an impossible change.
	bad  bool
	undo world0
}

// world0 is what a refused batch takes back.
type world0 struct {
	number uint64
	seq    int64
	jobs   []actor
	builds []job.ID
}

// actor is a job that is not deleted.
type actor struct {
	seq        int64
	state      string
	number     int32
	held, open bool
	likeness   job.Likeness
}

func (w *world) pick(n int) int  { return rapid.IntRange(0, n-1).Draw(w.t, "pick") }
func (w *world) one(in int) bool { return w.pick(in) == 0 }
func (w *world) text() string {
	return []string{"", "a", "b", "ü \n'", "\x00c", "\\d\xff\xfe", "\\d\xff"}[w.pick(7)]
}
func (w *world) key() string          { return []string{"", "key 1", "key 2"}[w.pick(3)] }
func (w *world) channel() string      { return []string{"main", "other"}[w.pick(2)] }
func (w *world) kind() string         { return []string{"command", "other"}[w.pick(2)] }
func (w *world) count() int64         { return rapid.Int64Range(-3, 1<<40).Draw(w.t, "count") }
func (w *world) small() int32         { return int32(w.pick(7)) - 3 }
func (w *world) outcome() job.Outcome { return job.Outcome(w.pick(7) + 1) }

func (w *world) bytes() []byte {
	return [][]byte{nil, []byte("x"), []byte("something longer"), make([]byte, 5000)}[w.pick(4)]
}

func (w *world) strings() []string {
	return [][]string{nil, {"a"}, {"a", ""}}[w.pick(3)]
}

func (w *world) batch() *queue.Batch {
	w.undo = world0{number: w.number, seq: w.seq, builds: append([]job.ID(nil), w.builds...)}
	for _, j := range w.jobs {
		w.undo.jobs = append(w.undo.jobs, *j)
	}
	w.number++
	w.at += job.Time(w.pick(3)) * 600 * second
	b := &queue.Batch{Number: w.number, At: w.at}
	for range w.pick(12) {
		b.Changes = append(b.Changes, w.change()...)
	}
	if w.bad = w.one(8); w.bad {
		b.Changes = append(b.Changes, w.impossible())
		b.Changes = append(b.Changes, w.change()...)
	}
	for range w.pick(3) {
		b.Answers = append(b.Answers, queue.Answer{Request: requestID(int64(w.pick(6))), Reply: w.bytes()})
	}
	return b
}

// committed is told what became of the batch.
func (w *world) committed(ok bool) {
	if ok == w.bad {
		w.t.Fatalf("batch %d: accepted is %v, impossible is %v", w.number, ok, w.bad)
	}
	if ok {
		return
	}
	w.number, w.seq, w.builds, w.jobs = w.undo.number, w.undo.seq, w.undo.builds, nil
	for i := range w.undo.jobs {
		w.jobs = append(w.jobs, &w.undo.jobs[i])
	}
}

// filter gives one of any combination.
func (w *world) filter() (f queue.JobFilter) {
	for range w.pick(4) {
		switch w.pick(11) {
		case 0:
			f.IDs = append(f.IDs, jobID(int64(w.pick(int(w.seq)+1))))
		case 1:
			f.Build = buildID(int64(w.pick(int(w.seq) + 1)))
		case 2:
			f.Channel = w.channel()
		case 3:
			f.Kind = w.kind()
		case 4:
			f.Name = fmt.Sprintf("job %d", w.pick(3))
		case 5:
			f.Key = w.key()
		case 6:
			f.State = []string{"Blocked", "Ready", "Running", "Done"}[w.pick(4)]
		case 7:
			f.Outcome = w.outcome()
		case 8:
			f.Worker = w.text()
		case 9:
			f.Prefix = []string{"j", "job 1", "x"}[w.pick(3)]
		case 10:
			f.After, f.Until = w.at-job.Time(w.pick(5000))*second, w.at-job.Time(w.pick(3000))*second
		}
	}
	if f.Prefix != "" {
		f.Name = ""
	}
	f.Before, f.Limit = int64(w.pick(int(w.seq)+2)), w.pick(4)
	return f
}

func (w *world) compare(t *testing.T, model, store Store) {
	// Of what never was a build, one is enough to ask about: each costs two lists, and nearly all are jobs.
	n := everything(w.seq+1, 6, func(n int64) bool { return w.built[n] || n == 0 })
	for _, c := range []string{"main", "other"} {
		for _, k := range []string{"", "key 1", "key 2"} {
			n.identities = append(n.identities, job.Identity{Channel: c, Kind: "command", Key: k})
			n.series = append(n.series, job.Series{Channel: c, Name: k})
		}
	}
	for _, j := range w.jobs {
		n.likenesses = append(n.likenesses, j.likeness)
	}
	for range 6 {
		n.filters = append(n.filters, w.filter())
	}
	want, got := ask(w.t, t.Context(), model, n), ask(w.t, t.Context(), store, n)
	if reflect.DeepEqual(want, got) {
		return // much quicker than diff, and nearly always so
	}
	for i := range want.Lists {
		if !reflect.DeepEqual(want.Lists[i], got.Lists[i]) {
			w.t.Logf("the list of %+v differs", n.filters[i])
		}
	}
	if d := diff(want, got); d != "" {
		w.t.Fatalf("after batch %d (-model +store):\n%s", w.number, d)
	}
}
