package job

import (
	"encoding/hex"
	"fmt"
)

// ID names a job, a build or a request: 16 bytes, written as a UUID. The zero ID names nothing.
type ID [16]byte

// Token is the secret of a lease: whoever shows it may touch the attempt. It never reaches a log or
// the feed.
type Token [16]byte

// IsZero reports whether the ID names nothing.
func (i ID) IsZero() bool { return i == ID{} }

// String gives the usual form of a UUID, as in 0190163d-8694-739b-aea5-966c26f8ad91.
func (i ID) String() string { return formatUUID(i) }

// MarshalText implements encoding.TextMarshaler with the form of String.
func (i ID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it takes what ParseID takes.
func (i *ID) UnmarshalText(b []byte) error {
	v, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*i = v
	return nil
}

// ParseID reads the form that String writes.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("id %q: want 32 hexadecimal digits in groups of 8-4-4-4-12", s)
	}
	var digits [32]byte
	copy(digits[:], s[:8])
	copy(digits[8:], s[9:13])
	copy(digits[12:], s[14:18])
	copy(digits[16:], s[19:23])
	copy(digits[20:], s[24:])
	if _, err := hex.Decode(id[:], digits[:]); err != nil {
		return ID{}, fmt.Errorf("id %q: %v", s, err)
	}
	return id, nil
}

// IsZero reports whether the token is unset.
func (t Token) IsZero() bool { return t == Token{} }

// String hides the secret, so that a token printed by mistake gives nothing away. Reveal shows it.
func (t Token) String() string { return "token" }

// Reveal gives the token as text for the one that it is handed to.
func (t Token) Reveal() string { return formatUUID(t) }

// ParseToken reads the form that Reveal writes. Its error does not repeat the text.
func ParseToken(s string) (Token, error) {
	id, err := ParseID(s)
	if err != nil {
		return Token{}, fmt.Errorf("token: want 32 hexadecimal digits in groups of 8-4-4-4-12")
	}
	return Token(id), nil
}

func formatUUID(b [16]byte) string {
	var out [36]byte
	hex.Encode(out[:8], b[:4])
	hex.Encode(out[9:13], b[4:6])
	hex.Encode(out[14:18], b[6:8])
	hex.Encode(out[19:23], b[8:10])
	hex.Encode(out[24:], b[10:])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return string(out[:])
}
