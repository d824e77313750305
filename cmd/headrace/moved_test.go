//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What a killed run left goes on in the folder where the graph file lies now, and leaves alone what is where it lay.
func TestRunGoesOnWhereItsFolderWasMovedTo(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	before, after := filepath.Join(top, "before"), filepath.Join(top, "after")
	for _, dir := range []string{before, filepath.Join(before, "sub")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	started := newGate(t, filepath.Join(before, "started"))
	write(t, before, "g.yaml", "jobs: {here: {run: '[ -e go ] || { echo > started; sleep 1000; }; echo > made'}, "+
		"below: {needs: [here], dir: sub, run: 'echo > made'}}")
	p := start(t, before, "run", "g.yaml")
	started.meet(t, p)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end(t)
	if err := os.Rename(before, after); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(before, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{before, after} {
		write(t, dir, "go", "")
	}
	out := tell(t, after, exitOK, "run", "g.yaml")
	for path, want := range map[string]bool{"after/made": true, "after/sub/made": true, "before/made": false, "before/sub/made": false} {
		if _, err := os.Stat(filepath.Join(top, path)); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t; the run says\n%s", path, err == nil, want, out)
		}
	}
}
