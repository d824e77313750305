package graph_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/graph"
)

var update = flag.Bool("update", false, "write what the tests of testdata get as what they want")

// TestBadFiles holds every file in testdata/bad to the messages beside it. After a change of messages
// run it with -update and read the difference as a user would.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.[jy]*")
	if err != nil || len(files) < 40 {
		t.Fatalf("files: %d, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = graph.Parse(bytes.NewReader(text), filepath.Base(file), graph.Limits{})
			var problems graph.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got error %v, want problems", err)
			}
			golden(t, strings.TrimSuffix(file, filepath.Ext(file))+strings.Replace(filepath.Ext(file), ".", "-", 1)+".want",
				problems.Error()+"\n")
		})
	}
}

// golden compares text with a file of testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
