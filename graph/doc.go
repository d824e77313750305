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
// # The file
//
// At the top stand name (optional), $schema (optional; it is for editors), defaults (any field of a job but
// needs, key and matrix, for jobs that do not give it; environments are joined) and jobs, a mapping from
// names to jobs. A name has letters, digits and . : / + @ - _, and begins with a letter, a digit or _. The
// fields of a job, of which only run is required, itself or by defaults:
//
//	run          a text for /bin/sh, or a list of a program and its arguments
//	needs        a job, a list of jobs and of {job: a, policy: finish}, or a mapping {a: finish}; the
//	             policies are success (if none is given), finish and order
//	env          variables; numbers and booleans are taken as they are written
//	dir          where to run, relative to the file
//	timeout      the most time for an attempt, as 90s or 1h30m, from 1µs to 87600h; 0 or nothing: no limit
//	silence      the most time without output
//	retries      how often a failed verdict is tried again, 0 to 1000
//	retry-on     exit codes (1 to 255) that mean that the infrastructure failed
//	system       where it can run, as x86_64-linux
//	features     what a worker must have
//	priority     the greater runs first
//	exclusive    whether it has its worker for itself; it goes before the others of its priority
//	key          an identity in place of the computed one; see Graph.Keys
//	outputs      globs of the files that it makes, relative to dir; see MatchOutput
//	optional     its failure does not fail the build; a job that needs its success ends as dependency-failed,
//	             and fails the build unless it is optional, too
//	matrix       axes with their values, include and exclude
//	description  a note for people
//
// A whole number may be written in any way that comes to it: 10, 10.0 and 1e1 are the same, as they are to JSON Schema.
// A list of one may be written without brackets (features, outputs, retry-on, needs); null is as if the
// field were absent.
//
// A matrix makes a variant of its job for each combination of values, named base:value-value in the order
// of the axes: test with {os: [linux, darwin], go: [1.26]} gives test:linux-1.26 and test:darwin-1.26.
// Characters that a name cannot have become _. In run, env, dir, needs, outputs, key, system and features
// ${matrix.os} stands for the value; features and outputs that become empty are left out. An exclude entry
// removes the variants that match; an include entry with a value for every axis adds a variant, and its
// other names are variables of all variants that match. A need on the base name means all variants.
//
// # Limits
//
// DefaultLimits lists them. Measured with a million jobs of 70 to 90 bytes: JSON takes 4 s and 1.0 GB at
// the most, YAML 13 s and 1.3 GB, of which 360 MB are the graph. YAML is read job by job only if the jobs
// stand one below the other; all jobs in one pair of braces are one piece, held to the limit on a job
// (4 MiB, and 20,000 fields), which the message says.
//
// # The code
//
// The way of a file: jsonReader (json.go) or yamlReader (yaml.go, yamlnode.go) turn text into one
// node tree a job; decoder (decode.go, fields.go, matrix.go) checks it and drops the tree; link
// (link.go, expand.go) applies defaults, makes the variants, finds the needs and sorts. Start
// reading at parse.go.
//
// JSON is RFC 8259, UTF-8 only, each key once in its object. YAML is what goccy/go-yaml takes of
// YAML 1.2, one document a file, without directives; anchors, aliases and merge keys work, and tags
// other than !!str are refused. The library guesses at text that is not YAML; strict.go refuses it.
package graph
