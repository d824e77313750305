package graph_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
)

// TestLimits has for each limit a file just within it and one just over.
func TestLimits(t *testing.T) {
	t.Parallel()
	a := strings.Repeat
	one := func(fields string) string { return `{"jobs": {"a": {"run": "x", ` + fields + `}}}` }
	for name, c := range map[string]struct {
		lim        graph.Limits
		good, over string
		want       string
	}{
		"jobs": {
			graph.Limits{Jobs: 2},
			`{"jobs": {"a": {"run": "x"}, "b": {"run": "x"}}}`, `{"jobs": {"a": {"run": "x"}, "b": {"run": "x"}, "c": {"run": "x"}}}`,
			"1:49: too many jobs: at most 2",
		},
		"variants": {
			graph.Limits{Jobs: 4},
			one(`"matrix": {"x": [1, 2], "y": [1, 2]}`), one(`"matrix": {"x": [1, 2, 3], "y": [1, 2]}`),
			"1:39: too many jobs: at most 4",
		},
		"variants of two": {
			graph.Limits{Jobs: 4},
			one(`"matrix": {"x": [1, 2]}}, "b": {"run": "x", "matrix": {"y": [1, 2]}`),
			one(`"matrix": {"x": [1, 2, 3]}}, "b": {"run": "x", "matrix": {"y": [1, 2]}`), "1:86: too many jobs: at most 4",
		},
		"included": {
			graph.Limits{Jobs: 2},
			one(`"matrix": {"x": [1], "include": [{"x": 2}]}`), one(`"matrix": {"x": [1], "include": [{"x": 2}, {"x": 3}]}`),
			"1:39: too many jobs: at most 2",
		},
		"json file": {
			graph.Limits{File: 31},
			`{"jobs": {"a": {"run": "123"}}}`, `{"jobs": {"a": {"run": "1234"}}}`,
			"1:32: the file is larger than 31 bytes",
		},
		"json file in a string": {
			graph.Limits{File: 31},
			`{"jobs": {"a": {"run": "123"}}}`, `{"jobs": {"a": {"run": "1234567890"}}}`,
			"1:32: the file is larger than 31 bytes",
		},
		"yaml file": {
			graph.Limits{File: 24},
			"jobs:\n  a: {run: 'xy'}\n\n", "jobs:\n  a: {run: 'xy'}\n\n\n",
			"4:1: the file is larger than 24 bytes",
		},
		"json job": {
			graph.Limits{Job: 64},
			one(`"dir": "` + a("x", 36) + `"`), one(`"dir": "` + a("x", 60) + `"`),
			"1:76: too much for one job: at most 64 bytes and 100000 values",
		},
		"yaml job": {
			graph.Limits{Job: 64},
			"jobs:\n  a: {run: x,\n   dir: " + a("x", 30) + "}", "jobs:\n  a: {run: x,\n   dir: " + a("x", 50) + "}",
			"2:1: too much for one job: at most 64 bytes and 100000 values; jobs stand one below the other, or use JSON",
		},
		"yaml line": {
			graph.Limits{Job: 64},
			"jobs:\n  a: {run: x}", "jobs:\n  a: {run: x} #" + a("x", 50),
			"2:1: too much for one job: at most 64 bytes and 100000 values",
		},
		"values": {
			graph.Limits{},
			one(`"retry-on": [` + a("1,", 999) + `1]`), one(`"retry-on": [` + a("1,", 100_000) + `1]`),
			"1:200036: too much for one job: at most 4 MiB and 100000 values",
		},
		"line": {graph.Limits{Command: 3}, `{"jobs": {"a": {"run": "xyz"}}}`, `{"jobs": {"a": {"run": "xyzz"}}}`, "1:24: run: longer than 3 bytes"},
		"argv": {graph.Limits{Command: 3}, `{"jobs": {"a": {"run": ["x", "yz"]}}}`, `{"jobs": {"a": {"run": ["x", "yzz"]}}}`, "1:24: run: longer than 3 bytes"},
		"name": {
			graph.Limits{Name: 3},
			`{"jobs": {"abc": {"run": "x"}}}`, `{"jobs": {"abcd": {"run": "x"}}}`,
			`1:11: job name "abcd": longer than 3 bytes`,
		},
		"title": {
			graph.Limits{},
			`{"name": "` + a("x", 128) + `", "jobs": {"a": {"run": "x"}}}`, `{"name": "` + a("x", 129) + `", "jobs": {"a": {"run": "x"}}}`,
			"1:10: name: longer than 128 bytes",
		},
		"variant name": {
			graph.Limits{Name: 3},
			one(`"matrix": {"x": [1]}`), one(`"matrix": {"x": [12]}`),
			`1:39: variant "a:12" of job "a": name longer than 3 bytes`,
		},
		"feature": {graph.Limits{Name: 3}, one(`"features": ["abc"]`), one(`"features": ["abcd"]`), "1:42: features: longer than 3 bytes"},
		"dir":     {graph.Limits{Text: 3}, one(`"dir": "abc"`), one(`"dir": "abcd"`), "1:36: dir: longer than 3 bytes"},
		"output":  {graph.Limits{Text: 3}, one(`"outputs": "abc"`), one(`"outputs": "abcd"`), "1:40: outputs: longer than 3 bytes"},
		"env":     {graph.Limits{Env: 4}, one(`"env": {"A": 1, "B": 2}`), one(`"env": {"A": 1, "B": 23}`), "1:45: env: more than 4 bytes"},
		"joined env": {
			graph.Limits{Env: 4},
			`{"defaults": {"env": {"A": 1}}, "jobs": {"a": {"run": "x", "env": {"B": 1}}}}`,
			`{"defaults": {"env": {"A": 1}}, "jobs": {"a": {"run": "x", "env": {"B": 12}}}}`, "1:42: env: more than 4 bytes with that of defaults",
		},
		"needs": {
			graph.Limits{Needs: 2},
			one(`"needs": {"b": "order", "c": "order"}}, "b": {"run": "x"}, "c": {"run": "x"`), one(`"needs": ["a", "b", "c"]`),
			"1:38: needs: more than 2 entries",
		},
		"needs of a matrix": {
			graph.Limits{Needs: 2},
			one(`"needs": ["b"]}, "b": {"run": "x", "matrix": {"i": [1, 2]}`), one(`"needs": ["b"]}, "b": {"run": "x", "matrix": {"i": [1, 2, 3]}`),
			"1:39: needs: more than 2 jobs",
		},
		"edges": {
			graph.Limits{Edges: 2},
			one(`"needs": "c"}, "b": {"run": "x", "needs": "c"}, "c": {"run": "x"`), one(`"needs": ["b", "c"]}, "b": {"run": "x", "needs": "c"}, "c": {"run": "x"`),
			"1:51: needs: more than 2 in all",
		},
		"list": {graph.Limits{List: 2}, one(`"outputs": ["a", "b"]`), one(`"outputs": ["a", "b", "c"]`), "1:40: outputs: more than 2 entries"},
		"features": {
			graph.Limits{},
			one(`"features": [` + letters(job.MaxFeatures) + `]`), one(`"features": [` + letters(job.MaxFeatures+1) + `]`),
			"1:41: features: more than 64 entries",
		},
		"feature with a blank": {graph.Limits{}, one(`"features": ["a-b"]`), one(`"features": ["a b"]`), `1:42: features: expected no blank, found "a b"`},
		"blank put into a feature": {
			graph.Limits{},
			one(`"features": "${matrix.x}", "matrix": {"x": ["ab"]}`), one(`"features": "${matrix.x}", "matrix": {"x": ["a b"]}`),
			`1:41: features: variant "a:a_b": expected no blank, found "a b"`,
		},
		"axis": {graph.Limits{List: 2}, one(`"matrix": {"x": [1, 2]}`), one(`"matrix": {"x": [1, 2, 3]}`), "1:45: matrix: x: more than 2 values"},
		"entries": {
			graph.Limits{List: 1},
			one(`"matrix": {"x": [1], "include": [{"x": 2}]}`), one(`"matrix": {"x": [1], "include": [{"x": 2}, {"x": 3}]}`),
			"1:61: matrix: include: more than 1 entries",
		},
		"substituted command": {
			graph.Limits{Command: 23},
			`{"jobs": {"a": {"run": "${matrix.x}${matrix.x}", "matrix": {"x": ["12345678901"]}}}}`,
			`{"jobs": {"a": {"run": "${matrix.x}${matrix.x}", "matrix": {"x": ["123456789012"]}}}}`, `1:24: run: variant "a:123456789012": longer than 23 bytes`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := graph.Parse(strings.NewReader(c.good), "f", c.lim); err != nil && name != "values" {
				t.Errorf("within: %v", err)
			}
			_, err := graph.Parse(strings.NewReader(c.over), "f", c.lim)
			if err == nil || err.Error() != "f:"+c.want {
				t.Errorf("over: got  %v\nwant f:%s", err, c.want)
			}
		})
	}
}

// TestRefusedBeforeItIsInMemory reads files that would be endless, or grow beyond measure. Each is refused after a
// part of the file, with little memory, both in proportion to the limit on a job, which is a fourth of the default.
func TestRefusedBeforeItIsInMemory(t *testing.T) {
	const forever = 1 << 40
	repeat := func(head, s string) io.Reader {
		return &endless{n: forever, one: func(i int) string {
			if i == 0 {
				return head + s
			}
			return s
		}}
	}
	axis := strings.Repeat("x,", 999)
	axis = strings.ReplaceAll(axis, "x", "%d")
	args := make([]any, 999)
	for i := range args {
		args[i] = i
	}
	axis = "[" + fmt.Sprintf(axis, args...) + "999]"
	for _, c := range []struct {
		name string
		r    io.Reader
		want string
	}{
		{"json string", repeat(`{"jobs": {"a": {"run": "`, "xxxxxxxxxxxxxxxx"), "too much for one job"},
		{"json list", repeat(`{"jobs": {"a": {"run": [`, "0,"), "too much for one job"},
		{"json name", repeat(`{"jobs": {"`, "xxxxxxxx"), "too much for one job"},
		{"json number", repeat(`{"jobs": {"a": {"retries": `, "11111111"), "more than 4096 characters"},
		{"json nesting", repeat(`{"jobs": {"a": {"run": `, "["), "nested too deeply"},
		{"json fields", repeat(`{"jobs": {"a": {`, `"a": 1,`), "given twice"},
		{"yaml line", repeat("jobs:\n  a:\n    run: ", "xxxxxxxxxxxxxxxx"), "too much for one job"},
		{"yaml lines", repeat("jobs:\n  a:\n    run: |\n", "      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"), "too much for one job"},
		{"yaml list", repeat("jobs:\n  a:\n    run:\n", "    - x\n"), "too much for one job"},
		{"yaml nesting", repeat("jobs:\n  a:\n    run: ", "[\n     "), "too much for one job"},
		{"yaml comment", repeat("jobs:\n  a:\n    run: x\n", "# xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"), "too much for one job"},
		{"yaml blocks", repeat("jobs:\n  a: {run: x}\n", "jobs:\n  a: {run: x}\n"), "given twice"},
		{"variants", strings.NewReader(`{"jobs": {"a": {"run": "x", "matrix": {"a": ` + axis + `, "b": ` + axis + `, "c": ` + axis + `}}}}`), "too many jobs"},
		{"substituted", strings.NewReader(`{"jobs": {"a": {"run": "` + strings.Repeat("${matrix.z}", 250) + `", "matrix": {"a": ` + axis +
			`, "z": ["` + strings.Repeat("z", 4096) + `"]}}}}`), "aliases, defaults and matrix variables make more"},
		{"defaults", &endless{n: 10_000, tail: `}}`, one: func(i int) string {
			if i == 0 {
				return `{"defaults": {"env": {` + manyVars(4000) + `}}, "jobs": {"j": {"run": "x", "env": {"A": 1}}`
			}
			return fmt.Sprintf(`,"j%d": {"run": "x", "env": {"A": 1}}`, i)
		}}, "aliases, defaults and matrix variables make more"},
		{"aliases", &endless{n: 100_000, one: func(i int) string {
			if i == 0 {
				return "jobs:\n  j:\n    run: x\n    env: &e {" + manyVars(4000) + "}\n"
			}
			return fmt.Sprintf("  j%d: {run: x, env: *e}\n", i)
		}}, "aliases, defaults and matrix variables make more"},
		{"edges", strings.NewReader(`{"jobs": {"a": {"run": "x", "matrix": {"a": ` + axis + `}}, "b": {"run": "x", "matrix": {"a": ` + axis + `}, "needs": "a"}}}`), "more than 500000 in all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := heap()
			lim := graph.Limits{File: 4 << 20, Job: 1 << 20, Edges: 500_000}
			counted := &counter{r: c.r}
			var most int64
			counted.each = func() { most = max(most, inUse()-before) }
			_, err := graph.Parse(counted, "f", lim)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v, want %q", err, c.want)
			}
			most = max(most, inUse()-before)
			if counted.n > 2<<20 || most > 40<<20 {
				t.Errorf("read %d KiB, used %d KiB", counted.n>>10, most>>10)
			}
		})
	}
}

// letters gives so many strings of JSON.
func letters(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%q", fmt.Sprintf("f%d", i))
	}
	return strings.Join(list, ", ")
}

func manyVars(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `, "V%d": 1`, i)
	}
	return b.String()[2:]
}

// counter counts what is read and calls each now and then.
type counter struct {
	r    io.Reader
	n    int64
	each func()
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n>>20 != (c.n+int64(n))>>20 {
		c.each()
	}
	c.n += int64(n)
	return n, err
}

// TestOneJobTooManyIsRefused reads no further than the first job too many. It does so at a tenth of the
// default, which BenchmarkParse fills.
func TestOneJobTooManyIsRefused(t *testing.T) {
	if most := graph.DefaultLimits().Jobs; most != 1_000_000 {
		t.Errorf("default limit of %d jobs", most)
	}
	r := &endless{n: 1 << 40, one: func(i int) string {
		if i == 0 {
			return "{\"jobs\": {\n\"j0\": null"
		}
		return fmt.Sprintf(",\n\"j%d\": null", i)
	}}
	before := heap()
	_, err := graph.Parse(r, "f", graph.Limits{Jobs: 100_000})
	if want := "f:100002:1: too many jobs: at most 100000"; err == nil || err.Error() != want {
		t.Fatalf("got %.200v, want %s", err, want)
	}
	if used := inUse() - before; r.i > 110_000 || used > 120<<20 {
		t.Errorf("made %d jobs, used %d MiB", r.i, used>>20)
	}
}

func TestReadErrorsComeThrough(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, start := range []string{"", "{", `{"jobs": {"a": "`, "jobs:\n", "jobs:\n  a: {"} {
		once := io.MultiReader(strings.NewReader(start), &failOnce{err: broken})
		_, err := graph.Parse(once, "f", graph.Limits{})
		if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "read f: ") {
			t.Errorf("%q: %v", start, err)
		}
	}
}

// failOnce fails, and after that is at its end.
type failOnce struct{ err error }

func (f *failOnce) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

func TestReadersOfAnySize(t *testing.T) {
	t.Parallel()
	for _, file := range []string{jsonText(t), yamlText(t)} {
		if _, err := graph.Parse(iotest.OneByteReader(strings.NewReader(file)), "f", graph.Limits{}); err != nil {
			t.Error(err)
		}
	}
}

func jsonText(t *testing.T) string { return read(t, jsonJobs(300)) }
func yamlText(t *testing.T) string { return read(t, yamlJobs(300)) }

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
