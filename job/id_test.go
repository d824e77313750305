package job

import (
	"fmt"
	"strings"
	"testing"
)

const (
	written  = "0190163d-8694-739b-aea5-966c26f8ad91"
	noDashes = "0190163d8694739baea5966c26f8ad91"
)

func TestIDIsWrittenAndReadAsUUID(t *testing.T) {
	t.Parallel()
	id, err := ParseID(written)
	if err != nil {
		t.Fatal(err)
	}
	want := ID{0x01, 0x90, 0x16, 0x3d, 0x86, 0x94, 0x73, 0x9b, 0xae, 0xa5, 0x96, 0x6c, 0x26, 0xf8, 0xad, 0x91}
	if id != want {
		t.Errorf("ParseID gives % x, want % x", id[:], want[:])
	}
	if got := id.String(); got != written {
		t.Errorf("String gives %q, want %q", got, written)
	}
	if id.IsZero() || !(ID{}).IsZero() {
		t.Errorf("IsZero: %v for an ID, %v for none", id.IsZero(), ID{}.IsZero())
	}
}

func TestIDGoesThroughText(t *testing.T) {
	t.Parallel()
	text, err := ID{0xff, 15: 1}.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var back ID
	if err := back.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	if want := (ID{0xff, 15: 1}); back != want {
		t.Errorf("%q reads as %v, want %v", text, back, want)
	}
	if err := back.UnmarshalText([]byte("nonsense")); err == nil {
		t.Error("UnmarshalText takes nonsense")
	}
	if want := (ID{0xff, 15: 1}); back != want {
		t.Errorf("a refused text changed the ID to %v", back)
	}
}

func TestMalformedIDsAreRefused(t *testing.T) {
	t.Parallel()
	bad := []string{
		"", "0", noDashes, noDashes + "0000", written + "0", written[:35],
		"{" + written + "}", "urn:uuid:" + written, strings.Replace(written, "9b", "9g", 1),
	}
	// A wrong byte in the place of each dash.
	for i, c := range written {
		if c == '-' {
			bad = append(bad, written[:i]+"0"+written[i+1:])
		}
	}
	for _, s := range bad {
		id, err := ParseID(s)
		if err == nil || !id.IsZero() {
			t.Errorf("ParseID(%q) gives %v, %v; want an error and no ID", s, id, err)
			continue
		}
		if !strings.Contains(err.Error(), fmt.Sprintf("%q", s)) {
			t.Errorf("ParseID(%q) does not name the text: %v", s, err)
		}
	}
}

func TestTokenShowsItsSecretOnlyByReveal(t *testing.T) {
	t.Parallel()
	token, err := ParseToken(written)
	if err != nil {
		t.Fatal(err)
	}
	if got := token.Reveal(); got != written {
		t.Errorf("Reveal gives %q, want %q", got, written)
	}
	for _, shown := range []string{token.String(), fmt.Sprint(token), fmt.Sprintf("%v %s %+v", token, token, token)} {
		if strings.Contains(shown, "0190163d") || strings.Contains(shown, "[1 144") {
			t.Errorf("the token shows itself as %q", shown)
		}
	}
	if token.IsZero() || !(Token{}).IsZero() {
		t.Errorf("IsZero: %v for a token, %v for none", token.IsZero(), Token{}.IsZero())
	}
}

func TestMalformedTokenIsRefusedWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	secret := written[:35] + "x"
	token, err := ParseToken(secret)
	if err == nil || !token.IsZero() {
		t.Fatalf("ParseToken gives %v, %v; want an error and no token", token.IsZero(), err)
	}
	if strings.Contains(err.Error(), secret[:8]) {
		t.Errorf("the error repeats the secret: %v", err)
	}
}
