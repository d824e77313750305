package rows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Column is one column of a table that is read whole.
type Column struct {
	Name string
	Kind Kind
	// Null: it may be.
	Null bool
}

// Whole is a table as it is read whole and written anew. The head, which has one row, is apart: see ReadHead.
type Whole struct {
	Name    string
	Columns []Column
	// All gives the columns, and Add takes them: in this order.
	All, Add Query
	// texts is of so many columns, the first ones, that sort rows by their bytes: databases that keep text in a form of
	// their own sort otherwise.
	texts int
}

func integer(name string) Column { return Column{Name: name, Kind: Integer} }
func texts(name string) Column   { return Column{Name: name, Kind: Text} }
func flag(name string) Column    { return Column{Name: name, Kind: Boolean} }
func uuid(name string) Column    { return Column{Name: name, Kind: ID} }
func octets(name string) Column  { return Column{Name: name, Kind: Blob} }
func maybe(c Column) Column      { c.Null = true; return c }

// Wholes has all tables, those first that others name.
var Wholes = [...]*Whole{
	{"channel", []Column{texts("name"), octets("body")}, AllChannels, PutChannel, 1},
	{"worker", []Column{texts("name"), octets("body")}, AllWorkers, PutWorker, 1},
	{"class", []Column{
		texts("channel"), texts("kind"), texts("system"), texts("features"), texts("pin"), integer("since"),
	}, AllClasses, PutClass, 5},
	{"setting", []Column{texts("space"), texts("name"), octets("body")}, AllSettings, PutSetting, 2},
	{"usage", []Column{integer("slice"), texts("channel"), texts("group"), integer("used")}, AllUsage, PutUsage, 3},
	{"took", []Column{texts("channel"), texts("kind"), texts("name"), integer("took"), integer("count")}, AllTook, PutTook, 3},
	{"failure", []Column{texts("channel"), texts("kind"), texts("key"), octets("body")}, AllFailures, PutFailure, 3},
	{"build", []Column{
		integer("seq"), uuid("id"), integer("at"), texts("name"), integer("priority"), flag("active"), flag("staged"),
		integer("outcome"), integer("ended"), octets("body"),
	}, AllBuilds, AddBuild, 0},
	{"job", []Column{
		integer("seq"), uuid("id"), integer("at"), texts("channel"), texts("kind"), texts("name"), maybe(texts("key")),
		octets("spec"), maybe(octets("args")), maybe(uuid("staging")),
	}, AllJobs, AddJob, 0},
	{"edge", []Column{uuid("dep"), integer("seq")}, AllEdges, AddEdge, 0},
	{"ref", []Column{
		integer("build"), uuid("job"), integer("place"), flag("awaited"), flag("optional"), integer("priority"),
		integer("timeout"), integer("silence"), integer("ended"),
	}, AllRefs, PutRef, 0},
	{"live", []Column{
		integer("state"), integer("wake"), integer("delay"), maybe(octets("attempt")), maybe(octets("tally")),
		maybe(octets("own")), flag("held"), flag("open"), integer("seq"),
	}, AllLive, AddLive, 0},
	{"ended", []Column{
		integer("seq"), integer("outcome"), octets("body"), maybe(octets("attempt")), maybe(octets("tally")), maybe(octets("own")),
	}, AllEnded, AddEnded, 0},
	{"attempt", []Column{integer("seq"), integer("number"), octets("body"), maybe(octets("result"))}, AllAttempts, PutAttempt, 0},
	{"result", []Column{integer("seq"), maybe(octets("job")), maybe(octets("attempt")), flag("same")}, AllResults, PutResult, 0},
	{"round", []Column{integer("number"), integer("at"), octets("changes")}, AllRounds, AddRound, 0},
	{"answer", []Column{uuid("request"), integer("at"), octets("reply")}, AllAnswers, AddAnswer, 0},
}

// WholeOf gives the table of a name; nil if there is none.
func WholeOf(name string) *Whole {
	for _, w := range Wholes {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// Scan calls f with each row, in the order of the table's key. f may keep the blobs of a row, but not the row. An id that
// is none, as a damaged file may have, comes as a Blob.
func (w *Whole) Scan(t Tables, f func(row []Value) error) error {
	if w.texts > 0 {
		return w.scanSorted(t, f)
	}
	row := make([]Value, len(w.Columns))
	return t.Read(w.All, 0, nil, func(_ int, c Columns) error {
		w.read(c, row)
		return f(row)
	})
}

func (w *Whole) read(c Columns, row []Value) {
	for i := range w.Columns {
		column := &w.Columns[i]
		if column.Null && c.Null() {
			row[i] = Value{}
			continue
		}
		v := Value{Kind: column.Kind}
		switch column.Kind {
		case Integer:
			v.Int = c.Int()
		case Boolean:
			v = boolean(c.Bool())
		case Text:
			v.Text = c.Text()
		case Blob:
			v.Blob = c.Append([]byte{})
		case ID:
			b := c.Append(nil)
			if copy(v.ID[:], b) != len(b) || len(b) != len(v.ID) {
				v = Value{Kind: Blob, Blob: b}
			}
		case Null:
			// No column is of that kind.
		}
		row[i] = v
	}
}

func (w *Whole) scanSorted(t Tables, f func(row []Value) error) error {
	var all [][]Value
	err := t.Read(w.All, 0, nil, func(_ int, c Columns) error {
		row := make([]Value, len(w.Columns))
		w.read(c, row)
		all = append(all, row)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b []Value) int {
		for i := range w.texts {
			if n := cmp.Or(cmp.Compare(a[i].Int, b[i].Int), strings.Compare(a[i].Text, b[i].Text)); n != 0 {
				return n
			}
		}
		return 0
	})
	for _, row := range all {
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}

// Filling writes the whole of a store into one that is empty. Nobody else writes there, and none of it is seen before its
// transaction ends.
type Filling struct {
	t          Tables
	rows, size int
}

// Fill begins to fill an empty store; a *NotEmptyError says that it is not.
func Fill(t Tables) (*Filling, error) {
	if err := empty(t); err != nil {
		return nil, err
	}
	return &Filling{t: t}, nil
}

// How much is gathered before it is written.
const (
	fillRows  = 2000
	fillBytes = 4 << 20
)

// Add writes a row of a table.
func (f *Filling) Add(w *Whole, row []Value) error {
	if w.Add == AddEnded {
		row = append(row[:len(row):len(row)], WorkerOf(row[3])) // which the attempt says, so that no dump has it
	}
	if err := f.t.Write(w.Add, row); err != nil {
		return fmt.Errorf("table %s: %w", w.Name, err)
	}
	f.rows++
	for i := range row {
		f.size += len(row[i].Blob) + len(row[i].Text)
	}
	if f.rows < fillRows && f.size < fillBytes {
		return nil
	}
	f.rows, f.size = 0, 0
	return f.t.Flush()
}

// End writes where the store stands, after all else.
func (f *Filling) End(h Head) error {
	if err := f.t.Flush(); err != nil {
		return err
	}
	err := f.t.Write(PutHead, []Value{number(h.Number), number(h.At), number(h.Seq), number(h.Dropped)})
	if err != nil {
		return err
	}
	return f.t.Flush()
}

// Copy fills an empty store with the whole of another, byte for byte.
func Copy(from, to Tables) error {
	f, err := Fill(to)
	if err != nil {
		return err
	}
	h, err := ReadHead(from)
	if err != nil {
		return err
	}
	for _, w := range Wholes {
		if err := w.Scan(from, func(row []Value) error { return f.Add(w, row) }); err != nil {
			return err
		}
	}
	return f.End(h)
}

// NotEmptyError: what was to be filled has something in it.
type NotEmptyError struct {
	Head Head
	// Table is the first that has rows; "" if only the head says that there was something.
	Table string
}

func (e *NotEmptyError) Error() string {
	text := "there is something in the store already"
	if e.Head.Number > 0 {
		text += fmt.Sprintf(": its last round is number %d, of %s", e.Head.Number, e.Head.At.Std().Format("2006-01-02 15:04:05 UTC"))
	}
	if e.Table != "" {
		text += fmt.Sprintf("; the first of its tables with rows is %s", e.Table)
	}
	return text
}

// empty reports a *NotEmptyError unless a store is.
func empty(t Tables) error {
	h, err := ReadHead(t)
	if err != nil {
		return err
	}
	found := ""
	for _, w := range Wholes {
		if found != "" {
			break
		}
		err := t.Read(w.All, 0, nil, func(int, Columns) error {
			found = w.Name
			return ErrEnough
		})
		if err != nil {
			return err
		}
	}
	if h == (Head{}) && found == "" {
		return nil
	}
	return &NotEmptyError{h, found}
}
