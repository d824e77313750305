// Package apitest holds what a server answers to the OpenAPI document of its API, in the tests of whoever talks to one. The validator
// is not the library that makes the document.
package apitest
