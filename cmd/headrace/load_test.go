package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A load that is killed in the middle leaves no store, and nothing that keeps the next load from making one.
func TestLoadThatIsKilledLeavesNoStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	graph, store := filepath.Join(dir, "g.yaml"), filepath.Join(dir, "store")
	if err := os.WriteFile(graph, []byte("jobs: {a: {run: echo a}, b: {run: echo b, needs: [a]}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "run", graph).CombinedOutput(); err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	dump, err := exec.Command(binary, "dump", graph).Output()
	if err != nil {
		t.Fatalf("dump: %v", err)
	}
	// Far more than the pipe holds, so that what has been written has been taken.
	cmd := exec.Command(binary, "load", "--store", store)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := bytes.Cut(dump, []byte("\n{\"job\":"))
	row := []byte("\n" + `{"edge":{"seq":1,"dep":"00000000-0000-0000-0000-000000000001"}}`)
	if _, err := in.Write(append(head, bytes.Repeat(row, 10_000)...)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // it was killed
	if _, err := os.Stat(filepath.Join(store, "store.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a store after half a load: %v", err)
	}
	cmd = exec.Command(binary, "load", "--store", store)
	cmd.Stdin = bytes.NewReader(dump)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("load: %v\n%s", err, out)
	}
	again, err := exec.Command(binary, "dump", "--store", store).Output()
	if err != nil || !bytes.Equal(again, dump) {
		t.Errorf("dump after the load: %v\n%s\nwant\n%s", err, again, dump)
	}
}
