// Package api is Headrace's HTTP interface as its two sides share it: the types of what goes over the wire, the problems that
// are told instead of an answer, and the Client.
//
// It serves nothing: package server does that, and keeps the OpenAPI document, openapi.json, which says the same for other
// languages. It decides nothing, either: a Client's calls are those of package queue, made elsewhere.
//
// Conventions of the wire: JSON, with names in snake_case. Spans of time are numbers of seconds, and end in _seconds. Times are
// those of the server, in RFC 3339, UTC, and are for people; no rule rests on a time that a client states, but for those that say
// not to start before. What is not there is left out. Lists come in pages, newest first; a page's next is the cursor of the page
// after it. Errors are problem documents (RFC 9457), see Problem.
//
// A write that carries the header Idempotency-Key happens once however often it is sent; a repeat gets the first answer. The
// Client sets it by itself, and repeats what the server could not answer.
//
// Start reading at problem.go, then submission.go and sync.go, which has the protocol of workers.
package api

// Version is that of the API.
const Version = "1"
