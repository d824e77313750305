// Package codec is the binary form in which stores keep the parts of a record that no query looks into, and
// the rows of the change feed.
//
// It says nothing of tables, files or numbers: those belong to each store. Every form begins with a byte that
// names its version; what is truncated, trailing or out of range is refused, and hostile input costs memory
// in proportion to its length. An empty list, map or blob reads back as nil. Nothing here keeps state, so all
// may be called from many goroutines.
//
// Each type's fields are listed once, in fields.go, for both directions. Start reading at codec.go.
package codec
