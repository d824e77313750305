package worker

import (
	"encoding/json"
	"unicode/utf8"
)

// wireOutput is a CommandOutput as JSON: it lets each path through, as file names need not be UTF-8 and JSON must.
type wireOutput struct {
	plainOutput
	// Exact has the bytes of a path that is no UTF-8, of which Path is then only what a person can be shown.
	Exact []byte `json:"path_bytes,omitempty"`
}

// plainOutput is CommandOutput without its methods.
type plainOutput CommandOutput

// MarshalJSON implements json.Marshaler; a path that is no UTF-8 comes also as path_bytes, in base64.
func (o CommandOutput) MarshalJSON() ([]byte, error) {
	w := wireOutput{plainOutput: plainOutput(o)}
	if !utf8.ValidString(o.Path) {
		w.Exact = []byte(o.Path)
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *CommandOutput) UnmarshalJSON(text []byte) error {
	var w wireOutput
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if len(w.Exact) > 0 {
		w.Path = string(w.Exact)
	}
	*o = CommandOutput(w.plainOutput)
	return nil
}
