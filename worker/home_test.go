package worker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

func openHome(t *testing.T, dir string) *Home {
	t.Helper()
	h, err := OpenHome(dir, "w")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func shut(t *testing.T, h *Home) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func lease(t *testing.T) job.Lease {
	t.Helper()
	l, err := leaseOf(&api.Lease{Job: freshID(), Attempt: 3, Token: freshID().String()})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestHomeKeepsWhatMustOutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := openHome(t, dir)
	owner, session := h.Owner(), freshID()
	begun, ended, told := lease(t), lease(t), lease(t)
	report := &job.Report{Lease: ended, Outcome: job.Failed, Detail: job.LogLimit, Message: "no\xff", Result: []byte(`{"n":1}`), NoRetry: true}
	for _, err := range []error{h.begin(session), h.begin(session), h.took(begun), h.took(ended), h.ended(report), h.took(told), h.tell(told)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	shut(t, h)
	h = openHome(t, dir)
	defer shut(t, h)
	if h.Owner() != owner {
		t.Error("another owner")
	}
	if diff := cmp.Diff([]job.ID{session}, h.sessions()); diff != "" {
		t.Error(diff)
	}
	left, notes, err := h.left()
	if err != nil || len(notes) > 0 || len(left) != 2 {
		t.Fatalf("left %+v, %v, %v", left, notes, err)
	}
	for i := range left {
		if left[i].Outcome == "" {
			if l, err := leaseOf(&left[i].Lease); err != nil || l != begun {
				t.Errorf("%+v, %v", left[i], err)
			}
			continue
		}
		got, err := reportOf(&left[i])
		if err != nil || got.Lease != ended || got.Outcome != job.Failed || got.Detail != job.LogLimit || got.Message != "no?" ||
			string(got.Result) != `{"n":1}` || !got.NoRetry {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if err := h.over(session); err != nil || len(h.sessions()) > 0 {
		t.Errorf("sessions %v, %v", h.sessions(), err)
	}
}

// A log that is not shipped stays, and so does its attempt; what comes last takes both away.
func TestHomeForgetsAnAttemptThatIsToldAndShipped(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"told", "shipped"} {
		h := openHome(t, t.TempDir())
		defer shut(t, h)
		l := lease(t)
		h.ship(l)
		if err := errors.Join(h.took(l), os.MkdirAll(filepath.Dir(h.logOf(l)), 0o700), os.WriteFile(h.logOf(l), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		steps := []func(job.Lease) error{h.tell, h.shipped}
		if first == "shipped" {
			steps[0], steps[1] = steps[1], steps[0]
		}
		for i, step := range steps {
			if n := len(journal(t, h)); n != 2 {
				t.Errorf("%s first, before step %d: %d files are left, want 2", first, i, n)
			}
			if err := step(l); err != nil {
				t.Fatal(err)
			}
		}
		if left, err := os.ReadDir(h.Logs()); err != nil || len(left) > 0 || len(journal(t, h)) > 0 {
			t.Errorf("%s first: left %v %v, %v", first, journal(t, h), left, err)
		}
	}
}

// What is damaged is set aside; what is half written never counted.
func TestHomeSetsDamagedRecordsAside(t *testing.T) {
	t.Parallel()
	h := openHome(t, t.TempDir())
	defer shut(t, h)
	good := lease(t)
	if err := h.took(good); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.Dir(), journalDir)
	for name, text := range map[string]string{
		"a.json": "", "b.json": `{"job":"x"}`, "c.json": `{"job":"` + freshID().String() + `","attempt":1,"token":"` + freshID().String() + `","outcome":"merry"}`,
		"d.json.new": "{", "README": "mine",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left, notes, err := h.left()
	if err != nil || len(left) != 1 || len(notes) != 3 {
		t.Fatalf("left %+v, notes %q, %v", left, notes, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{good.Job.String() + ".3.json", "README", "a.json.bad", "b.json.bad", "c.json.bad"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if left, notes, err = h.left(); err != nil || len(left) != 1 || len(notes) > 0 {
		t.Errorf("the second time: left %+v, notes %q, %v", left, notes, err)
	}
}

func TestHomeIsForOneWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := openHome(t, dir)
	var held *HomeHeldError
	if _, err := OpenHome(dir, "w"); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("a second process is told %v", err)
	}
	shut(t, h)
	if _, err := OpenHome(dir, "other"); err == nil || !strings.Contains(err.Error(), `it is that of worker "w", not of "other"`) {
		t.Errorf("another worker is told %v", err)
	}
	// A copy may be at work beside, and must not be killed.
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	c := openHome(t, copied)
	defer shut(t, c)
	if c.Owner() == h.Owner() {
		t.Error("a copy of the folder has the same owner")
	}
	if err := os.WriteFile(filepath.Join(dir, identityFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHome(dir, "w"); err == nil || !strings.Contains(err.Error(), "is damaged; remove the folder") {
		t.Errorf("a damaged folder: %v", err)
	}
	for _, sub := range []string{journalDir, logsDir} {
		if fi, err := os.Stat(filepath.Join(dir, sub)); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; want it for its user alone", sub, fi, err)
		}
	}
}

func TestReportsThatTheServerWouldRefuseAreCut(t *testing.T) {
	t.Parallel()
	l := lease(t)
	f := wireReport(&job.Report{Lease: l, Outcome: job.Succeeded, Result: make([]byte, job.MaxResult+1)})
	if f.Outcome != "failed" || f.Detail != "output-limit" || f.Result != nil || f.Message == "" {
		t.Errorf("a result that is too long: %+v", f)
	}
	f = wireReport(&job.Report{Lease: l, Outcome: job.Succeeded, Result: []byte("abc"), Message: strings.Repeat("ä", job.MaxMessage)})
	if string(f.Result) != `"YWJj"` || len(f.Message) > job.MaxMessage {
		t.Errorf("result %s, message of %d bytes", f.Result, len(f.Message))
	}
}

func TestCheckSystems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		machine, os string
		systems     []string
		ok          bool
	}{
		{"x86_64", "Linux", []string{"x86_64-linux"}, true},
		{"x86_64", "Linux", []string{"i686-linux", "x86_64-linux"}, true},
		{"x86_64", "Linux", []string{"aarch64-linux"}, false},
		{"i686", "Linux", []string{"x86_64-linux"}, false},
		{"aarch64", "Linux", []string{"armv7l-linux"}, true},
		{"arm64", "Darwin", []string{"aarch64-darwin"}, true},
		{"amd64", "FreeBSD", []string{"x86_64-freebsd"}, true},
		{"x86_64", "Linux", []string{"x86_64-darwin"}, false},
		{"x86_64", "Linux", []string{"linux"}, false},
		{"riscv64", "Linux", []string{"riscv64-linux"}, true},
	} {
		if err := checkSystems(tt.machine, tt.os, tt.systems); (err == nil) != tt.ok {
			t.Errorf("%s %s as %v: %v", tt.machine, tt.os, tt.systems, err)
		}
	}
}
