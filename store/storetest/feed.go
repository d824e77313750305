package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func testFeed(t *testing.T, p *place) {
	for i := range int64(5) {
		if i == 2 {
			p.commit(t) // also a round without changes has its place
			continue
		}
		p.commit(t, cleared(i), cleared(i+100))
	}
	for range 2 {
		for after := range uint64(7) {
			for limit := range 4 {
				rounds, err := p.Store.Feed(t.Context(), after, limit)
				if err != nil {
					t.Fatalf("Feed(%d, %d): %v", after, limit, err)
				}
				var want []queue.Round
				for n := after + 1; n <= 5 && len(want) < limit; n++ {
					r := queue.Round{Number: n, At: start + job.Time(n)*second}
					if n != 3 {
						r.Changes = []job.Change{cleared(int64(n) - 1), cleared(int64(n) + 99)}
					}
					want = append(want, r)
				}
				same(t, fmt.Sprintf("Feed(%d, %d)", after, limit), want, rounds)
			}
		}
		p.reopen(t)
	}
}

func cleared(n int64) job.Change {
	return job.FailureCleared{Identity: job.Identity{Key: fmt.Sprint(n)}}
}

func testSecrets(t *testing.T, p *place) {
	r := record(1)
	a := attemptEnd(1, job.Succeeded, "hush")
	r.Last, r.Running = &a.Attempt, true
	p.commit(t, job.JobAdded{Record: r}, job.JobProgress{Job: jobID(1), Seq: 1, Result: []byte("hush")})
	p.commit(t, job.JobRetried{Job: jobID(1), Seq: 1, Attempt: a}, started(1, 2))
	p.commit(t, job.JobEnded{Job: jobID(1), Seq: 1, End: job.End{Outcome: job.Succeeded}, Attempt: &a, Result: []byte("hush")},
		job.SettingPut{Setting: job.Setting{Space: "token", Name: "n", Body: []byte("hush")}})
	rounds, err := p.Store.Feed(t.Context(), 0, 10)
	if err != nil || len(rounds) != 3 {
		t.Fatalf("Feed gives %d rounds, %v", len(rounds), err)
	}
	for _, r := range rounds {
		for _, c := range r.Changes {
			if s := []byte(fmt.Sprintf("%+v", flat(c))); bytes.Contains(s, []byte("hush")) || bytes.Contains(s, []byte("args 1")) {
				t.Errorf("round %d carries a secret: %s", r.Number, s)
			}
		}
	}
	put := job.SettingPut{Setting: job.Setting{Space: "token", Name: "n"}}
	same(t, "the setting in the feed", []job.Change{put}, rounds[2].Changes[1:])
	for _, token := range []job.Token{
		rounds[0].Changes[0].(job.JobAdded).Last.Token, rounds[1].Changes[0].(job.JobRetried).Attempt.Token,
		rounds[1].Changes[1].(job.JobStarted).Attempt.Token, rounds[2].Changes[0].(job.JobEnded).Attempt.Token,
	} {
		if !token.IsZero() {
			t.Error("a change of the feed carries a token")
		}
	}
}

// flat spells out what a change holds by pointer and as bytes.
func flat(c job.Change) any {
	switch c := c.(type) {
	case job.JobAdded:
		return string(c.Spec.Args)
	case job.JobProgress:
		return string(c.Result)
	case job.SettingPut:
		return string(c.Body)
	case job.JobRetried:
		return string(c.Attempt.Result)
	case job.JobEnded:
		return string(c.Result) + string(c.Attempt.Result)
	default:
		// The others carry no secret.
	}
	return c
}

func testTruncated(t *testing.T, p *place) {
	ctx := t.Context()
	for range 5 {
		p.commit(t)
	}
	p.at = start.Add(queue.FeedRetention) + 2*second
	p.commit(t) // rounds 1 and 2 are older than that now
	if _, err := p.Store.Feed(ctx, 2, 10); err != nil {
		t.Errorf("Feed after round 2: %v", err)
	}
	// They may go later, but they go, and no younger ones.
	for i := range 1000 {
		_, err := p.Store.Feed(ctx, 1, 10)
		if errors.Is(err, queue.ErrFeedTruncated) {
			break
		}
		if err != nil || i == 999 {
			t.Fatalf("Feed after round 1, after %d commits: %v", i, err)
		}
		p.at -= second
		p.commit(t)
	}
	for range 2 {
		for _, after := range []uint64{0, 1} {
			_, err := p.Store.Feed(ctx, after, 10)
			var gap *queue.FeedGapError
			if !errors.Is(err, queue.ErrFeedTruncated) || !errors.As(err, &gap) || gap.After != after || gap.Next != 2 || gap.Err != nil {
				t.Errorf("Feed after round %d: %v, want ErrFeedTruncated up to round 2", after, err)
			}
		}
		rounds, err := p.Store.Feed(ctx, 2, 1)
		if err != nil || len(rounds) != 1 || rounds[0].Number != 3 {
			t.Errorf("Feed after round 2 = %v, %v; want round 3", rounds, err)
		}
		p.reopen(t)
	}
}
