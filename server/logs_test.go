package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
)

// leaseOf gives the lease of a start.
func (l *lab) leaseOf(s api.Start) job.Lease {
	l.t.Helper()
	token, err := job.ParseToken(s.Token)
	l.must(err)
	return job.Lease{Job: s.Job, Attempt: s.Attempt, Token: token}
}

// started has a worker start one job.
func (l *lab) started() (*syncer, api.Start) {
	l.t.Helper()
	return l.startedBy("w")
}

func (l *lab) startedBy(name string) (*syncer, api.Start) {
	l.t.Helper()
	l.submit(api.JobSpec{Name: "j", Pin: name})
	w := &syncer{lab: l, name: name, session: newID(), spec: spec(1)}
	got := w.sync(api.Sync{Want: 1}).Start
	if len(got) != 1 {
		l.t.Fatalf("started %+v", got)
	}
	return w, got[0]
}

func (l *lab) log(id job.ID, o api.LogOptions) (string, int64) {
	l.t.Helper()
	content, offset, err := l.Log(l.t.Context(), id, o)
	l.must(err)
	defer content.Close()
	text, err := io.ReadAll(content)
	l.must(err)
	return string(text), offset
}

// What is appended is read; a repeat is harmless, a gap is told with where to go on, and another's token is refused.
func TestLogs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w, s := l.started()
	lease := l.leaseOf(s)
	ctx := t.Context()
	if text, _ := l.log(s.Job, api.LogOptions{}); text != "" {
		t.Errorf("before anything was written: %q", text)
	}
	for i, c := range []struct {
		offset int64
		chunk  string
		size   int64
		err    error
	}{
		{0, "one\n", 4, nil},
		{0, "one\n", 4, nil},
		{2, "e\ntwo\n", 8, nil},
		{9, "gap", 8, api.ErrMismatch},
		{8, "three\n", 14, nil},
	} {
		size, err := l.AppendLog(ctx, lease, c.offset, []byte(c.chunk))
		if size != c.size || !errors.Is(err, c.err) {
			t.Errorf("%d: %d, %v; want %d, %v", i, size, err, c.size, c.err)
		}
	}
	wrong := lease
	wrong.Token[3] ^= 1
	if _, err := l.AppendLog(ctx, wrong, 14, []byte("lie")); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("with another token: %v", err)
	}
	if text, at := l.log(s.Job, api.LogOptions{Attempt: 1}); text != "one\ntwo\nthree\n" || at != 0 {
		t.Errorf("read %q from %d", text, at)
	}
	two := 2
	if text, at := l.log(s.Job, api.LogOptions{Tail: &two}); text != "two\nthree\n" || at != 4 {
		t.Errorf("the last lines are %q from %d", text, at)
	}
	if text, at := l.log(s.Job, api.LogOptions{Offset: 8}); text != "three\n" || at != 8 {
		t.Errorf("read %q from %d", text, at)
	}
	path := "/api/v1/jobs/" + s.Job.String() + "/attempts/1/log"
	if status, text := l.call("GET", path, "", "Range", "bytes=4-6"); status != http.StatusPartialContent || string(text) != "two" {
		t.Errorf("the range is %d %q", status, text)
	}
	if p := l.problem("GET", strings.Replace(path, "/1/", "/2/", 1), ""); p.Status != http.StatusNotFound {
		t.Errorf("an attempt that is not: %+v", p)
	}
	w.sync(api.Sync{Finished: []api.Finished{{Lease: s.Lease, Outcome: "succeeded"}}})
	if size, err := l.AppendLog(ctx, lease, 14, []byte("late\n")); size != 19 || err != nil {
		t.Errorf("what comes late: %d, %v", size, err)
	}
	if _, err := l.AppendLog(ctx, wrong, 19, []byte("lie")); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("late, with another token: %v", err)
	}
}

// While no server is there nothing can be sent: so the next one takes the rest of what has ended before it.
func TestLogIsStillOpenAfterARestart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	other, gone := l.startedBy("other")
	if _, err := l.AppendLog(ctx, l.leaseOf(gone), 0, []byte("gone\n")); err != nil {
		t.Fatal(err)
	}
	other.sync(api.Sync{Finished: []api.Finished{{Lease: gone.Lease, Outcome: "succeeded"}}})
	w, s := l.started()
	if _, err := l.AppendLog(ctx, l.leaseOf(s), 0, []byte("one\n")); err != nil {
		t.Fatal(err)
	}
	w.sync(api.Sync{Finished: []api.Finished{{Lease: s.Lease, Outcome: "succeeded"}}})
	l.restart()
	// What is taken away now the server sees to after what it found.
	l.must(l.queue.DeleteJob(ctx, gone.Job))
	for deadline, there := time.Now().Add(time.Minute), true; there; runtime.Gosched() {
		list, _, err := l.depot.List(ctx)
		l.must(err)
		there = slices.ContainsFunc(list, func(h depot.Holding) bool { return h.Job == gone.Job })
		if time.Now().After(deadline) {
			t.Fatal("what a deleted job left is still there")
		}
	}
	if size, err := l.AppendLog(ctx, l.leaseOf(s), 4, []byte("two\n")); size != 8 || err != nil {
		t.Errorf("the rest of a log after a restart: %d, %v", size, err)
	}
}

// Whoever follows sees each byte once, as it comes, and the end when the attempt is over.
func TestLogIsFollowed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w, s := l.started()
	lease := l.leaseOf(s)
	content, _, err := l.Log(t.Context(), s.Job, api.LogOptions{Follow: true})
	l.must(err)
	defer content.Close()
	var want bytes.Buffer
	for i := range 20 {
		piece := strings.Repeat(string(rune('a'+i)), i+1)
		if _, err := l.AppendLog(t.Context(), lease, int64(want.Len()), []byte(piece)); err != nil {
			t.Fatal(err)
		}
		want.WriteString(piece)
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(content, got); err != nil || string(got) != piece {
			t.Fatalf("followed %q, %v; want %q", got, err, piece)
		}
	}
	w.sync(api.Sync{Finished: []api.Finished{{Lease: s.Lease, Outcome: "succeeded"}}})
	if rest, err := io.ReadAll(content); err != nil || len(rest) != 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

// An artifact comes in parts, is visible when it is whole, and only to those who have its name right.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, s := l.started()
	lease := l.leaseOf(s)
	ctx := t.Context()
	text := strings.Repeat("content ", 1000)
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])
	size := int64(len(text))
	u, err := l.PutArtifact(ctx, lease, "out/a file+.txt", size, hash, 0, strings.NewReader(text[:3000]))
	if err != nil || u.Received != 3000 || u.Complete {
		t.Fatalf("the first part: %+v, %v", u, err)
	}
	if list, err := l.Artifacts(ctx, s.Job, 1); err != nil || len(list) != 0 {
		t.Errorf("visible too early: %+v, %v", list, err)
	}
	if u, err = l.PutArtifact(ctx, lease, "out/a file+.txt", size, hash, 4000, strings.NewReader(text[4000:])); !errors.Is(err, api.ErrMismatch) || u.Received != 3000 {
		t.Errorf("with a gap: %+v, %v", u, err)
	}
	if u, err = l.PutArtifact(ctx, lease, "out/a file+.txt", size, hash, 3000, strings.NewReader(text[3000:])); err != nil || !u.Complete {
		t.Fatalf("the rest: %+v, %v", u, err)
	}
	list, err := l.Artifacts(ctx, s.Job, 1)
	if err != nil || len(list) != 1 || list[0].Name != "out/a file+.txt" || list[0].SHA256 != hash {
		t.Fatalf("listed %+v, %v", list, err)
	}
	content, err := l.Artifact(ctx, s.Job, 1, "out/a file+.txt")
	l.must(err)
	got, err := io.ReadAll(content)
	content.Close()
	if err != nil || string(got) != text {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if _, err := l.PutArtifact(ctx, lease, "bad", size, strings.Repeat("0", 64), 0, strings.NewReader(text)); !errors.Is(err, api.ErrMismatch) {
		t.Errorf("a wrong hash: %v", err)
	}
	base := "/api/v1/jobs/" + s.Job.String() + "/attempts/1/artifacts/"
	for _, name := range []string{"..%2f..%2fetc%2fpasswd", "%2e%2e/x", "a%00b", "a/%2e%2e/%2e%2e/b", "%5c..%5cx", "%ff"} {
		p := l.problem("PUT", base+name+"?size=1&sha256="+hash, "x", api.LeaseHeader, s.Token)
		if p.Status != 422 && p.Status != 404 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	wrong := lease
	wrong.Token[0] ^= 1
	if _, err := l.PutArtifact(ctx, wrong, "x", 1, hash, 0, strings.NewReader("x")); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("with another token: %v", err)
	}
}

// What of a log or an artifact cannot be given is told as a problem, too; several ranges come as parts.
func TestRanges(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, s := l.started()
	_, err := l.AppendLog(t.Context(), l.leaseOf(s), 0, []byte("0123456789"))
	l.must(err)
	sum := sha256.Sum256([]byte("abc"))
	_, err = l.PutArtifact(t.Context(), l.leaseOf(s), "a.txt", 3, hex.EncodeToString(sum[:]), 0, strings.NewReader("abc"))
	l.must(err)
	at := "/api/v1/jobs/" + s.Job.String() + "/attempts/1/"
	for _, c := range []struct {
		path, header, value string
		status              int
	}{
		{"log", "Range", "bytes=20-", http.StatusRequestedRangeNotSatisfiable},
		{"log", "Range", "bytes=5-2", http.StatusRequestedRangeNotSatisfiable},
		{"artifacts/a.txt", "Range", "bytes=3-", http.StatusRequestedRangeNotSatisfiable},
		{"artifacts/a.txt", "If-Match", `"x"`, http.StatusPreconditionFailed},
	} {
		if p := l.problem("GET", at+c.path, "", c.header, c.value); p.Status != c.status || !strings.Contains(p.Detail, "header."+c.header) {
			t.Errorf("%s, %s: %s: told %+v, want %d", c.path, c.header, c.value, p, c.status)
		}
	}
	if status, text := l.call("GET", at+"log", "", "Range", "bytes=2-4"); status != http.StatusPartialContent || string(text) != "234" {
		t.Errorf("a range is answered with %d %q", status, text)
	}
	if status, text := l.call("GET", at+"log", "", "Range", "bytes=2-3,7-8"); status != http.StatusPartialContent || !bytes.Contains(text, []byte("\r\n\r\n23\r\n")) {
		t.Errorf("two ranges are answered with %d %q", status, text)
	}
	if status, _ := l.call("GET", at+"artifacts/a.txt", "", "If-None-Match", `"`+hex.EncodeToString(sum[:])+`"`); status != http.StatusNotModified {
		t.Errorf("what is known is answered with %d", status)
	}
	if status, text := l.call("HEAD", at+"log", ""); status != http.StatusOK || len(text) > 0 {
		t.Errorf("HEAD is answered with %d %q", status, text)
	}
}

// A path that is written in another way than it is meant is none, and nobody is sent elsewhere.
func TestPathsThatAreNotPlain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, path := range []string{"/api/v1//builds", "/api/v1/./builds", "/api/v1/jobs/../builds", "//api/v1/builds", "/api/v1/builds//"} {
		if p := l.problem("GET", path, ""); p.Status != http.StatusNotFound {
			t.Errorf("%s: told %+v", path, p)
		}
	}
}

// A worker that floods a log fills that log and no more: what is over the limit is refused with where it ends, others' logs go on, and so does
// its own job.
func TestFloodOfALog(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	l := makeLab(t, false, depot.Limits{Log: limit})
	w, s := l.startedBy("floods")
	other, calm := l.startedBy("calm")
	lease := l.leaseOf(s)
	chunk := bytes.Repeat([]byte("noise!\n"), 10_000)
	size, refused := int64(0), 0
	for refused < 5 {
		now, err := l.AppendLog(t.Context(), lease, size, chunk)
		switch {
		case err == nil && now > size && refused == 0:
		case errors.Is(err, api.ErrTooLarge) && now <= limit && now >= size:
			refused++
		default:
			t.Fatalf("at %d bytes, refused %d times: told %d, %v", size, refused, now, err)
		}
		size = now
	}
	if size < limit-int64(len(chunk)) {
		t.Errorf("%d bytes are kept of at most %d", size, limit)
	}
	if _, err := l.AppendLog(t.Context(), l.leaseOf(calm), 0, []byte("all is well\n")); err != nil {
		t.Errorf("another log: %v", err)
	}
	if text, _ := l.log(calm.Job, api.LogOptions{}); text != "all is well\n" {
		t.Errorf("another log is %q", text)
	}
	if text, _ := l.log(s.Job, api.LogOptions{}); int64(len(text)) != size || !strings.HasPrefix(text, "noise!\nnoise!\n") {
		t.Errorf("the log has %d bytes, want %d", len(text), size)
	}
	for _, x := range []struct {
		w *syncer
		s api.Start
	}{{w, s}, {other, calm}} {
		reply := x.w.sync(api.Sync{Finished: []api.Finished{{Lease: x.s.Lease, Outcome: "succeeded"}}})
		if len(reply.Acknowledged) != 1 || reply.Acknowledged[0].Problem != nil {
			t.Errorf("its end is told %+v", reply)
		}
	}
}
