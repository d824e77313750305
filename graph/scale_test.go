package graph_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/headrace/headrace/graph"
)

// endless is a file that is made as it is read: head, then one(0), one(1), ..., one(n-1), then tail. It
// counts what was read.
type endless struct {
	n    int
	one  func(i int) string
	tail string

	i    int
	rest string
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if e.rest == "" {
			switch {
			case e.i < e.n:
				e.rest = e.one(e.i)
			case e.i == e.n:
				e.rest = e.tail
			default:
				if n == 0 {
					return 0, io.EOF
				}
				e.read += int64(n)
				return n, nil
			}
			e.i++
		}
		k := copy(p[n:], e.rest)
		n, e.rest = n+k, e.rest[k:]
	}
	e.read += int64(n)
	return n, nil
}

func jsonJobs(n int) *endless {
	return &endless{n: n, tail: "\n}}\n", one: func(i int) string {
		head := ",\n"
		if i == 0 {
			head = `{"name": "large", "jobs": {` + "\n"
		}
		return fmt.Sprintf(`%s"job-%07d": {"run": "make target-%d", "needs": [%s], "timeout": "10m"}`,
			head, i, i, need(i))
	}}
}

// need is the need of a job in a binary tree, of which the first is the root.
func need(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprintf(`"job-%07d"`, (i-1)/2)
}

func yamlJobs(n int) *endless {
	return &endless{n: n, tail: "defaults:\n  timeout: 10m\n", one: func(i int) string {
		if i == 0 {
			return "name: large\njobs:\n  job-0000000:\n    run: make target-0\n"
		}
		return fmt.Sprintf("  job-%07d:\n    run: make target-%d\n    needs: [job-%07d]\n", i, i, (i-1)/2)
	}}
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		for name, file := range map[string]func(int) *endless{"json": jsonJobs, "yaml": yamlJobs} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					before := heap()
					b.StartTimer()
					r := file(n)
					g, err := graph.Parse(r, name, graph.Limits{})
					if err != nil || len(g.Jobs) != n {
						b.Fatal(err)
					}
					b.StopTimer()
					b.ReportMetric(float64(heap()-before)/float64(n), "B/job")
					b.ReportMetric(float64(r.read)/float64(n), "file-B/job")
					runtime.KeepAlive(g)
					b.StartTimer()
				}
			})
		}
	}
}

// heap gives the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// inUse gives the bytes of the heap, garbage included.
func inUse() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
