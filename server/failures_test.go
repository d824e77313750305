package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/headrace/headrace/api"
)

// fail has jobs of these keys fail, so that this is remembered.
func (l *lab) fail(channel string, keys ...string) api.Receipt {
	l.t.Helper()
	in := api.Submission{BuildSpec: api.BuildSpec{Name: "b", Channel: channel}}
	for _, k := range keys {
		in.Jobs = append(in.Jobs, api.JobSpec{Name: "n " + k, Key: k, CacheFailure: true, System: "x86_64-linux"})
	}
	receipt, err := l.Submit(l.t.Context(), &in)
	l.must(err)
	name, session := "w-"+newID().String(), newID()
	say := func(s api.Sync) api.SyncReply {
		s.Version, s.Session = api.ProtocolVersion, session
		s.Worker = &api.WorkerSpec{Channels: []string{channel}, Kinds: []string{api.DefaultKind}, Systems: []string{"x86_64-linux"}, Slots: 100}
		reply, err := l.Sync(l.t.Context(), name, &s)
		l.must(err)
		return reply
	}
	for done := 0; done < len(keys); {
		var ended []api.Finished
		for _, s := range say(api.Sync{Want: len(keys), WaitSeconds: 20}).Start {
			ended = append(ended, api.Finished{Lease: s.Lease, Outcome: "failed", Message: "of " + s.Name})
		}
		say(api.Sync{Finished: ended})
		done += len(ended)
	}
	return receipt
}

// failures gives the keys that pages of a length list.
func (l *lab) failures(f api.FailureFilter) []string {
	l.t.Helper()
	keys := []string{}
	for {
		page, err := l.CachedFailures(l.t.Context(), f)
		l.must(err)
		if len(page.Items) == 0 && (page.Next != "" || f.Cursor != "") {
			l.t.Errorf("%+v: an empty page", f)
		}
		for i := range page.Items {
			keys = append(keys, page.Items[i].Channel+" "+page.Items[i].Key)
		}
		if f.Cursor = page.Next; page.Next == "" {
			return keys
		}
	}
}

// Remembered failures are listed with what is known of them, page by page, to those who may see their channels; what is cleared, or whose
// time is over, is not among them.
func TestCachedFailuresAreListed(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	same := func(what string, want, got []string) {
		t.Helper()
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%s: want %q, got %q", what, want, got)
		}
	}
	same("none", nil, l.failures(api.FailureFilter{}))
	receipt := l.fail("b", "k/1 ü", "k2", "k3")
	l.fail("a", "k1", "k2")
	l.fail("c", "k1")
	for _, limit := range []int{0, 1, 2, 3, 6} {
		same("all", []string{"a k1", "a k2", "b k/1 ü", "b k2", "b k3", "c k1"}, l.failures(api.FailureFilter{Limit: limit}))
		same("of a channel", []string{"b k/1 ü", "b k2", "b k3"}, l.failures(api.FailureFilter{Channel: "b", Limit: limit}))
		same("of a kind", []string{"a k1", "a k2", "b k/1 ü", "b k2", "b k3", "c k1"}, l.failures(api.FailureFilter{Kind: "command", Limit: limit}))
		same("of another kind", nil, l.failures(api.FailureFilter{Kind: "other", Limit: limit}))
	}
	page, err := l.CachedFailures(ctx, api.FailureFilter{Channel: "b", Limit: 1})
	l.must(err)
	v := page.Items[0]
	if v.Job == nil || *v.Job != receipt.Jobs[0].ID || v.Kind != "command" || v.System != "x86_64-linux" || v.Outcome != "failed" ||
		v.Message != "of n k/1 ü" || v.At == nil || v.Until != nil {
		t.Errorf("it tells %+v", v)
	}

	// A token of two channels sees those, one of none of them nothing.
	admin := l.Token
	for _, c := range []struct {
		channels []string
		want     []string
	}{{[]string{"c", "a", "none"}, []string{"a k1", "a k2", "c k1"}}, {[]string{"none"}, nil}} {
		made, err := l.CreateToken(ctx, &api.NewToken{Name: "t-" + newID().String(), Role: "read", Channels: c.channels})
		l.must(err)
		l.Token = made.Secret
		for _, limit := range []int{0, 1, 2} {
			same("with a token", c.want, l.failures(api.FailureFilter{Limit: limit}))
		}
		if _, err := l.CachedFailures(ctx, api.FailureFilter{Channel: "b"}); !errors.Is(err, api.ErrForbidden) {
			t.Errorf("of a channel that is not its own it is told %v", err)
		}
		l.Token = admin
	}

	// Cleared, and over: a channel that remembers for a moment alone.
	l.must(l.ClearFailure(ctx, &api.CachedFailure{Channel: "a", Kind: "command", Key: "k1"}))
	ch, err := l.Channel(ctx, "d")
	l.must(err)
	ch.FailureTTL = 0.000001
	l.must(l.SetChannel(ctx, &ch))
	l.fail("d", "k1", "k2")
	l.restart()
	for _, limit := range []int{0, 1} {
		same("what is left", []string{"a k2", "b k/1 ü", "b k2", "b k3", "c k1"}, l.failures(api.FailureFilter{Limit: limit}))
	}
	ch.FailureTTL = 3600
	l.must(l.SetChannel(ctx, &ch))
	l.fail("d", "k1")
	page, err = l.CachedFailures(ctx, api.FailureFilter{Channel: "d"})
	l.must(err)
	if len(page.Items) != 1 || page.Items[0].Until == nil || page.Items[0].Until.Sub(*page.Items[0].At).Hours() != 1 {
		t.Errorf("with a time to live: %+v", page.Items)
	}
	for _, cursor := range []string{"x", "!", "W10", "WyJhIl0"} {
		if p := l.problem(http.MethodGet, "/api/v1/cached-failures?cursor="+cursor, ""); p.Status != http.StatusUnprocessableEntity {
			t.Errorf("cursor %q: %v", cursor, p)
		}
	}
}
