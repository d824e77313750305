// Package graph reads job-graph files, YAML or JSON, and gives a checked, ordered graph of jobs.
//
// Parse reads the file as a stream, holds every limit before memory is used, and reports what is
// wrong by file, line and column, several problems at once. The Graph that it gives is in an order
// in which the jobs can run. From it come a part of it (Select), the identity of each job (Keys),
// a forecast of the run (Plan) and pictures (DOT, SVG). Schema is the JSON Schema of the file.
//
// The package runs nothing, stores nothing and looks at no file system: package worker runs
// commands and collects outputs, package queue owns the state of jobs.
//
// A Graph is plain data: whoever holds it may read it from many goroutines at once, as long as
// nobody changes it. No function here keeps state between calls.
//
// The way of a file: jsonReader (json.go) or yamlReader (yaml.go, yamlnode.go) turn text into one
// node tree a job; decoder (decode.go, fields.go, matrix.go) checks it and drops the tree; linker
// (expand.go, link.go) applies defaults, makes the variants, finds the needs and sorts. Start
// reading at parse.go.
//
// JSON is RFC 8259, UTF-8 only, each key once in its object. YAML is what goccy/go-yaml takes of
// YAML 1.2, one document a file, without directives; anchors, aliases and merge keys work, and tags
// other than !!str are refused.
package graph
