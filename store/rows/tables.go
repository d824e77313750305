package rows

import (
	"errors"

	"github.com/headrace/headrace/job"
)

// Tables runs statements in one transaction, or at one moment of the store. It says what of the driver went wrong.
type Tables interface {
	// Read asks one question.
	Read(q Query, width int, keys []Value, f func(key int, c Columns) error) error
	// ReadAll asks several questions, one after the other, which a database that is far away is sent at once. It ends with
	// the first error that an Ask's Row gives.
	ReadAll(asks ...Ask) error
	// Write runs a statement with one row of values, of which it keeps none. It may gather rows up to the next Flush and
	// write them by statement, in the order of the numbers of the statements; no two rows of one statement that come
	// between are about the same record, unless it is an Add.
	Write(q Query, row []Value) error
	// Flush writes what was gathered.
	Flush() error
}

// Ask is a question: a query, once for each key, of which each has so many of the values. A query that has no parameters has
// Width 0, and is asked once.
type Ask struct {
	Query Query
	Width int
	Keys  []Value
	// Row is called with each row, with the number of its key: keys in order, and the rows of a key in the order of the query.
	// What c gives as bytes is its own. ErrEnough ends the question and is no error.
	Row func(key int, c Columns) error
}

// Idle reports whether there is nothing to ask: no key.
func (a *Ask) Idle() bool { return a.Width > 0 && len(a.Keys) == 0 }

// ErrEnough is what an Ask's Row gives if it wants no more rows.
var ErrEnough = errors.New("enough")

// Columns gives the columns of one row, in their order.
type Columns interface {
	// Int gives 0 for null.
	Int() int64
	// Bool gives whether it is not 0.
	Bool() bool
	// Text gives "" for null.
	Text() string
	// Bytes gives nil for null and for nothing.
	Bytes() []byte
	// Append appends what Bytes gives.
	Append(dst []byte) []byte
	// Null reports whether the next column is null, and passes over it if so.
	Null() bool
}

// Kind is the type of a Value.
type Kind uint8

const (
	// Null has no value.
	Null Kind = iota
	// Integer is in Value.Int.
	Integer
	// Text is in Value.Text.
	Text
	// Blob is in Value.Blob.
	Blob
	// Boolean is 0 or 1 in Value.Int.
	Boolean
	// ID is a blob in Value.ID: there it needs no memory of its own.
	ID
)

// Value is a parameter of a statement.
type Value struct {
	Kind Kind
	Int  int64
	Text string
	Blob []byte
	ID   job.ID
}

func number[T ~int8 | ~uint8 | ~int32 | ~int64 | ~uint64](v T) Value {
	return Value{Kind: Integer, Int: int64(v)}
}

func text(v string) Value { return Value{Kind: Text, Text: v} }

// name is null if it is empty.
func name(v string) Value {
	if v == "" {
		return Value{}
	}
	return text(v)
}

func blob(v []byte) Value { return Value{Kind: Blob, Blob: v} }

func ident(id job.ID) Value { return Value{Kind: ID, ID: id} }

// bytes is null if there are none.
func bytes(v []byte) Value {
	if len(v) == 0 {
		return Value{}
	}
	return blob(v)
}

func boolean(v bool) Value {
	b := Value{Kind: Boolean}
	if v {
		b.Int = 1
	}
	return b
}

// The numbers by which the live table names states.
const (
	blocked int64 = iota
	ready
	running
	done
)

// StateNumber gives the number by which the live table names a state, from the State's word.
func StateNumber(word string) (n int64, ok bool) {
	n, ok = stateNumbers[word]
	return n, ok
}

// Unfinished reports whether a state is one of those of which the live table has all jobs.
func Unfinished(number int64) bool { return number != done }

var stateNumbers = map[string]int64{
	job.Blocked{}.String(): blocked, job.Ready{}.String(): ready, job.Running{}.String(): running, job.Done{}.String(): done,
}
