package composer_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
)

// To plant it: composer/payload.go, partial: leave "|| string(number) != ..." out.
func TestF27RetryDoesNotShowTheLostAttemptsResult(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		l.pick(id)
		if err := l.UpdateJobResult(id, "half"); err != nil {
			t.Fatal(err)
		}
		l.is(id, `running, result "\"half\""`)
		l.restart()
		l.is(id, `running, result "\"half\""`)
		if requeued, err := l.RequeueOrFinishJob(id, 1, "lost"); !requeued || err != nil {
			t.Fatalf("requeued %t, %v", requeued, err)
		}
		l.is(id, isPending)
		l.pick(id)
		l.is(id, isRunning)
		if err := l.CancelJob(id); err != nil {
			t.Fatal(err)
		}
		l.is(id, isCanceled)
	})
}

// keeps checks that arguments come back as they should, everywhere and after a restart.
func (l *lab) keeps(args any, want string) {
	l.Helper()
	id, err := l.Enqueue("build", args, nil, "")
	if err != nil {
		l.Errorf("enqueue %q: %v", args, err)
		return
	}
	before, _ := l.arguments(id)
	l.restart()
	after, _ := l.arguments(id)
	_, _, _, given, err := l.DequeueByID(l.Context(), id, uuid.Nil)
	if err != nil {
		l.Fatal(err)
	}
	for _, got := range []json.RawMessage{before, after, given} {
		if string(got) != want {
			l.Errorf("the arguments %#v are %q, want %q", args, string(got), want)
		}
	}
}

// returns checks that a result comes back as it should, and that the job can be read.
func (l *lab) returns(result any, want string) {
	l.Helper()
	id := l.enqueue("build", "")
	l.pick(id)
	if err := l.UpdateJobResult(id, result); err != nil {
		l.Errorf("store the partial result %#v: %v", result, err)
	}
	if s := l.status(id); s.Result != want {
		l.Errorf("the partial result %#v is %q, want %q", result, s.Result, want)
	}
	if _, err := l.RequeueOrFinishJob(id, 0, result); err != nil {
		l.Errorf("finish with %#v: %v", result, err)
		return
	}
	l.restart()
	if s := l.status(id); s.Result != want || s.state() != "finished" {
		l.Errorf("the result %#v is %v, want %q", result, s, want)
	}
}

// To plant it: composer/payload.go, marshal: "case nil: return nil, nil".
func TestF30NoArgumentsAreNull(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		for _, args := range []any{nil, json.RawMessage(nil), []byte{}, json.RawMessage("null"), (*int)(nil)} {
			l.keeps(args, "null")
		}
	})
}

// To plant it: composer/payload.go, marshal: "case string: b = []byte(v)".
func TestF31StringsAreJSONStrings(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		l.keeps("plain", `"plain"`)
		l.keeps("", `""`)
		l.keeps(`{"a": 1}`, `"{\"a\": 1}"`)
		l.returns("plain", `"plain"`)
	})
}

// To plant it: composer/payload.go, marshal: "case bytes.Contains(b, []byte(`\u0000`)):" beside "case !json.Valid(b):".
func TestF32NulIsKept(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		const nul = `{"log":"a\u0000b","\u0000":["\u0000"]}`
		l.keeps(json.RawMessage(nul), nul)
		l.keeps("a\x00b", `"a\u0000b"`)
		l.returns(json.RawMessage(nul), nul)
		l.returns("a\x00b", `"a\u0000b"`)
	})
}

// To plant it: composer/payload.go, marshal: at its end unmarshal the bytes into an any, and marshal that.
func TestF33BytesAreKeptToTheLetter(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		for _, letters := range []string{
			"{ \"b\" : 1.0,\n\t\"a\":1e2 , \"b\":2 } ", "12345678901234567890.50", `"<\u003c\/"`, "\"\xf0\x9f\x98\x80\"",
		} {
			l.keeps(json.RawMessage(letters), letters)
			l.returns(json.RawMessage(letters), letters)
		}
	})
}

// To plant it: composer/payload.go, marshal: leave "case []byte:" out.
func TestF34ResultInBytesIsTheJSONThatItIs(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		l.returns([]byte(`{"a":1}`), `{"a":1}`)
		l.keeps([]byte(`{"a":1}`), `{"a":1}`)
	})
}

// To plant it: composer/payload.go, marshal: leave "case len(b) == 0:" out.
func TestF35JobThatFinishedWithNothingCanBeRead(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		for _, result := range []any{nil, json.RawMessage(nil), []byte{}} {
			l.returns(result, "null")
		}
	})
}
