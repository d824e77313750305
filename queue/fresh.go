package queue

// fresh is what a round did that a lookup does not find until it is stored: what left memory, what is gone, which is nil here,
// and the answers that it gave.
type fresh struct{ Found }

// over brings what a lookup found to where the round left it. The lookup may have seen that already.
func (f *fresh) over(q *Query, found *Found) {
	for _, id := range q.Jobs {
		renew(f.Jobs, &found.Jobs, id)
	}
	for _, l := range q.Leases {
		renew(f.Ended, &found.Ended, l)
	}
	for _, id := range q.Builds {
		renew(f.Builds, &found.Builds, id)
	}
	for _, i := range q.Cached {
		renew(f.Cached, &found.Cached, i)
	}
	for _, l := range q.Kept {
		if id, ok := f.Kept[l]; ok {
			put(&found.Kept, l, id)
		} else if rec, ok := f.Jobs[found.Kept[l]]; ok && rec == nil {
			delete(found.Kept, l)
		}
	}
}

func renew[K comparable, V any](from map[K]*V, to *map[K]*V, k K) {
	v, ok := from[k]
	switch {
	case !ok:
	case v == nil:
		delete(*to, k)
	default:
		put(to, k, v)
	}
}

// put sets a value in a map that may have to be made first.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
