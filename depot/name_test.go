package depot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
)

func TestNames(t *testing.T) {
	t.Parallel()
	good := []string{
		"a", "a/b", "result/nix-support/hydra-build-products", ".hidden", "..a", "a..b", "%2e%2e/x", "COM1", "index", "lock", "1.log",
		"ä/ä", "日本語.txt", strings.Repeat("x", MaxName), "a b", "-rf", "~", "C:", "a.part", "$HOME",
	}
	bad := []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "./a", "a/.", `a\b`, `..\a`, "a\x00", "a\nb", "\x7f", "a\u0085b",
		"a\xff", "\xc0\xae\xc0\xae/a", "a ", "a /b", "a.", "a./b", "...", "x" + ReservedSuffix, "x" + ReservedSuffix + "/a", strings.Repeat("x", MaxName+1),
	}
	for _, name := range good {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range bad {
		if e := wantError[*job.InvalidError](t, CheckName(name)); e.Field != "name" {
			t.Errorf("%q: %v", name, e)
		}
	}
}

func TestNamesThatFileSystemsConfuseAreApart(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	names := []string{"a", "A", "a/b", "A/b", "ä", "a\u0308", strings.Repeat("n/", 255) + "n", strings.Repeat("n/", 255) + "N"}
	for i, name := range names {
		mustPut(t, f, attempt(1), name, noise(uint64(i), 100+i))
	}
	f = again(t, f)
	for i, name := range names {
		artifactIs(t, f, attempt(1), name, noise(uint64(i), 100+i))
	}
}

// onDisk is all that a depot may make in its folder.
var onDisk = regexp.MustCompile(`^(lock|[0-9a-f]{2}(/[0-9a-f-]{36}(\.gone)?(/[0-9]+\.(log|times|zst|done|tmp|files(/(index|[0-9a-f]{40}\.[0-9a-f]{64}\.[0-9]+))?))?)?)$`)

func FuzzNameStaysInTheFolder(f *testing.F) {
	for _, name := range []string{"a", "../../x", "/etc/passwd", `..\x`, "a/../../b", "%2e%2e/x", "\xc0\xae./x", "a\x00b", "lock", "x" + ReservedSuffix} {
		f.Add(name)
	}
	dir := f.TempDir()
	home := filepath.Join(dir, "outside", "depot")
	if err := os.MkdirAll(home, 0o750); err != nil {
		f.Fatal(err)
	}
	d, err := Open(home, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := d.Close(); err != nil {
			f.Error(err)
		}
	})
	at := attempt(1)
	f.Fuzz(func(t *testing.T, name string) {
		b := []byte("content of " + name)
		n, err := d.Put(bg, at, upload(name, b), 0, strings.NewReader(string(b)))
		files := 0
		if err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
			if err != nil || p == dir || p == filepath.Dir(home) || p == home {
				return err
			}
			rel, err := filepath.Rel(home, p)
			if err != nil || !onDisk.MatchString(rel) {
				t.Errorf("%q made %q (%v)", name, p, err)
			}
			if !e.IsDir() && e.Name() != lockName {
				files++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if CheckName(name) != nil {
			var invalid *job.InvalidError
			if !errors.As(err, &invalid) || n != 0 || files != 0 {
				t.Fatalf("%q: %d, %v, %d files", name, n, err, files)
			}
			return
		}
		if err != nil || files != 2 {
			t.Fatalf("%q: %v, %d files", name, err, files)
		}
		artifactIs(t, d, at, name, b)
		if err := d.Remove(bg, at.Job); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLinkInTheFolderLeadsNowhere(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(f.dir, shelf(attempt(1).Job))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append(bg, attempt(1), 0, []byte("x"), 0); err == nil {
		t.Error("a log was written through a link")
	}
	if left, err := os.ReadDir(outside); len(left) != 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}
