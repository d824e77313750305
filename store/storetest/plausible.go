package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
)

// change gives what might happen next.
func (w *world) change() []job.Change {
	switch w.pick(10) {
	case 0, 1:
		return []job.Change{w.addJob()}
	case 2:
		return w.aboutBuild()
	case 3:
		return []job.Change{w.setting()}
	default:
		if len(w.jobs) == 0 {
			return []job.Change{w.addJob()}
		}
		return w.aboutJob(w.jobs[w.pick(len(w.jobs))])
	}
}

func (w *world) addJob() job.Change {
	w.seq++
	r := job.Record{
		Seq: w.seq, At: w.at, Wake: job.Time(w.count()), Delay: time.Duration(w.count()),
		Spec: job.Spec{
			ID: jobID(w.seq), Name: fmt.Sprintf("job %d", w.pick(3)), Channel: w.channel(), Kind: w.kind(), Key: w.key(),
			System: w.text(), Features: w.strings(), Pin: w.text(), Exclusive: w.one(2), NotBefore: job.Time(w.count()),
			Gate: job.Gate{Key: w.text(), Limit: w.small()}, Retry: job.Retry{Aborts: w.small(), Delay: time.Duration(w.count())},
			CacheFailure: w.one(2), Reuse: w.one(2), Estimate: time.Duration(w.count()), Args: w.bytes(),
		},
	}
	for range w.pick(4) {
		need := job.Need{Job: jobID(int64(w.pick(int(w.seq) + 2))), Policy: job.Policy(w.pick(3)), Loose: w.one(2)}
		r.Spec.Needs = append(r.Spec.Needs, need)
	}
	if w.one(2) {
		r.Own = w.own()
	}
	a := &actor{seq: w.seq, state: job.Blocked{}.String(), likeness: r.Spec.Likeness()}
	if w.one(8) { // a remembered failure
		r.End, r.Open = w.end(), w.one(2)
		a.state, a.open = job.Done{}.String(), r.Open
	}
	w.jobs = append(w.jobs, a)
	return job.JobAdded{Record: r}
}

func (w *world) own() *job.Own {
	return &job.Own{Priority: w.small(), Group: w.text(), Limits: job.Limits{Timeout: time.Duration(w.count()), Silence: 1}}
}

func (w *world) end() *job.End {
	return &job.End{
		At: w.at, Outcome: w.outcome(), Detail: job.Detail(w.pick(13)), Cached: w.one(2), Root: jobID(int64(w.pick(3))),
		RootOutcome: job.Outcome(w.pick(8)), Message: w.text(),
	}
}

func (w *world) tally(n int32) job.Tally {
	return job.Tally{Attempts: n, Failures: w.small(), Aborts: w.small(), Losses: 1, Crashes: 2, HandBacks: w.small(), Turn: int64(w.small()), Fault: w.text()}
}

func (w *world) attempt(n int32) job.Attempt {
	return job.Attempt{Number: n, Token: job.Token(id('t', int64(n))), Worker: w.text(), Start: w.at, Groups: w.strings(), Limits: job.Limits{Timeout: time.Duration(w.count()), Silence: time.Duration(w.count())}}
}

func (w *world) attemptEnd(n int32) job.AttemptEnd {
	return job.AttemptEnd{
		Attempt: w.attempt(n), At: w.at, Outcome: w.outcome(), Detail: job.Detail(w.pick(13)), Message: w.text(), Result: w.bytes(),
	}
}

func (w *world) aboutJob(a *actor) []job.Change {
	id, seq := jobID(a.seq), a.seq
	switch {
	case a.state == job.Done{}.String():
		return w.aboutDone(a)
	case a.state == job.Running{}.String():
		return w.aboutRunning(a)
	case w.one(6):
		return []job.Change{job.JobKept{Job: id, Seq: seq, Own: *w.own()}}
	case w.one(6):
		return []job.Change{w.endJob(a, nil)}
	case w.one(6) && a.number > 0:
		late := w.attemptEnd(a.number)
		return []job.Change{w.endJob(a, &late)}
	case a.state == job.Blocked{}.String():
		a.state = job.Ready{}.String()
		return []job.Change{job.JobReleased{Job: id, Seq: seq}}
	case w.one(4):
		a.state = job.Blocked{}.String()
		return []job.Change{job.JobBlocked{Job: id, Seq: seq}}
	}
	a.number++
	a.state = job.Running{}.String()
	return []job.Change{job.JobStarted{Job: id, Seq: seq, Attempt: w.attempt(a.number)}}
}

func (w *world) aboutRunning(a *actor) []job.Change {
	id, seq := jobID(a.seq), a.seq
	switch w.pick(4) {
	case 0:
		return []job.Change{job.JobProgress{Job: id, Seq: seq, Result: w.bytes()}}
	case 1:
		a.state = job.Blocked{}.String()
		return []job.Change{job.JobRetried{
			Job: id, Seq: seq, Attempt: w.attemptEnd(a.number), Tally: w.tally(a.number), Wake: job.Time(w.count()), Delay: 5,
		}}
	}
	e := w.attemptEnd(a.number)
	c := w.endJob(a, &e)
	a.held = w.one(3)
	c.Held = a.held
	return []job.Change{c, job.DurationLearned{Series: job.Series{Channel: w.channel(), Name: w.key()}, Took: time.Duration(w.count())}}
}

func (w *world) endJob(a *actor, e *job.AttemptEnd) job.JobEnded {
	a.state, a.open = job.Done{}.String(), w.one(2)
	c := job.JobEnded{Job: jobID(a.seq), Seq: a.seq, End: *w.end(), Attempt: e, Result: w.bytes(), Open: a.open}
	if e != nil && w.one(2) {
		c.Result = e.Result
	}
	return c
}

func (w *world) aboutDone(a *actor) []job.Change {
	switch {
	case a.open && w.one(2):
		a.open = false
		return []job.Change{settled(a.seq)}
	case a.held:
		a.held = false
		return []job.Change{job.JobFreed{Job: jobID(a.seq), Seq: a.seq, At: w.at}}
	case !a.open && w.one(2):
		w.jobs = slices.DeleteFunc(slices.Clone(w.jobs), func(b *actor) bool { return a == b })
		return []job.Change{job.JobDeleted{Job: jobID(a.seq)}}
	}
	return nil
}

func (w *world) aboutBuild() []job.Change {
	if len(w.builds) == 0 || w.one(4) {
		w.seq++
		w.built[w.seq] = true
		r := buildRecord(w.seq)
		r.Staged, r.Active, r.Build.Labels = w.one(2), w.one(2), map[string]string{"k": w.text()}
		w.builds = append(w.builds, r.Build.ID)
		return []job.Change{job.BuildAdded{BuildRecord: r}}
	}
	i := w.pick(len(w.builds))
	b := w.builds[i]
	switch w.pick(12) {
	case 0:
		return []job.Change{job.BuildSealed{Build: b}}
	case 1:
		return []job.Change{job.BuildActivated{Build: b}}
	case 2:
		return []job.Change{job.BuildBumped{Build: b, Priority: w.small()}}
	case 3:
		return []job.Change{job.BuildEnded{Build: b, At: w.at, Outcome: w.outcome(), Spare: w.one(2)}}
	case 4:
		w.builds = slices.Delete(w.builds, i, i+1)
		return []job.Change{job.BuildEnded{Build: b, At: w.at, Outcome: job.Cancelled, Erased: true}}
	case 5:
		w.builds = slices.Delete(w.builds, i, i+1)
		return []job.Change{job.BuildDeleted{Build: b}}
	}
	c := job.BuildReferred{Build: b}
	for range w.pick(4) {
		if len(w.jobs) > 0 {
			c.Refs = append(c.Refs, job.Ref{
				Job: jobID(w.jobs[w.pick(len(w.jobs))].seq), Awaited: w.one(2), Optional: w.one(2), Priority: w.small(),
				Limits: job.Limits{Timeout: time.Duration(w.count()), Silence: time.Duration(w.count())},
			})
		}
	}
	return []job.Change{c}
}

func (w *world) setting() job.Change {
	i := job.Identity{Channel: w.channel(), Kind: "command", Key: w.key()}
	switch w.pick(10) {
	case 0:
		return job.WorkerPut{Worker: job.Worker{Name: w.text(), Kinds: w.strings(), Slots: w.small(), Speed: 0.5, Delay: time.Duration(w.count())}}
	case 1:
		return job.WorkerRemoved{Name: w.text()}
	case 2:
		return job.ClassMarked{Class: job.Class{Channel: w.channel(), System: w.text()}, Since: job.Time(w.pick(2)) * w.at}
	case 3:
		return job.ChannelPut{Channel: job.Channel{Name: w.channel(), Grace: time.Duration(w.count()), GroupShares: map[string]int32{w.text(): 1}}}
	case 4:
		slice := int64(w.at)/int64(job.UsageSlice/time.Microsecond) - int64(w.pick(3))
		return job.UsagePut{Channel: w.channel(), Group: w.text(), Slice: slice, Used: time.Duration(w.count())}
	case 5:
		return job.DurationLearned{Series: job.Series{Channel: i.Channel, Name: i.Key}, Took: time.Duration(w.count())}
	case 6:
		return job.FailureCached{Identity: i, Class: job.Class{System: w.text()}, Job: jobID(1), Outcome: w.outcome(), At: w.at, Until: job.Time(w.count()), Message: w.text()}
	case 7:
		return job.SettingPut{Setting: job.Setting{Space: w.channel(), Name: w.text(), Body: w.bytes()}}
	case 8:
		return job.SettingRemoved{Space: w.channel(), Name: w.text()}
	}
	return job.FailureCleared{Identity: i}
}

// impossible gives what cannot happen.
func (w *world) impossible() job.Change {
	const no = 1 << 30
	all := []job.Change{
		started(no, 1), finished(no, job.Failed), settled(no),
		job.JobDeleted{Job: jobID(no)},
		job.BuildSealed{Build: buildID(no)},
		job.BuildReferred{Build: buildID(no)},
	}
	if len(w.jobs) > 0 {
		all = append(all, added(w.jobs[0].seq))
	}
	if len(w.builds) > 0 {
		all = append(all, job.BuildReferred{Build: w.builds[0], Refs: []job.Ref{{Job: jobID(no)}}})
	}
	return all[w.pick(len(all))]
}
