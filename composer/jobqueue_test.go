package composer_test

import (
	"testing"
)

func TestJobComesAndGoes(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("depsolve", "org-1")
		second := l.enqueue("osbuild:x86_64", "org-1", first, first)
		id, token := l.dequeue("depsolve", "org-1")
		if got, err := l.IdFromToken(token); id != first || got != first || err != nil {
			t.Fatalf("dequeued %s, its token %s, %v; want %s", id, got, err, first)
		}
		l.finish(first, "done")
		l.restart()
		if s := l.status(first); s.String() != `finished, result "\"done\""` || len(s.Dependents) != 1 {
			t.Errorf("the first is %v, with dependents %v", s, s.Dependents)
		}
		if id, _ := l.dequeue("osbuild:x86_64", "org-1"); id != second {
			t.Errorf("dequeued %s, want %s", id, second)
		}
	})
}
