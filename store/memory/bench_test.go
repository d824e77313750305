package memory_test

import (
	"testing"

	"github.com/headrace/headrace/store/storetest"
)

func BenchmarkCommit(b *testing.B) { storetest.Benchmark(b, open) }

func BenchmarkLoad(b *testing.B) { storetest.BenchmarkLoad(b, open, 100_000) }
