package storetest

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/headrace/headrace/job"
)

const (
	// start is a moment late enough that a week before it is still a moment.
	start  = job.Time(1_800_000_000_000_000)
	second = job.Time(1_000_000)
)

// id gives the n-th id of a kind of record.
func id(kind byte, n int64) job.ID {
	var v job.ID
	v[0] = kind
	binary.BigEndian.PutUint64(v[8:], uint64(n))
	return v
}

func jobID(n int64) job.ID     { return id('j', n) }
func buildID(n int64) job.ID   { return id('b', n) }
func requestID(n int64) job.ID { return id('r', n) }

// record gives a job as it is when it is added, with every field of its Spec set.
func record(n int64, needs ...int64) job.Record {
	r := job.Record{
		Seq: n, At: start + job.Time(n),
		Spec: job.Spec{
			ID: jobID(n), Name: fmt.Sprintf("job %d", n), Channel: "main", Kind: "command", Key: fmt.Sprintf("key %d", n),
			System: "x86_64-linux", Features: []string{"big", "kvm"}, Pin: "w1", Exclusive: true, NotBefore: start + second,
			Gate:         job.Gate{Key: "gate", Limit: 3},
			Retry:        job.Retry{Failures: 1, Aborts: 2, Losses: 3, Crashes: -1, Delay: time.Second, Factor: 3},
			CacheFailure: true, Reuse: true, Estimate: time.Minute, Args: []byte(fmt.Sprintf("args %d", n)),
		},
		Own:  &job.Own{Priority: -5, Group: "g", Limits: job.Limits{Timeout: time.Hour, Silence: time.Minute}},
		Wake: start + second, Delay: time.Second,
	}
	for i, d := range needs {
		r.Spec.Needs = append(r.Spec.Needs, job.Need{Job: jobID(d), Policy: job.Policy(i % 3), Loose: i%2 == 1})
	}
	return r
}

// loaded gives the record as Load should: without payloads.
func loaded(r job.Record) job.Change {
	r.Spec.Args = nil
	if r.LastEnd != nil {
		e := *r.LastEnd
		e.Result = nil
		r.LastEnd = &e
	}
	return job.JobAdded{Record: r}
}

func attempt(n int32) job.Attempt {
	return job.Attempt{
		Number: n, Token: job.Token(id('t', int64(n))), Worker: "w1", Start: start + job.Time(n), Groups: []string{"", "g"},
		Limits: job.Limits{Timeout: time.Hour, Silence: time.Duration(n) * time.Second},
	}
}

func attemptEnd(n int32, o job.Outcome, result string) job.AttemptEnd {
	return job.AttemptEnd{
		Attempt: attempt(n), At: start + 10*second, Outcome: o, Detail: job.NotStarted, Message: "so it went", Result: []byte(result),
	}
}

func started(n int64, number int32) job.JobStarted {
	return job.JobStarted{Job: jobID(n), Seq: n, Attempt: attempt(number)}
}

// finished ends a job that runs its first attempt; settled tells that nothing is left to do.
func finished(n int64, o job.Outcome) job.JobEnded {
	a := attemptEnd(1, o, "result")
	return job.JobEnded{
		Job: jobID(n), Seq: n, End: job.End{At: a.At, Outcome: o, Message: a.Message}, Attempt: &a, Result: a.Result, Open: true,
	}
}

func settled(n int64) job.JobSettled { return job.JobSettled{Job: jobID(n), Seq: n} }

// cancelled ends a job that never ran.
func cancelled(n int64) job.JobEnded {
	return job.JobEnded{Job: jobID(n), Seq: n, End: job.End{At: start, Outcome: job.Cancelled, Detail: job.NotNeeded}}
}

// ran takes a job that is there from its start to its end.
func ran(n int64, o job.Outcome) []job.Change {
	return []job.Change{job.JobReleased{Job: jobID(n), Seq: n}, started(n, 1), finished(n, o), settled(n)}
}

func added(n int64, needs ...int64) job.JobAdded { return job.JobAdded{Record: record(n, needs...)} }

func buildRecord(n int64) job.BuildRecord {
	return job.BuildRecord{
		Seq: n, At: start + job.Time(n),
		Build: job.Build{
			ID: buildID(n), Name: fmt.Sprintf("build %d", n), Group: "g", Priority: 7,
			Limits: job.Limits{Timeout: time.Hour, Silence: time.Minute}, Gate: job.Gate{Key: "gate", Limit: 1},
			Labels: map[string]string{"b": "2", "a": "1"},
		},
	}
}
