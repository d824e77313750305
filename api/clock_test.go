package api

import (
	"reflect"
	"testing"
	"time"
)

// What workers and the server tell each other has no moment in it, only spans of time: so the clocks of their machines may differ by
// whatever they like.
func TestWorkersAreToldNoTime(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var walk func(at string, of reflect.Type)
	walk = func(at string, of reflect.Type) {
		if of == reflect.TypeFor[time.Time]() {
			t.Errorf("%s is a time", at)
			return
		}
		if seen[of] {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(at+"[]", of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				walk(at+"."+of.Field(i).Name, of.Field(i).Type)
			}
		default: // The others hold no other type.
		}
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[Sync](), reflect.TypeFor[SyncReply](), reflect.TypeFor[LeaseRequest](), reflect.TypeFor[LeaseReply](), reflect.TypeFor[Registration](), reflect.TypeFor[Finish](),
	} {
		walk(of.Name(), of)
	}
	if len(seen) < 15 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
