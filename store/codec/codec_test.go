package codec_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// samples has each kind of change once.
var samples = []job.Change{
	job.BuildAdded{},
	job.BuildReferred{},
	job.BuildSealed{},
	job.BuildActivated{},
	job.BuildBumped{},
	job.BuildEnded{},
	job.BuildDeleted{},
	job.JobAdded{},
	job.JobKept{},
	job.JobReleased{},
	job.JobBlocked{},
	job.JobStarted{},
	job.JobRetried{},
	job.JobEnded{},
	job.JobFreed{},
	job.JobSettled{},
	job.JobProgress{},
	job.JobDeleted{},
	job.WorkerPut{},
	job.WorkerRemoved{},
	job.ClassMarked{},
	job.ChannelPut{},
	job.SettingPut{},
	job.SettingRemoved{},
	job.UsagePut{},
	job.DurationLearned{},
	job.FailureCached{},
	job.FailureCleared{},
}

// secret fields never reach the feed; Ready is no secret, but nothing that a change says.
var secret = []string{
	"job.Record.Ready",
	"job.Spec.Args", "job.Attempt.Token", "job.AttemptEnd.Result", "job.JobEnded.Result", "job.JobProgress.Result",
	"job.Setting.Body",
}

// record is a stored form: encode and decode of one type, with the fields that are stored elsewhere.
type record struct {
	zero      any
	elsewhere []string
	trip      func(v any) (any, error)
	decode    func(b []byte) error
}

func stored[T any](encode func([]byte, *T) []byte, decode func([]byte) (T, error), elsewhere ...string) record {
	return record{
		zero: *new(T), elsewhere: elsewhere,
		trip: func(v any) (any, error) {
			t := v.(T)
			return decode(encode(nil, &t))
		},
		decode: func(b []byte) error { _, err := decode(b); return err },
	}
}

var records = []record{
	stored(codec.AppendSpec, codec.DecodeSpec, "job.Spec.Args"),
	stored(codec.AppendOwn, codec.DecodeOwn),
	stored(codec.AppendTally, codec.DecodeTally),
	stored(codec.AppendAttempt, codec.DecodeAttempt),
	stored(codec.AppendAttemptEnd, codec.DecodeAttemptEnd),
	stored(codec.AppendEnd, codec.DecodeEnd),
	stored(codec.AppendBuild, codec.DecodeBuild),
	stored(codec.AppendWorker, codec.DecodeWorker),
	stored(codec.AppendChannel, codec.DecodeChannel),
	stored(codec.AppendSetting, codec.DecodeSetting),
	stored(codec.AppendFailure, codec.DecodeFailure),
}

func tripChange(v any) (any, error) {
	b, err := codec.AppendChanges(nil, []job.Change{v.(job.Change)})
	if err != nil {
		return nil, err
	}
	got, err := codec.DecodeChanges(b)
	if err != nil || len(got) != 1 {
		return nil, fmt.Errorf("%d changes, %v", len(got), err)
	}
	return got[0], nil
}

func TestSamplesNameEveryChange(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../../job/change.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "change" {
			declared = append(declared, f.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	var named []string
	for _, s := range samples {
		named = append(named, reflect.TypeOf(s).Name())
	}
	slices.Sort(declared)
	slices.Sort(named)
	if diff := cmp.Diff(declared, named); diff != "" {
		t.Errorf("changes declared in package job (-) and known to this test (+):\n%s", diff)
	}
}

// Each field alone is set and must come back, but for those that are left out on purpose, which must not.
func TestEveryFieldIsCarried(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		eachField(reflect.TypeOf(s), func(path []step, name string) {
			checkField(t, s, path, name, secret, tripChange)
		})
	}
	for _, r := range records {
		eachField(reflect.TypeOf(r.zero), func(path []step, name string) {
			checkField(t, r.zero, path, name, r.elsewhere, r.trip)
		})
	}
}

func checkField(t *testing.T, zero any, path []step, name string, left []string, trip func(any) (any, error)) {
	t.Helper()
	v := reflect.New(reflect.TypeOf(zero)).Elem()
	leaf := v
	for _, p := range path {
		leaf = p(leaf)
	}
	without := reflect.New(v.Type()).Elem()
	without.Set(v)
	fill(leaf, rand.New(rand.NewPCG(1, 1)), 1)
	got, err := trip(v.Interface())
	if err != nil {
		t.Errorf("%T with %s set: %v", zero, name, err)
		return
	}
	if slices.Contains(left, name) {
		leaf.SetZero()
	}
	if diff := cmp.Diff(v.Interface(), got); diff != "" {
		t.Errorf("%T with %s set (-sent +got):\n%s", zero, name, diff)
	}
}

// step goes from a value to one of its parts, making it where there is none yet.
type step func(reflect.Value) reflect.Value

// eachField calls f with the way to each field that has no fields of its own, and with its name.
func eachField(t reflect.Type, f func(path []step, name string)) {
	var walk func(t reflect.Type, path []step, name string)
	walk = func(t reflect.Type, path []step, name string) {
		with := func(s step) []step { return append(slices.Clone(path), s) }
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				walk(t.Field(i).Type, with(func(v reflect.Value) reflect.Value { return v.Field(i) }), t.String()+"."+t.Field(i).Name)
			}
		case reflect.Pointer:
			walk(t.Elem(), with(func(v reflect.Value) reflect.Value {
				v.Set(reflect.New(t.Elem()))
				return v.Elem()
			}), name)
		case reflect.Slice:
			if t.Elem().Kind() == reflect.Struct {
				walk(t.Elem(), with(func(v reflect.Value) reflect.Value {
					v.Set(reflect.MakeSlice(t, 2, 2))
					return v.Index(1)
				}), name)
				return
			}
			f(path, name)
		default:
			f(path, name)
		}
	}
	walk(t, nil, t.String())
}

// fill sets every part of v; lists and maps get up to most elements, and least one where most is 1.
func fill(v reflect.Value, r *rand.Rand, most int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r, most)
		}
	case reflect.Pointer:
		if most == 1 || r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), r, most)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), r, most)
		}
	case reflect.Slice:
		n := 1
		if most > 1 {
			n = r.IntN(most + 1)
		}
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(v.Index(i), r, most)
		}
	case reflect.Map:
		for range r.IntN(most) + 1 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, r, most)
			fill(elem, r, most)
			if v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			v.SetMapIndex(key, elem)
		}
	case reflect.String:
		b := make([]byte, r.IntN(20)+1)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		v.SetString(string(b))
	case reflect.Bool:
		v.SetBool(most == 1 || r.IntN(2) == 0)
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(255) + 1))
	case reflect.Int32:
		v.SetInt(int64(int32(r.Uint32() | 1)))
	case reflect.Int64:
		v.SetInt(int64(r.Uint64()>>r.IntN(64) | 1))
	case reflect.Float64:
		v.SetFloat(r.NormFloat64())
	default:
		panic("no way to fill a " + v.Type().String())
	}
}

// While a batch is being stored the engine reads what it has in common with it: the race detector tells if it is written to.
func TestEncodingWritesToNothing(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 3))
	var sent []job.Change
	for _, s := range samples {
		v := reflect.New(reflect.TypeOf(s)).Elem()
		fill(v, r, 4)
		sent = append(sent, v.Interface().(job.Change))
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := codec.AppendChanges(nil, sent); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	for _, rec := range records {
		v := reflect.New(reflect.TypeOf(rec.zero)).Elem()
		fill(v, r, 4)
		for range 2 {
			both.Go(func() {
				if _, err := rec.trip(v.Interface()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
}

func TestRandomRecordsRoundTrip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		var sent []job.Change
		for _, s := range samples {
			v := reflect.New(reflect.TypeOf(s)).Elem()
			fill(v, r, 4)
			sent = append(sent, v.Interface().(job.Change))
		}
		b, err := codec.AppendChanges(nil, sent)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := codec.DecodeChanges(b)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(public(sent), got); diff != "" {
			t.Errorf("seed %d (-sent +got):\n%s", seed, diff)
		}
		for _, rec := range records {
			v := reflect.New(reflect.TypeOf(rec.zero)).Elem()
			fill(v, r, 4)
			if s, ok := v.Addr().Interface().(*job.Spec); ok {
				s.Args = nil
			}
			got, err := rec.trip(v.Interface())
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if diff := cmp.Diff(v.Interface(), got); diff != "" {
				t.Errorf("seed %d (-sent +got):\n%s", seed, diff)
			}
		}
	}
}

// public gives the changes without their secrets.
func public(changes []job.Change) []job.Change {
	var out []job.Change
	for _, c := range changes {
		v := reflect.New(reflect.TypeOf(c)).Elem()
		v.Set(reflect.ValueOf(c))
		strip(v)
		out = append(out, v.Interface().(job.Change))
	}
	return out
}

func strip(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			v.Set(c)
			strip(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if slices.Contains(secret, v.Type().String()+"."+v.Type().Field(i).Name) {
				v.Field(i).SetZero()
				continue
			}
			strip(v.Field(i))
		}
	default:
		// The others have nothing inside.
	}
}

func TestTruncatedAndTrailingBytesAreRefused(t *testing.T) {
	t.Parallel()
	for _, rec := range records {
		if err := rec.decode(nil); err == nil {
			t.Errorf("%T from nothing: no error", rec.zero)
		}
	}
	s := job.Spec{Name: "a", Features: []string{"b"}, Needs: []job.Need{{Job: job.ID{1}}}, Gate: job.Gate{Key: "g"}}
	b := codec.AppendSpec(nil, &s)
	for n := range b {
		if _, err := codec.DecodeSpec(b[:n]); err == nil {
			t.Errorf("first %d of %d bytes: no error", n, len(b))
		}
	}
	if _, err := codec.DecodeSpec(append(b, 0)); err == nil {
		t.Error("trailing byte: no error")
	}
	b[0]++
	if _, err := codec.DecodeSpec(b); err == nil {
		t.Error("newer version: no error")
	}
}

// A short input that claims a long list must not cost memory.
func TestHostileCountAllocatesNothing(t *testing.T) {
	t.Parallel()
	refs := append([]byte{1, 2, 0}, 0xff, 0xff, 0xff, 0xff, 0x0f)
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := codec.DecodeChanges(refs); err == nil {
				b.Fatal("no error")
			}
		}
	})
	if got.AllocedBytesPerOp() > 4096 {
		t.Errorf("%d bytes allocated for %d bytes of input", got.AllocedBytesPerOp(), len(refs))
	}
}
