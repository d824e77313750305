package job

import (
	"fmt"
	"slices"
	"testing"
)

// The order of a map must not reach the log: a replay would differ.
func TestClassesAreMarkedInOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := Worker{Name: "w", Channels: []string{""}, Kinds: []string{"run"}, Slots: 1, Session: l.id()}
	var specs []Spec
	for i := range 20 {
		system := fmt.Sprintf("system-%02d", i)
		w.Systems = append(w.Systems, system)
		specs = append(specs, Spec{ID: l.id(), Kind: "run", System: system})
	}
	if err := l.do(l.m.Register(l.at(), w, nil)); err != nil {
		t.Fatal(err)
	}
	changes, _, err := l.m.Submit(l.now, &Submission{Jobs: specs}, nil)
	if err := l.do(changes, err); err != nil {
		t.Fatal(err)
	}
	changes, err = l.m.RemoveWorker(l.at(), "w", false)
	if err != nil {
		t.Fatal(err)
	}
	var marked []string
	for _, c := range changes {
		if mark, ok := c.(ClassMarked); ok {
			marked = append(marked, mark.Class.System)
		}
	}
	if !slices.Equal(marked, w.Systems) {
		t.Errorf("marked %v, want %v", marked, w.Systems)
	}
}
