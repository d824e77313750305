package codec_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// What decodes must encode to something that decodes to the same; the encoder's form is the shortest, so
// from there on the bytes stay.
func FuzzDecodeChanges(f *testing.F) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 3))
		for _, s := range samples {
			v := reflect.New(reflect.TypeOf(s)).Elem()
			fill(v, r, 2)
			b, err := codec.AppendChanges(nil, []job.Change{v.Interface().(job.Change)})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		changes, err := codec.DecodeChanges(b)
		if err != nil {
			return
		}
		once, err := codec.AppendChanges(nil, changes)
		if err != nil {
			t.Fatal(err)
		}
		again, err := codec.DecodeChanges(once)
		if err != nil {
			t.Fatalf("own encoding: %v", err)
		}
		if twice, _ := codec.AppendChanges(nil, again); !bytes.Equal(once, twice) {
			t.Fatalf("encodings differ:\n%x\n%x", once, twice)
		}
	})
}

func FuzzDecodeSpec(f *testing.F) { fuzzRecord(f, codec.AppendSpec, codec.DecodeSpec) }

func FuzzDecodeAttemptEnd(f *testing.F) {
	fuzzRecord(f, codec.AppendAttemptEnd, codec.DecodeAttemptEnd)
}

func FuzzDecodeBuild(f *testing.F) { fuzzRecord(f, codec.AppendBuild, codec.DecodeBuild) }

func FuzzDecodeWorker(f *testing.F) { fuzzRecord(f, codec.AppendWorker, codec.DecodeWorker) }

func FuzzDecodeChannel(f *testing.F) { fuzzRecord(f, codec.AppendChannel, codec.DecodeChannel) }

func fuzzRecord[T any](f *testing.F, encode func([]byte, *T) []byte, decode func([]byte) (T, error)) {
	for seed := range uint64(4) {
		var v T
		fill(reflect.ValueOf(&v).Elem(), rand.New(rand.NewPCG(seed, 4)), 2)
		f.Add(encode(nil, &v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decode(b)
		if err != nil {
			return
		}
		once := encode(nil, &v)
		again, err := decode(once)
		if err != nil {
			t.Fatalf("own encoding: %v", err)
		}
		if twice := encode(nil, &again); !bytes.Equal(once, twice) {
			t.Fatalf("encodings differ:\n%x\n%x", once, twice)
		}
	})
}
