package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/job"
)

// escape begins a text that stands for bytes.
const escape = "base64:"

// appendText writes any bytes as a JSON string.
func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) || strings.HasPrefix(s, escape) {
		s = escape + base64.StdEncoding.EncodeToString([]byte(s))
	}
	return appendString(b, s)
}

// appendString writes a JSON string without anything that a terminal would obey.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case obeyed(r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// obeyed reports whether a terminal or a program that goes by lines takes the character for more than a sign.
func obeyed(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }

// appendOpaque writes what the engine does not look into: JSON as it is where that gives the same bytes again, else text.
func appendOpaque(b, v []byte) []byte {
	if isPlain(v) {
		return append(b, v...)
	}
	return appendText(b, string(v))
}

// deepest is how many brackets JSON may have that is written as it is: what reads it bounds how deep it goes.
const deepest = 5000

// isPlain reports whether the bytes are a JSON object or list without blanks and without anything that a terminal would obey.
func isPlain(v []byte) bool {
	if len(v) == 0 || v[0] != '{' && v[0] != '[' || !utf8.Valid(v) || bytes.IndexFunc(v, obeyed) >= 0 {
		return false
	}
	if bytes.Count(v, []byte("{"))+bytes.Count(v, []byte("[")) > deepest {
		return false
	}
	var short bytes.Buffer
	return json.Compact(&short, v) == nil && bytes.Equal(short.Bytes(), v)
}

func appendUUID(b []byte, id [16]byte) []byte { return appendString(b, job.ID(id).String()) }

// appendTime writes a moment; one of a year that the form does not know as its number.
func appendTime(b []byte, t job.Time) []byte {
	std := time.UnixMicro(int64(t)).UTC()
	if y := std.Year(); y < 0 || y > 9999 {
		return strconv.AppendInt(b, int64(t), 10)
	}
	return std.AppendFormat(b, `"`+timeForm+`"`)
}

const timeForm = "2006-01-02T15:04:05.000000Z"

func appendDuration(b []byte, d time.Duration) []byte { return appendString(b, d.String()) }

// appendFloat writes a number; one that JSON does not know as its bits.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Appendf(b, `"%#016x"`, math.Float64bits(f))
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64)
}

var (
	idType       = reflect.TypeFor[job.ID]()
	tokenType    = reflect.TypeFor[job.Token]()
	timeType     = reflect.TypeFor[job.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	changeType   = reflect.TypeFor[job.Change]()
)

// words are the names of the values of a small set; "" has none, or one that others have, too.
type words [256]string

// named has the sets that have names.
var named = map[reflect.Type]*words{
	reflect.TypeFor[job.Outcome](): wordsOf[job.Outcome](),
	reflect.TypeFor[job.Detail]():  wordsOf[job.Detail](),
	reflect.TypeFor[job.Policy]():  wordsOf[job.Policy](),
	reflect.TypeFor[job.Discipline](): {
		job.ByRank: "by-rank", job.ByAge: "by-age",
	},
}

func wordsOf[T interface {
	~uint8
	fmt.Stringer
}]() *words {
	w, count := &words{}, map[string]int{}
	for i := range w {
		w[i] = T(i).String()
		count[w[i]]++
	}
	for i := range w {
		if count[w[i]] > 1 {
			w[i] = ""
		}
	}
	return w
}

// value gives the number of a word.
func (w *words) value(word string) (n int64, ok bool) {
	i := slices.Index(w[:], word)
	return int64(i), i >= 0 && word != ""
}

func (w *words) append(b []byte, n int64) []byte {
	if n >= 0 && n < int64(len(w)) && w[n] != "" {
		return appendString(b, w[n])
	}
	return strconv.AppendInt(b, n, 10)
}

// appendValue writes a value of one of the types that records are made of.
func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Type() {
	case idType, tokenType:
		var id [16]byte
		reflect.Copy(reflect.ValueOf(id[:]), v)
		return appendUUID(b, id)
	case timeType:
		return appendTime(b, job.Time(v.Int()))
	case durationType:
		return appendDuration(b, time.Duration(v.Int()))
	case changeType:
		return appendChange(b, v.Elem())
	}
	switch v.Kind() {
	case reflect.Struct:
		return appendStruct(b, v)
	case reflect.Pointer:
		return appendValue(b, v.Elem())
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Uint8:
		if w := named[v.Type()]; w != nil {
			return w.append(b, int64(v.Uint()))
		}
		return strconv.AppendUint(b, v.Uint(), 10)
	case reflect.Float64:
		return appendFloat(b, v.Float())
	case reflect.Slice:
		return appendSlice(b, v)
	case reflect.Map:
		return appendMap(b, v)
	default:
		panic("archive: no form for a " + v.Type().String()) // A test tries all that records are made of.
	}
}

func appendSlice(b []byte, v reflect.Value) []byte {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return appendOpaque(b, v.Bytes())
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, v.Index(i))
	}
	return append(b, ']')
}

func appendMap(b []byte, v reflect.Value) []byte {
	m := map[string]reflect.Value{}
	for i := v.MapRange(); i.Next(); {
		m[i.Key().String()] = i.Value()
	}
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, k), ':')
		b = appendValue(b, m[k])
	}
	return append(b, '}')
}

// appendStruct writes the fields that are not zero or empty.
func appendStruct(b []byte, v reflect.Value) []byte {
	b = append(b, '{')
	from := len(b)
	for _, f := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(f.index)
		if field.IsZero() || (field.Kind() == reflect.Slice || field.Kind() == reflect.Map) && field.Len() == 0 {
			continue
		}
		if len(b) > from {
			b = append(b, ',')
		}
		b = append(appendString(b, f.name), ':')
		b = appendValue(b, field)
	}
	return append(b, '}')
}

func appendChange(b []byte, v reflect.Value) []byte {
	b = append(appendString(append(b, '{'), snake(v.Type().Name())), ':')
	return append(appendStruct(b, v), '}')
}
