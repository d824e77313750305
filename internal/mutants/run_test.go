package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is a module with one function and its test, and with one list of faults.
func fixture(t *testing.T, faults string) (args []string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module fixture\n\ngo 1.26.0\n",
		"sum/sum.go":     "package sum\n\nfunc sum(a, b int) int {\n\treturn a + b\n}\n",
		"sum/unseen.go":  "package sum\n\nconst unseen = 1\n\nvar _ = unseen\n",
		"faults/sum.txt": faults,
		"sum/sum_test.go": "package sum\n\nimport \"testing\"\n\n" +
			"func TestSum(t *testing.T) {\n\tif got := sum(2, 3); got != 5 {\n\t\tt.Errorf(\"sum is %d\", got)\n\t}\n}\n\n" +
			"func TestBroken(t *testing.T) { t.Error(\"broken from the start\") }\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"-root", root, "-faults", filepath.Join(root, "faults")}
}

// entry is one fault of a list.
func entry(id, file, tests, before, after string) string {
	return "fault: " + id + "\nplants: as planted\nfile: " + file + "\ntests: " + tests +
		"\n-old-\n" + before + "\n-new-\n" + after + "\n-end-\n"
}

func TestFaultsAreJudged(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		faults string
		flags  []string
		code   int
		out    []string // what is printed, in this order, on either stream
	}{
		{
			name: "caught", code: 0, out: []string{"caught   minus", "by TestSum", "caught   panics", "by TestSum", "caught 2 of 2"},
			faults: entry("minus", "sum/sum.go", "./sum -run ^TestSum$", "a + b", "a - b") +
				entry("panics", "sum/sum.go", "./sum -run ^TestSum$", "\treturn a + b", "\tpanic(a)"),
		},
		{
			name: "escaped and bad", code: 1, out: []string{"ESCAPED  unseen", "as planted", "BAD      typo", "undefined: c", "caught 0 of 2"},
			faults: entry("unseen", "sum/unseen.go", "./sum -run ^TestSum$", "= 1", "= 2") +
				entry("typo", "sum/sum.go", "./sum -run ^TestSum$", "a + b", "a + c"),
		},
		{
			name: "does not apply", code: 2, out: []string{`fault "gone"`, "occurs 0 times", `fault "lost"`},
			faults: entry("gone", "sum/sum.go", "./sum", "a * b", "a") + entry("lost", "sum/lost.go", "./sum", "x", "y"),
		},
		{
			name: "no test", code: 2, out: []string{"runs no test"},
			faults: entry("minus", "sum/sum.go", "./sum -run ^TestProduct$", "a + b", "a - b"),
		},
		{
			name: "fails without a fault", code: 2, out: []string{"without a fault", "TestBroken"},
			faults: entry("minus", "sum/sum.go", "./sum", "a + b", "a - b"),
		},
		{
			name: "one only", code: 0, flags: []string{"-only", "minus"}, out: []string{"caught   minus", "caught 1 of 1"},
			faults: entry("unseen", "sum/unseen.go", "./sum -run ^TestSum$", "= 1", "= 2") +
				entry("minus", "sum/sum.go", "./sum -run ^TestSum$", "a + b", "a - b"),
		},
		{
			name: "unknown one only", code: 2, flags: []string{"-only", "plus"}, out: []string{`no fault is called "plus"`},
			faults: entry("minus", "sum/sum.go", "./sum -run ^TestSum$", "a + b", "a - b"),
		},
		{name: "none", code: 2, out: []string{"no fault is listed"}},
		{
			name: "listing", code: 0, flags: []string{"-list"}, out: []string{"minus", "sum/sum.go: as planted"},
			faults: entry("minus", "sum/sum.go", "./sum -run ^TestSum$", "a + b", "a - b"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			code := command(t.Context(), &out, &out, append(fixture(t, tt.faults), tt.flags...))
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			rest := out.String()
			for _, want := range tt.out {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("missing %q, in this order, in:\n%s", want, out.String())
				}
				rest = after
			}
		})
	}
}

func TestInterruptedRunJudgesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	args := fixture(t, entry("minus", "sum/sum.go", "./sum -run ^TestSum$", "a + b", "a - b"))
	if code := command(ctx, &out, &out, args); code != 2 || strings.Contains(out.String(), "caught") {
		t.Errorf("exit code %d, want 2, and no verdict in:\n%s", code, out.String())
	}
}

func TestTimeLimitCountsAsCatch(t *testing.T) {
	t.Parallel()
	res := read([]byte(`{"Action":"run","Package":"p","Test":"TestWait"}
{"Action":"output","Package":"p","Test":"TestWait","Output":"panic: test timed out after 2m0s\n"}
{"Action":"fail","Package":"p"}
`))
	line, ok := res.verdict(fault{id: "lost-wake-up"})
	if !ok || !strings.Contains(line, "by TestWait, by the time limit") {
		t.Errorf("%v: %s", ok, line)
	}
}
