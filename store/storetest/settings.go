package storetest

import (
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func testSettings(t *testing.T, p *place) {
	channel := func(name string) job.ChannelPut {
		c := job.DefaultChannel(name)
		c.Discipline, c.CallerJudges, c.FailureTTL, c.Paused, c.PausedKinds = job.ByAge, true, time.Hour, true, []string{"k"}
		c.GroupShares = map[string]int32{"g": 2, "a": 1}
		return job.ChannelPut{Channel: c}
	}
	worker := func(name string) job.WorkerPut {
		return job.WorkerPut{Worker: job.Worker{
			Name: name, Channels: []string{"main"}, Kinds: []string{"command"}, Systems: []string{"s"}, Features: []string{"f", "m"},
			Mandatory: []string{"m"}, Slots: 4, Speed: 1.5, Session: id('s', 1), Drained: true, Faults: 2, Until: start, Delay: time.Hour,
		}}
	}
	class := func(name string, since job.Time) job.ClassMarked {
		return job.ClassMarked{Class: job.Class{Channel: name, Kind: "k", System: "s", Features: "a b", Pin: "p"}, Since: since}
	}
	setting := func(space, name, body string) job.SettingPut {
		return job.SettingPut{Setting: job.Setting{Space: space, Name: name, Body: []byte(body)}}
	}
	gone := func(space, name string) job.SettingRemoved { return job.SettingRemoved{Space: space, Name: name} }
	now := int64(start) / int64(job.UsageSlice/time.Microsecond)
	usage := func(back int64, group string, used time.Duration) job.UsagePut {
		return job.UsagePut{Channel: "main", Group: group, Slice: now - back, Used: used}
	}
	old := worker("b")
	old.Worker.Slots = 1
	p.commit(t, channel("b"), channel("a"), old, worker("a"), worker("b"), worker("c"), job.WorkerRemoved{Name: "c"},
		class("b", start), class("a", start), class("c", start), class("c", 0),
		setting("token", "b", "secret"), setting("token", "a", "old"), setting("token", "a", "new"), setting("schedule", "a", ""),
		setting("token", "c", "x"), gone("token", "c"),
		usage(1, "g", time.Minute), usage(0, "g", time.Second), usage(0, "a", time.Hour), usage(0, "g", time.Hour))
	for range 2 {
		p.reopen(t)
		_, changes := load(t, p.Store)
		same(t, "settings", []job.Change{
			channel("a"), channel("b"), class("a", start), class("b", start), worker("a"), worker("b"),
			setting("schedule", "a", ""), setting("token", "a", "new"), setting("token", "b", "secret"),
			usage(1, "g", time.Minute), usage(0, "a", time.Hour), usage(0, "g", time.Hour),
		}, changes)
	}
	paused := channel("a")
	paused.Channel.Paused = false
	p.commit(t, paused, job.WorkerRemoved{Name: "a"}, worker("d"), job.WorkerRemoved{Name: "d"}, job.WorkerRemoved{Name: "never"},
		gone("token", "b"), gone("token", "never"), gone("schedule", "a"), setting("schedule", "a", "again"),
		class("a", 0), class("never", 0), usage(1, "g", time.Hour))
	p.reopen(t)
	_, changes := load(t, p.Store)
	same(t, "settings", []job.Change{
		paused, channel("b"), class("b", start), worker("b"), setting("schedule", "a", "again"), setting("token", "a", "new"),
		usage(1, "g", time.Hour), usage(0, "a", time.Hour), usage(0, "g", time.Hour),
	}, changes)
}

func testUsageLapses(t *testing.T, p *place) {
	width := job.Time(job.UsageSlice / time.Microsecond)
	count := int(job.UsageWindow / job.UsageSlice)
	p.at = start / width * width
	var want []job.Change
	for i := range 2 * count {
		u := job.UsagePut{Channel: "main", Group: "g", Slice: int64(p.at / width), Used: time.Duration(i) * time.Second}
		p.commit(t, u)
		p.at += width - second // the next is exactly one slice later
		want = append(want, u)
	}
	p.reopen(t)
	_, changes := load(t, p.Store)
	same(t, "usage of the last day", want[count:], changes)
}

func testKept(t *testing.T, p *place) {
	with := func(n int64, key, system string) job.JobAdded {
		a := added(n)
		a.Spec.Key, a.Spec.System, a.Spec.Features, a.Spec.Pin = key, system, nil, ""
		return a
	}
	like := func(system string) job.Likeness {
		return job.Likeness{Class: job.Class{Channel: "main", Kind: "command", System: system}, Key: "k"}
	}
	ask := func() map[job.Likeness]job.ID {
		t.Helper()
		p.reopen(t)
		return lookup(t, p.Store, &queue.Query{Kept: []job.Likeness{
			like("x"), like("y"), like(""),
			{Class: job.Class{Channel: "other", Kind: "command", System: "x"}, Key: "k"},
			{Class: job.Class{Channel: "main", Kind: "other", System: "x"}, Key: "k"},
			{Class: like("x").Class},
			{Class: job.Class{Channel: "main", Kind: "command", System: "x", Features: "f"}, Key: "k"},
			{Class: job.Class{Channel: "main", Kind: "command", System: "x", Pin: "w"}, Key: "k"},
		}}).Kept
	}
	kept := func(what string, want map[job.Likeness]job.ID) {
		t.Helper()
		same(t, what, want, ask())
	}
	p.commit(t, with(1, "k", "x"), with(2, "k", "x"), with(3, "k", "x"), with(4, "", "x"), with(5, "k", "y"))
	kept("none ended", nil)
	p.commit(t, ran(4, job.Succeeded)...)
	p.commit(t, ran(2, job.Succeeded)...)
	kept("one succeeded", map[job.Likeness]job.ID{like("x"): jobID(2)})
	p.commit(t, ran(3, job.Failed)...)
	kept("a newer one failed", map[job.Likeness]job.ID{like("x"): jobID(2)})
	p.commit(t, ran(1, job.Succeeded)...)
	kept("an older one succeeded later", map[job.Likeness]job.ID{like("x"): jobID(2)})
	p.commit(t, ran(5, job.Succeeded)...)
	kept("a newer one of another system", map[job.Likeness]job.ID{like("x"): jobID(2), like("y"): jobID(5)})
	p.commit(t, job.JobDeleted{Job: jobID(2)})
	kept("the newest was deleted", map[job.Likeness]job.ID{like("x"): jobID(1), like("y"): jobID(5)})
	p.commit(t, job.JobDeleted{Job: jobID(1)}, job.JobDeleted{Job: jobID(5)})
	kept("all were deleted", nil)

	// One that is behind too many of another system is not looked for, lest a lookup read them all.
	const first, last = 6, 6 + queue.KeptMost
	for n := int64(first); n <= last; n++ {
		system := "x"
		if n == first {
			system = "y"
		}
		p.commit(t, append([]job.Change{with(n, "k", system)}, ran(n, job.Succeeded)...)...)
		if n == last-1 {
			kept("just in reach", map[job.Likeness]job.ID{like("x"): jobID(n), like("y"): jobID(first)})
		}
	}
	kept("out of reach", map[job.Likeness]job.ID{like("x"): jobID(last)})
}

func testCached(t *testing.T, p *place) {
	i := job.Identity{Channel: "main", Kind: "command", Key: "k"}
	f := job.FailureCached{Identity: i, Class: job.Class{Channel: "main", Kind: "command", System: "x"}, Job: jobID(1), Outcome: job.Failed, At: start, Until: start + second, Message: "bad"}
	ask := func() map[job.Identity]*job.FailureCached {
		t.Helper()
		p.reopen(t)
		return lookup(t, p.Store, &queue.Query{Cached: []job.Identity{i, {Key: "k"}}}).Cached
	}
	p.commit(t, job.FailureCleared{Identity: i})
	p.commit(t, f)
	same(t, "cached", map[job.Identity]*job.FailureCached{i: &f}, ask())
	f.Job, f.Message = jobID(2), "worse"
	p.commit(t, f)
	same(t, "cached again", map[job.Identity]*job.FailureCached{i: &f}, ask())
	p.commit(t, job.FailureCleared{Identity: i})
	same(t, "cleared", map[job.Identity]*job.FailureCached(nil), ask())
}

// The store merges durations by Learn, also several of one batch.
func testLearned(t *testing.T, p *place) {
	s := job.Series{Channel: "main", Kind: "command", Name: "job"}
	var want time.Duration
	n := int64(0)
	for batch := range 4 {
		var changes []job.Change
		for i := range batch {
			took := time.Duration(batch*1000+i*77) * time.Second
			changes = append(changes, job.DurationLearned{Series: s, Took: took})
			want = job.Learn(want, n, took)
			n++
		}
		p.commit(t, changes...)
		p.reopen(t)
		got := lookup(t, p.Store, &queue.Query{Took: []job.Series{s, {Name: "job"}}}).Took
		if n > 0 {
			same(t, "learned", map[job.Series]time.Duration{s: want}, got)
		} else {
			same(t, "learned", map[job.Series]time.Duration(nil), got)
		}
	}
}

func testAnswers(t *testing.T, p *place) {
	commit := func(at job.Time, answers ...queue.Answer) {
		t.Helper()
		p.number++
		if err := p.Store.Commit(t.Context(), &queue.Batch{Number: p.number, At: at, Answers: answers}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func() map[job.ID][]byte {
		t.Helper()
		p.reopen(t)
		return lookup(t, p.Store, &queue.Query{Requests: []job.ID{requestID(1), requestID(2), requestID(3)}}).Answers
	}
	commit(start, queue.Answer{Request: requestID(1), Reply: []byte("first")}, queue.Answer{Request: requestID(2)})
	same(t, "answers", map[job.ID][]byte{requestID(1): []byte("first"), requestID(2): {}}, ask())
	commit(start+second, queue.Answer{Request: requestID(1), Reply: []byte("second")})
	same(t, "the first answer stands", map[job.ID][]byte{requestID(1): []byte("first"), requestID(2): {}}, ask())
	commit(start.Add(queue.AnswerRetention), queue.Answer{Request: requestID(3), Reply: []byte("third")})
	same(t, "kept for so long", 3, len(ask()))
	// They may go later, but they go.
	for i := range 1000 {
		commit(start.Add(queue.AnswerRetention) + second + job.Time(i))
		if i%100 == 0 && len(ask()) == 1 {
			break
		}
	}
	same(t, "answers that are not old", map[job.ID][]byte{requestID(3): []byte("third")}, ask())
}
