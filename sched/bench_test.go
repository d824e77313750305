package sched

import (
	"strconv"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
)

// BenchmarkNextManyGroups is one decision over a thousand share groups that each have jobs ready: a build farm where each
// asker is a group of its own.
func BenchmarkNextManyGroups(b *testing.B) {
	for _, exclusive := range []bool{false, true} {
		b.Run("exclusive="+strconv.FormatBool(exclusive), func(b *testing.B) {
			l := crowded(b, 1000, exclusive)
			b.ReportAllocs()
			for b.Loop() {
				l.now++
				l.s.Begin()
				if _, _, ok := l.s.Next(l.now); !ok {
					b.Fatal("no decision")
				}
			}
		})
	}
}

// crowded is a lab with one waiting worker and a ready job in each of n share groups.
func crowded(t failer, n int, exclusive bool) *lab {
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 1})
	for i := range n {
		l.submit(job.Build{Group: "group-" + strconv.Itoa(i)}, job.Spec{Exclusive: exclusive && i%10 == 0})
	}
	for i := range n {
		used := time.Duration(i*7919%n+1) * time.Second
		slice := int64(l.now) / int64(job.UsageSlice/time.Microsecond)
		l.do([]job.Change{job.UsagePut{Group: "group-" + strconv.Itoa(i), Slice: slice, Used: used}}, nil)
	}
	l.s.Want("w", 1, 0)
	return l
}
