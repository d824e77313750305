package archive

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
	"github.com/headrace/headrace/store/rows"
)

// form is how a value that is not null is written and read.
type form struct {
	show  func(b []byte, v *rows.Value) []byte
	parse func(raw json.RawMessage) (rows.Value, error)
	// fault gives what is wrong with a blob; nil: none is.
	fault func(blob []byte) error
}

// forms has the form of each column that is not written as its kind alone says.
var forms = map[string]form{
	"class.since":   moment,
	"usage.used":    span,
	"took.took":     span,
	"build.at":      moment,
	"build.ended":   moment,
	"build.outcome": outcome,
	"job.at":        moment,
	"ref.timeout":   span,
	"ref.silence":   span,
	"ref.ended":     outcome,
	"live.state":    state,
	"live.wake":     moment,
	"live.delay":    span,
	"ended.outcome": outcome,
	"round.at":      moment,
	"answer.at":     moment,
	"channel.body":  coded(codec.AppendChannel, codec.DecodeChannel),
	"worker.body":   coded(codec.AppendWorker, codec.DecodeWorker),
	"setting.body":  coded(codec.AppendSetting, codec.DecodeSetting),
	"failure.body":  coded(codec.AppendFailure, codec.DecodeFailure),
	"build.body":    coded(codec.AppendBuild, codec.DecodeBuild),
	"job.spec":      coded(codec.AppendSpec, codec.DecodeSpec),
	"live.attempt":  coded(codec.AppendAttempt, codec.DecodeAttempt),
	"live.tally":    coded(codec.AppendTally, codec.DecodeTally),
	"live.own":      coded(codec.AppendOwn, codec.DecodeOwn),
	"ended.body":    coded(codec.AppendEnd, codec.DecodeEnd),
	"ended.attempt": coded(codec.AppendAttemptEnd, codec.DecodeAttemptEnd),
	"ended.tally":   coded(codec.AppendTally, codec.DecodeTally),
	"ended.own":     coded(codec.AppendOwn, codec.DecodeOwn),
	"attempt.body":  coded(codec.AppendAttemptEnd, codec.DecodeAttemptEnd),
	"round.changes": {showChanges, parseChanges, func(b []byte) error { _, err := codec.DecodeChanges(b); return err }},
}

// kinds has the form of a kind of values.
var kinds = map[rows.Kind]form{
	rows.Integer: integers(func(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) },
		func(raw json.RawMessage) (int64, error) { return parseInt(raw, 64) }),
	rows.Text: {
		show: func(b []byte, v *rows.Value) []byte { return appendText(b, v.Text) },
		parse: func(raw json.RawMessage) (rows.Value, error) {
			s, err := parseText(raw)
			return rows.Value{Kind: rows.Text, Text: s}, err
		},
	},
	rows.Blob: {
		show: func(b []byte, v *rows.Value) []byte { return appendOpaque(b, v.Blob) },
		parse: func(raw json.RawMessage) (rows.Value, error) {
			o, err := parseOpaque(raw)
			return rows.Value{Kind: rows.Blob, Blob: o}, err
		},
	},
	rows.Boolean: {
		show: func(b []byte, v *rows.Value) []byte { return strconv.AppendBool(b, v.Int != 0) },
		parse: func(raw json.RawMessage) (rows.Value, error) {
			v := rows.Value{Kind: rows.Boolean}
			on, err := parseBool(raw)
			if on {
				v.Int = 1
			}
			return v, err
		},
	},
	rows.ID: {show: showID, parse: parseIDValue},
}

func integers(show func([]byte, int64) []byte, parse func(json.RawMessage) (int64, error)) form {
	return form{
		show: func(b []byte, v *rows.Value) []byte { return show(b, v.Int) },
		parse: func(raw json.RawMessage) (rows.Value, error) {
			n, err := parse(raw)
			return rows.Value{Kind: rows.Integer, Int: n}, err
		},
	}
}

var (
	moment = integers(func(b []byte, n int64) []byte { return appendTime(b, job.Time(n)) },
		func(raw json.RawMessage) (int64, error) {
			t, err := parseTime(raw)
			return int64(t), err
		})
	span = integers(func(b []byte, n int64) []byte { return appendDuration(b, time.Duration(n)) },
		func(raw json.RawMessage) (int64, error) {
			d, err := parseDuration(raw)
			return int64(d), err
		})
	outcome = worded(wordsOf[job.Outcome]())
	state   = worded(states())
)

func worded(w *words) form {
	return integers(w.append, func(raw json.RawMessage) (int64, error) { return w.parse(raw, 64) })
}

// states are the words of the live table's numbers.
func states() *words {
	var w words
	for _, s := range []job.State{job.Blocked{}, job.Ready{}, job.Running{}, job.Done{}} {
		if n, ok := rows.StateNumber(s.String()); ok {
			w[n] = s.String()
		}
	}
	return &w
}

// showID writes an id; what is none, as a damaged store may have, as text.
func showID(b []byte, v *rows.Value) []byte {
	if v.Kind == rows.ID {
		return appendUUID(b, v.ID)
	}
	return appendString(b, escape+base64.StdEncoding.EncodeToString(v.Blob))
}

func parseIDValue(raw json.RawMessage) (rows.Value, error) {
	s, err := parseText(raw)
	if err != nil {
		return rows.Value{}, err
	}
	id, err := job.ParseID(s)
	if err != nil && len(raw) > len(escape) && string(raw[1:1+len(escape)]) == escape {
		return rows.Value{Kind: rows.Blob, Blob: []byte(s)}, nil
	}
	return rows.Value{Kind: rows.ID, ID: id}, err
}

// coded is the form of what package codec encodes.
func coded[T any](encode func([]byte, *T) []byte, decode func([]byte) (T, error)) form {
	return form{
		func(b []byte, v *rows.Value) []byte {
			record, err := decode(v.Blob)
			if err != nil {
				return appendRaw(b, v.Blob, err)
			}
			return appendStruct(b, reflect.ValueOf(record))
		},
		func(raw json.RawMessage) (rows.Value, error) {
			if b, ok, err := parseRaw(raw); ok {
				return rows.Value{Kind: rows.Blob, Blob: b}, err
			}
			var record T
			if err := parseStruct(raw, reflect.ValueOf(&record).Elem()); err != nil {
				return rows.Value{}, err
			}
			return rows.Value{Kind: rows.Blob, Blob: encode(nil, &record)}, nil
		},
		func(b []byte) error {
			_, err := decode(b)
			return err
		},
	}
}

func showChanges(b []byte, v *rows.Value) []byte {
	list, err := codec.DecodeChanges(v.Blob)
	if err != nil {
		return appendRaw(b, v.Blob, err)
	}
	return appendSlice(b, reflect.ValueOf(list))
}

func parseChanges(raw json.RawMessage) (rows.Value, error) {
	if b, ok, err := parseRaw(raw); ok {
		return rows.Value{Kind: rows.Blob, Blob: b}, err
	}
	var list []job.Change
	if err := parseSlice(raw, reflect.ValueOf(&list).Elem()); err != nil {
		return rows.Value{}, err
	}
	b, err := codec.AppendChanges(nil, list)
	return rows.Value{Kind: rows.Blob, Blob: b}, err
}

// appendRaw writes what cannot be decoded, and why not.
func appendRaw(b, blob []byte, err error) []byte {
	b = append(appendString(append(b, `{"error":`...), err.Error()), `,"raw":`...)
	return append(appendString(b, base64.StdEncoding.EncodeToString(blob)), '}')
}

// parseRaw reads that; ok is false for what was decoded.
func parseRaw(raw json.RawMessage) (blob []byte, ok bool, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false, nil
	}
	m, err := object(raw)
	if err != nil {
		return nil, false, nil // Whoever reads on says so.
	}
	coded, ok := m["raw"]
	if !ok {
		return nil, false, nil
	}
	var s string
	if err := json.Unmarshal(coded, &s); err != nil {
		return nil, true, errors.New("raw: want base64")
	}
	if blob, err = base64.StdEncoding.DecodeString(s); err != nil {
		return nil, true, fmt.Errorf("raw: %v", err)
	}
	return blob, true, nil
}

// table is a table with the forms of its columns.
type table struct {
	*rows.Whole
	forms []form
	order []int // in which the columns are written: what others name the row by comes first
}

// tables has all of them, in the order of a dump.
var tables = func() (list []*table) {
	for _, w := range rows.Wholes {
		t := &table{Whole: w}
		for i := range w.Columns {
			c := &w.Columns[i]
			f, ok := forms[w.Name+"."+c.Name]
			if !ok {
				f = kinds[c.Kind]
			}
			t.forms = append(t.forms, f)
			if c.Name == "seq" {
				t.order = append([]int{i}, t.order...)
			} else {
				t.order = append(t.order, i)
			}
		}
		list = append(list, t)
	}
	return list
}()

// append writes the line of a row.
func (t *table) append(b []byte, row []rows.Value) []byte {
	b = append(appendString(append(b, '{'), t.Name), `:{`...)
	from := len(b)
	for _, i := range t.order {
		c, v := &t.Columns[i], &row[i]
		// What may be null is left out if it is; what must not is left out where it is zero.
		if v.Kind == rows.Null || !c.Null && (v.Kind == rows.Integer || v.Kind == rows.Boolean) && v.Int == 0 ||
			!c.Null && v.Kind == rows.Text && v.Text == "" {
			continue
		}
		if len(b) > from {
			b = append(b, ',')
		}
		b = append(appendString(b, c.Name), ':')
		b = t.forms[i].show(b, v)
	}
	return append(b, '}', '}', '\n')
}

// parse reads a row.
func (t *table) parse(raw json.RawMessage) ([]rows.Value, error) {
	m, err := object(raw)
	if err != nil {
		return nil, err
	}
	row := make([]rows.Value, len(t.Columns))
	for i := range t.Columns {
		c := &t.Columns[i]
		item, ok := m[c.Name]
		delete(m, c.Name)
		switch {
		case ok:
			if row[i], err = t.forms[i].parse(item); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
		case !c.Null && (c.Kind == rows.Blob || c.Kind == rows.ID):
			return nil, fmt.Errorf("%s is missing", c.Name)
		case !c.Null:
			row[i].Kind = c.Kind
		}
	}
	return row, none(m)
}
