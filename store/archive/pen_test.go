package archive

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headrace/headrace/job"
)

// texts are hard to write as JSON, or to tell from one another.
var texts = []string{
	"a", "base64:", "base64:YQ==", "\xff\xfe", "\x00\x1b[2J\x7f", "\u0085\u2028\u2029", "ü\n\t\"\\'", "<&>", "null", "{}", "{\"a\":1}", "{\"a\": 1}", "[]", "[1,2]",
	"{\"a\":\"\x9b\"}", "[" + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "]",
}

// fill sets all that a value holds to something that is not zero.
func fill(v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), r)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(texts[r.IntN(len(texts))]))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), r)
		if r.IntN(2) == 0 {
			fill(v.Index(1), r)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 3 {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, r)
			fill(elem, r)
			v.SetMapIndex(key, elem)
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(255) + 1))
	case reflect.Int32:
		v.SetInt(int64(int32(r.Uint32() | 1)))
	case reflect.Int64:
		v.SetInt([]int64{1, -1, math.MinInt64, math.MaxInt64, 1_790_000_000_123_456, int64(r.Uint64() >> r.IntN(64)), 1_500_000_001}[r.IntN(7)] | 1)
	case reflect.Float64:
		v.SetFloat([]float64{1.5, math.Copysign(0, -1), math.NaN(), math.Inf(-1), math.MaxFloat64, math.Pi}[r.IntN(6)])
	default:
		panic("no way to fill a " + v.Type().String())
	}
}

// Whatever a change holds is written such that it is read again: among it is all that records hold.
func TestValuesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for name, typ := range changes {
		for seed := range uint64(40) {
			v := reflect.New(typ).Elem()
			fill(v, rand.New(rand.NewPCG(seed, 1)))
			line := appendStruct(nil, v)
			got := reflect.New(typ).Elem()
			if err := parseStruct(line, got); err != nil {
				t.Fatalf("%s, seed %d: %v\n%s", name, seed, err, line)
			}
			if d := cmp.Diff(v.Interface(), got.Interface(), cmpopts.EquateNaNs()); d != "" {
				t.Fatalf("%s, seed %d (-written +read):\n%s\n%s", name, seed, d, line)
			}
			if again := appendStruct(nil, got); string(again) != string(line) {
				t.Fatalf("%s, seed %d: written as\n%s\nthen as\n%s", name, seed, line, again)
			}
			for _, r := range string(line) {
				if obeyed(r) {
					t.Fatalf("%s, seed %d: %q is in a line that a person is shown", name, seed, r)
				}
			}
		}
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{
			job.Spec{Name: "a", NotBefore: 1_790_000_000_123_456, Estimate: 90 * time.Second, Args: []byte(`{"run":"x"}`)},
			`{"name":"a","not_before":"2026-09-21T14:13:20.123456Z","estimate":"1m30s","args":{"run":"x"}}`,
		},
		{job.Spec{Args: []byte(`{"run": "x"}`)}, `{"args":"{\"run\": \"x\"}"}`},
		{job.Spec{Args: []byte("\xff")}, `{"args":"base64:/w=="}`},
		{
			job.Channel{Discipline: job.ByAge, FailureTTL: time.Hour, GroupShares: map[string]int32{"b": 2, "a": 0}},
			`{"discipline":"by-age","group_shares":{"a":0,"b":2},"failure_ttl":"1h0m0s"}`,
		},
		{job.End{At: 1 << 62, Outcome: 200, Root: job.ID{1}}, `{"at":4611686018427387904,"outcome":200,"root":"01000000-0000-0000-0000-000000000000"}`},
		{job.JobKept{Own: job.Own{Group: "\x1b"}}, `{"own":{"group":"\u001b"}}`},
	} {
		if got := string(appendStruct(nil, reflect.ValueOf(c.value))); got != c.want {
			t.Errorf("%+v is written as\n%s\nwant\n%s", c.value, got, c.want)
		}
	}
}

// Each change of package job has a name here.
func TestAllChangesAreKnown(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../../job/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			m, ok := d.(*ast.FuncDecl)
			if !ok || m.Recv == nil || m.Name.Name != "change" {
				continue
			}
			found++
			if typ, ok := m.Recv.List[0].Type.(*ast.Ident); !ok || changes[snake(typ.Name)] == nil {
				t.Errorf("change %v is not known", m.Recv.List[0].Type)
			}
		}
	}
	if found == 0 || found != len(changes) {
		t.Errorf("%d changes in package job, %d known", found, len(changes))
	}
}
