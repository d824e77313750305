package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Benchmark measures the life of jobs at several sizes of batches: one batch adds them, the next starts them, the
// next ends and settles them. An operation is one job's whole life: the job with three dependencies, an attempt, an
// end and a result. The longest commit is reported too: it is one that also tidies up.
func Benchmark(b *testing.B, open func(t testing.TB) Reopener) {
	for _, size := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			place := open(b)
			defer place.Close(b)
			l := lives{store: place.Open(b), size: size, at: start}
			for l.seq < 20_000 && size > 8 {
				l.round(b) // a store that has seen some work
			}
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += size {
				l.size = min(size, b.N-done)
				l.round(b)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
			b.ReportMetric(float64(l.longest.Milliseconds()), "ms-longest-commit")
		})
	}
}

// lives runs jobs through a store.
type lives struct {
	store   Store
	size    int
	number  uint64
	at      job.Time
	seq     int64
	longest time.Duration // commit
	added   []job.Change
	started []job.Change
	ended   []job.Change
}

func (l *lives) round(b *testing.B) {
	b.StopTimer()
	l.added, l.started, l.ended = l.added[:0], l.started[:0], l.ended[:0]
	for range l.size {
		l.seq++
		l.added = append(l.added, job.JobAdded{Record: waiting(l.seq)})
		a := job.Attempt{Number: 1, Token: job.Token(id('t', l.seq)), Worker: "builder-17", Start: l.at, Groups: []string{"main"}}
		l.started = append(l.started, job.JobStarted{Job: jobID(l.seq), Seq: l.seq, Attempt: a})
		e := job.AttemptEnd{Attempt: a, At: l.at, Outcome: job.Succeeded, Result: []byte(`{"exit":0,"outputs":["/store/some/path"]}`)}
		l.ended = append(l.ended, job.JobEnded{
			Job: jobID(l.seq), Seq: l.seq, End: job.End{At: l.at, Outcome: job.Succeeded}, Attempt: &e, Result: e.Result, Open: true,
		}, settled(l.seq))
	}
	b.StartTimer()
	for _, changes := range [][]job.Change{l.added, l.started, l.ended} {
		l.number++
		l.at += second / 100
		began := time.Now()
		if err := l.store.Commit(b.Context(), &queue.Batch{Number: l.number, At: l.at, Changes: changes}); err != nil {
			b.Fatal(err)
		}
		l.longest = max(l.longest, time.Since(began))
	}
}

// BenchmarkLookup measures what a round asks that finishes so many jobs: an answer, a learned duration, a kept
// success and a settled job for each.
func BenchmarkLookup(b *testing.B, open func(t testing.TB) Reopener, commands int) {
	place := open(b)
	defer place.Close(b)
	l := lives{store: place.Open(b), size: 1000, at: start}
	for l.seq < 20_000 {
		l.round(b)
	}
	b.ReportAllocs()
	b.ResetTimer()
	n := int64(0)
	for range b.N {
		b.StopTimer()
		l.size = 1
		l.round(b) // a queue asks once between two commits
		b.StopTimer()
		var q queue.Query
		for range commands {
			n = (n + 7919) % l.seq
			s := waiting(n + 1).Spec
			q.Jobs, q.Kept = append(q.Jobs, s.ID), append(q.Kept, s.Likeness())
			q.Took, q.Requests = append(q.Took, s.Series()), append(q.Requests, requestID(n))
		}
		b.StartTimer()
		if f, err := l.store.Lookup(b.Context(), &q); err != nil || len(f.Jobs) != commands {
			b.Fatal(len(f.Jobs), err)
		}
	}
}

// waiting gives a job as farms have them.
func waiting(n int64) job.Record {
	r := job.Record{Seq: n, At: start, Spec: job.Spec{
		ID: jobID(n), Name: fmt.Sprintf("library-%d", n%5000), Channel: "main", Kind: "command", Key: fmt.Sprintf("%032x", n*7919),
		System: "x86_64-linux", Features: []string{"big-parallel"}, Args: []byte(`{"argv":["/bin/sh","-c","make -C somewhere all"],"env":{"A":"b"}}`),
	}}
	for d := max(1, n-3); d < n; d++ {
		r.Spec.Needs = append(r.Spec.Needs, job.Need{Job: jobID(d)})
	}
	return r
}

// BenchmarkLoad measures how long so many waiting jobs take to load.
func BenchmarkLoad(b *testing.B, open func(t testing.TB) Reopener, jobs int) {
	place := open(b)
	defer place.Close(b)
	l := lives{store: place.Open(b), at: start}
	for l.seq < int64(jobs) {
		var changes []job.Change
		for range 1000 {
			l.seq++
			changes = append(changes, job.JobAdded{Record: waiting(l.seq)})
		}
		l.number++
		if err := l.store.Commit(b.Context(), &queue.Batch{Number: l.number, At: start, Changes: changes}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		if _, err := l.store.Load(b.Context(), func(job.Change) error { return nil }); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(jobs)/time.Since(began).Seconds(), "jobs/s")
	}
}
