package memory

// table is a map whose changes can be taken back until they are kept. Values are replaced whole and never
// changed in place, so a reader may hold one without a lock.
type table[K comparable, V any] struct {
	rows map[K]V
	undo []was[K, V]
}

// was is what a key had before it was changed.
type was[K comparable, V any] struct {
	key K
	row V
	had bool
}

func (t *table[K, V]) get(k K) (V, bool) {
	v, ok := t.rows[k]
	return v, ok
}

func (t *table[K, V]) put(k K, v V) {
	old, had := t.rows[k]
	t.undo = append(t.undo, was[K, V]{k, old, had})
	if t.rows == nil {
		t.rows = map[K]V{}
	}
	t.rows[k] = v
}

func (t *table[K, V]) drop(k K) {
	if old, had := t.rows[k]; had {
		t.undo = append(t.undo, was[K, V]{k, old, had})
		delete(t.rows, k)
	}
}

// keep makes the changes final.
func (t *table[K, V]) keep() {
	clear(t.undo)
	t.undo = t.undo[:0]
}

// takeBack undoes the changes since the last keep, newest first.
func (t *table[K, V]) takeBack() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		if w := t.undo[i]; w.had {
			t.rows[w.key] = w.row
		} else {
			delete(t.rows, w.key)
		}
	}
	t.keep()
}
