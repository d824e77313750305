package composer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
)

// null is the JSON of nothing.
var null = json.RawMessage("null")

// marshal gives the JSON of arguments or a result. What is JSON already, as bytes, is kept to the letter; nil is null.
func marshal(what string, v any) (json.RawMessage, error) {
	var b []byte
	switch v := v.(type) {
	case json.RawMessage:
		b = v
	case []byte:
		b = v
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("marshal the %s: %w", what, err)
		}
		return b, nil
	}
	switch {
	case len(b) == 0:
		return null, nil
	case !json.Valid(b):
		return nil, fmt.Errorf("marshal the %s: %w", what, errNotJSON)
	}
	return bytes.Clone(b), nil
}

var errNotJSON = errors.New("the bytes are no JSON; give a value, or valid JSON")

// partialMark begins a partial result in the store, where no JSON begins with it. The store keeps what an attempt reported until
// something replaces it, also when the job is tried again; so that which attempt it was of stands before it.
const partialMark = 0

// markPartial gives what is stored of a partial result.
func markPartial(attempt int32, result []byte) []byte {
	b := append([]byte{partialMark}, strconv.Itoa(int(attempt))...)
	return append(append(b, '\n'), result...)
}

// partial gives the partial result of an attempt, of what is stored; nil: it has reported none.
func partial(attempt int32, stored []byte) json.RawMessage {
	if !isPartial(stored) {
		return nil
	}
	number, result, ok := bytes.Cut(stored[1:], []byte{'\n'})
	if !ok || string(number) != strconv.Itoa(int(attempt)) {
		return nil
	}
	return result
}

// isPartial reports whether what is stored is a partial result.
func isPartial(stored []byte) bool { return len(stored) > 0 && stored[0] == partialMark }

// final gives the result of a job that has finished, of what is stored: null, if it ended without anybody's word.
func final(stored []byte) json.RawMessage {
	if len(stored) == 0 || isPartial(stored) {
		return null
	}
	return stored
}

// needs gives the dependencies in order, each once. Any end of one releases the job: what came of it is for the job to read.
func needs(dependencies []uuid.UUID) []job.Need {
	seen := make(map[uuid.UUID]bool, len(dependencies))
	list := make([]job.Need, 0, len(dependencies))
	for _, d := range dependencies {
		if !seen[d] {
			seen[d] = true
			list = append(list, job.Need{Job: job.ID(d), Policy: job.Finish})
		}
	}
	return list
}

// dependencies is the inverse of needs.
func dependencies(needs []job.Need) []uuid.UUID {
	list := make([]uuid.UUID, 0, len(needs))
	for _, n := range needs {
		list = append(list, uuid.UUID(n.Job))
	}
	return list
}

// groupKey gives the key of a job of a group: its own, as the group is no reason to take two jobs for one.
func groupKey(group, id uuid.UUID) string { return groupMark + group.String() + "/" + id.String() }

const groupMark = "group/"

// groupOf is the inverse; uuid.Nil: the job is of no group.
func groupOf(key string) uuid.UUID {
	if len(key) != len(groupMark)+36+1+36 || key[:len(groupMark)] != groupMark {
		return uuid.Nil
	}
	id, err := uuid.Parse(key[len(groupMark) : len(groupMark)+36])
	if err != nil {
		return uuid.Nil
	}
	return id
}
