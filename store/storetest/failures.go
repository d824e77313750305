package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func listCached(t *testing.T, p *place, f queue.FailureFilter) []job.FailureCached {
	t.Helper()
	found, err := p.Store.CachedFailures(t.Context(), f)
	if err != nil {
		t.Fatalf("cached failures %+v: %v", f, err)
	}
	return found
}

// Remembered verdicts are listed by channel, kind and key, each once, however long the pages are.
func testCachedList(t *testing.T, p *place) {
	same(t, "none", 0, len(listCached(t, p, queue.FailureFilter{})))
	var all []job.FailureCached
	for _, channel := range []string{"a", "ab", "b", "é"} {
		for _, kind := range []string{"k", "k2", "l"} {
			for n := range 4 {
				i := job.Identity{Channel: channel, Kind: kind, Key: fmt.Sprint("key ", n)}
				all = append(all, job.FailureCached{
					Identity: i, Class: job.Class{Channel: channel, Kind: kind, System: "s"}, Job: jobID(int64(len(all))), Outcome: job.Failed,
					At: start, Until: start + job.Time(n), Message: fmt.Sprint("message ", n),
				})
			}
		}
	}
	for k := range all { // in another order than that of the list
		p.commit(t, all[(k*7)%len(all)])
	}
	p.commit(t, job.FailureCleared{Identity: all[5].Identity})
	all = slices.Delete(all, 5, 6)
	p.reopen(t)
	for _, channel := range []string{"", "a", "b", "none"} {
		for _, kind := range []string{"", "k", "l", "none"} {
			for _, limit := range []int{0, 1, 2, 3, 7, 100} {
				var want, got []job.FailureCached
				for _, v := range all {
					if (channel == "" || v.Identity.Channel == channel) && (kind == "" || v.Identity.Kind == kind) {
						want = append(want, v)
					}
				}
				f := queue.FailureFilter{Channel: channel, Kind: kind, Limit: limit}
				for {
					page := listCached(t, p, f)
					got = append(got, page...)
					if len(page) > queue.PageLimit(limit) {
						t.Errorf("%+v: a page of %d", f, len(page))
					}
					if len(page) < queue.PageLimit(limit) {
						break
					}
					f.After = page[len(page)-1].Identity
				}
				same(t, fmt.Sprintf("%+v", f), want, got)
			}
		}
	}
	// What is after one that is no more: the list goes on where it was.
	same(t, "after one that was cleared", all[5:], listCached(t, p, queue.FailureFilter{After: job.Identity{Channel: "a", Kind: "k2", Key: "key 1"}}))

	// Whatever stands in a key, its page is found again.
	odd := []string{"\x00", "\xff\x00", `\`, `\0`, "\\\x00z", "]", "z"}
	for _, key := range odd {
		p.commit(t, job.FailureCached{Identity: job.Identity{Channel: "odd", Kind: "k", Key: key}, Outcome: job.Failed})
	}
	var got []string
	f := queue.FailureFilter{Channel: "odd", Limit: 1}
	for page := listCached(t, p, f); len(page) > 0; page = listCached(t, p, f) {
		got = append(got, page[0].Identity.Key)
		f.After = page[0].Identity
	}
	slices.SortFunc(odd, cmp.Compare[string])
	slices.SortFunc(got, cmp.Compare[string])
	same(t, "odd keys", odd, got)
}
