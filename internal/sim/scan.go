package sim

import (
	"cmp"
	"slices"
)

// What the model is made with: scans of a list, and nothing that knows a rule. nil: none.

// least gives the first in the order of those that may be.
func least[T any](list []*T, compare func(a, b *T) int, may func(*T) bool) (first *T) {
	for _, t := range list {
		if may(t) && (first == nil || compare(t, first) < 0) {
			first = t
		}
	}
	return first
}

func find[T any](list []*T, is func(*T) bool) *T {
	return least(list, func(*T, *T) int { return 0 }, is)
}

func filter[T any](list []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(t T) bool { return !is(t) })
}

func without[T comparable](list []T, t T) []T {
	return filter(list, func(o T) bool { return o != t })
}

// greatest of n and of what the list has.
func greatest[T any, N cmp.Ordered](n N, list []T, of func(T) N) N {
	for _, t := range list {
		n = max(n, of(t))
	}
	return n
}

// refusals are what may be answered: the first that is so. Else it is done (see world.go).
type refusals []struct {
	so   bool
	kind string
}

func (r refusals) or(do ...func()) string {
	for _, x := range r {
		if x.so {
			return x.kind
		}
	}
	for _, f := range do {
		f()
	}
	return done
}
