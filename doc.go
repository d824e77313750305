// Package headrace is the root of Headrace, the queue of a build farm. It holds no code: the command is
// cmd/headrace, and a program that wants the queue inside itself imports package queue.
//
// The tests here guard the house itself: floors_test.go, which package may import which; style_test.go,
// the limits that every file keeps; tree_test.go reads the tree for both.
package headrace
