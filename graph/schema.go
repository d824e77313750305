package graph

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema gives the JSON Schema (draft 2020-12) of a job-graph file. It cannot tell what Parse can about
// names, cycles and sizes. The caller owns the bytes.
func Schema() []byte { return slices.Clone(schema) }
