// Package archive is the whole of a store outside a store: as lines of JSON that a person can read, search and mend, and
// that make the same store again, in whatever database; and it checks that what a store holds is consistent.
//
// A dump begins with a line that names its format and one that says where the store stands, has one line for each row of
// each table, and ends with a line that says how many there are, so that one that was cut off is no dump. What the binary
// forms of package codec hold is spelled out. What cannot be decoded stands there as it is ("raw", in base64) with what is
// wrong with it ("error"), and is loaded as it is. What is zero or empty is left out. Equal stores give equal dumps, and what a
// dump makes gives that dump again, byte for byte.
//
// Text that begins with "base64:" stands for bytes that are no UTF-8, or begin so themselves. What is opaque to the engine
// (arguments, results, answers) is JSON where it is a JSON object or list in its shortest form, else text. Identifiers are
// UUIDs, times are in UTC with microseconds, durations as Go writes them.
//
// A dump has all secrets of a store: the tokens of leases, without which no running attempt could go on, and whatever jobs are
// given.
//
// It knows no database: a store gives its tables (package rows) as of one moment, or new ones to be filled. Nothing here
// keeps state, so all may be called from many goroutines. Start reading at dump.go, then format.go; for checks at check.go.
package archive
