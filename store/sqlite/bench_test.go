package sqlite_test

import (
	"testing"

	"github.com/headrace/headrace/store/storetest"
)

func BenchmarkCommit(b *testing.B) { storetest.Benchmark(b, open) }

func BenchmarkLookup(b *testing.B) { storetest.BenchmarkLookup(b, open, 64) }

func BenchmarkLoad(b *testing.B) { storetest.BenchmarkLoad(b, open, 100_000) }
