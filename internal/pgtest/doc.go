// Package pgtest starts PostgreSQL servers for tests and measurements: real ones, from the system's package, each in a
// temporary folder of its own and reachable by a socket there alone.
//
// A server lives as long as its process at most: the kernel ends it when the program that started it dies, however that
// dies (on Linux). As root the server runs as the user postgres, or nobody, since PostgreSQL refuses to be root.
//
// What it does not do: install PostgreSQL (scripts/setup does), or know of any schema. Start reading at cluster.go; tests
// begin with Main and Shared.
package pgtest
