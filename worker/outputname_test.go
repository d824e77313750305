package worker

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutputPathsSurviveJSON(t *testing.T) {
	t.Parallel()
	want := CommandResult{Outputs: []CommandOutput{
		{Path: "plain/a.txt", Size: 1, SHA256: "aa"}, {Path: "b\xff\xfe.bin", Size: 2, SHA256: "bb"}, {Path: "b\ufffd\ufffd.bin", Size: 3, SHA256: "cc"},
	}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got CommandResult
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("through %s (-want +got):\n%s", text, d)
	}
}
