//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// writeBig makes a JSON graph file of so many jobs, a third of which need two others.
func writeBig(t *testing.T, path string, jobs int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, `{"jobs":{`)
	for i := range jobs {
		comma, needs := ",", ""
		if i == 0 {
			comma = ""
		}
		if i > 2 && i%3 == 0 {
			needs = fmt.Sprintf(`"j%d","j%d"`, i-1, i/2)
		}
		fmt.Fprintf(w, "%s\n\"j%d\":{\"run\":\"echo %d\",\"needs\":[%s]}", comma, i, i, needs)
	}
	fmt.Fprint(w, "}}")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A plan of many jobs takes memory by their number alone: 2 KiB each at most, which a million jobs have on a small machine.
func TestDryRunOfManyJobsIsBounded(t *testing.T) {
	t.Parallel()
	const jobs, perJob = 150_000, 2048
	dir := t.TempDir()
	writeBig(t, filepath.Join(dir, "big.json"), jobs)
	p := exec.CommandContext(t.Context(), binary, "run", "--dry-run", "big.json")
	var out bytes.Buffer
	p.Dir, p.Stdout, p.Stderr = dir, &out, &out
	if err := p.Run(); err != nil {
		t.Fatalf("%v\n%.2000s", err, &out)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n < jobs {
		t.Errorf("%d lines for %d jobs", n, jobs)
	}
	rss := p.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	if limit := int64(jobs*perJob + 64<<20); rss > limit {
		t.Errorf("%d MiB of memory, want at most %d", rss>>20, limit>>20)
	}
}
