// Package progress shows how a run goes: to a person on a terminal (Live), to a person or a file line by line
// (Plain), or to a program (JSON). Table shows lists, of whatever it be, to a person.
//
// It is told Events, in order, and draws; it decides nothing and knows neither queue nor worker. What it prints
// of a job's output is made harmless first: no control character and no escape sequence of a job reaches the
// terminal.
//
// A Display is told of events by one goroutine, and of output lines by any. Start reading at event.go,
// then plain.go; live.go is about the terminal only.
package progress
