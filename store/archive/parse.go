package archive

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// What follows is the inverse of pen.go.

func parseText(raw json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errors.New("want a text")
	}
	coded, ok := strings.CutPrefix(s, escape)
	if !ok {
		return s, nil
	}
	b, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return "", fmt.Errorf("after %q: %v", escape, err)
	}
	return string(b), nil
}

func parseOpaque(raw json.RawMessage) ([]byte, error) {
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		return slices.Clone(raw), nil
	}
	s, err := parseText(raw)
	return []byte(s), err
}

func parseID(raw json.RawMessage) (job.ID, error) {
	s, err := parseText(raw)
	if err != nil {
		return job.ID{}, err
	}
	return job.ParseID(s)
}

func parseInt(raw json.RawMessage, bits int) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil {
		return 0, fmt.Errorf("want a number of %d bits", bits)
	}
	return n, nil
}

func parseTime(raw json.RawMessage) (job.Time, error) {
	if len(raw) > 0 && raw[0] != '"' {
		n, err := parseInt(raw, 64)
		return job.Time(n), err
	}
	s, err := parseText(raw)
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, fmt.Errorf("time %q: want a form like 2026-01-31T10:00:00.000000Z", s)
	}
	return job.Time(t.UnixMicro()), nil
}

func parseDuration(raw json.RawMessage) (time.Duration, error) {
	s, err := parseText(raw)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(s)
}

func parseFloat(raw json.RawMessage) (float64, error) {
	if len(raw) > 0 && raw[0] != '"' {
		return strconv.ParseFloat(string(raw), 64)
	}
	s, err := parseText(raw)
	if err != nil {
		return 0, err
	}
	bits, err := strconv.ParseUint(s, 0, 64)
	return math.Float64frombits(bits), err
}

func (w *words) parse(raw json.RawMessage, bits int) (int64, error) {
	if len(raw) > 0 && raw[0] != '"' {
		return parseInt(raw, bits)
	}
	s, err := parseText(raw)
	if err != nil {
		return 0, err
	}
	n, ok := w.value(s)
	if !ok {
		return 0, fmt.Errorf("unknown word %q", s)
	}
	return n, nil
}

func parseBool(raw json.RawMessage) (v bool, err error) {
	if json.Unmarshal(raw, &v) != nil {
		return false, errors.New("want true or false")
	}
	return v, nil
}

// parseValue reads into v, which is zero.
func parseValue(raw json.RawMessage, v reflect.Value) error {
	if ok, err := parseSpecial(raw, v); ok {
		return err
	}
	switch v.Kind() {
	case reflect.Struct:
		return parseStruct(raw, v)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return parseValue(raw, v.Elem())
	case reflect.String:
		s, err := parseText(raw)
		v.SetString(s)
		return err
	case reflect.Bool:
		on, err := parseBool(raw)
		v.SetBool(on)
		return err
	case reflect.Int32, reflect.Int64:
		n, err := parseInt(raw, v.Type().Bits())
		v.SetInt(n)
		return err
	case reflect.Uint8:
		w := named[v.Type()]
		if w == nil {
			w = &words{}
		}
		n, err := w.parse(raw, 9)
		if err == nil && (n < 0 || n > math.MaxUint8) {
			err = fmt.Errorf("%d: want 0 to 255", n)
		}
		v.SetUint(uint64(uint8(n)))
		return err
	case reflect.Float64:
		f, err := parseFloat(raw)
		v.SetFloat(f)
		return err
	case reflect.Slice:
		return parseSlice(raw, v)
	case reflect.Map:
		return parseMap(raw, v)
	default:
		panic("archive: no form for a " + v.Type().String())
	}
}

// parseSpecial reads values whose form goes by their type.
func parseSpecial(raw json.RawMessage, v reflect.Value) (ok bool, err error) {
	switch v.Type() {
	case idType, tokenType:
		id, err := parseID(raw)
		reflect.Copy(v, reflect.ValueOf(id))
		return true, err
	case timeType:
		t, err := parseTime(raw)
		v.SetInt(int64(t))
		return true, err
	case durationType:
		d, err := parseDuration(raw)
		v.SetInt(int64(d))
		return true, err
	case changeType:
		return true, parseChange(raw, v)
	}
	return false, nil
}

func parseSlice(raw json.RawMessage, v reflect.Value) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		b, err := parseOpaque(raw)
		v.SetBytes(b)
		return err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return errors.New("want a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i := range list {
		if err := parseValue(list[i], v.Index(i)); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// object takes an object apart.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, errors.New("want an object")
	}
	return m, nil
}

func parseMap(raw json.RawMessage, v reflect.Value) error {
	m, err := object(raw)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	for k, item := range m {
		key, err := parseText(quoted(k))
		if err != nil {
			return err
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := parseValue(item, elem); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		v.SetMapIndex(reflect.ValueOf(key), elem)
	}
	return nil
}

func quoted(s string) json.RawMessage { return appendString(nil, s) }

func parseStruct(raw json.RawMessage, v reflect.Value) error {
	m, err := object(raw)
	if err != nil {
		return err
	}
	for _, f := range fieldsOf(v.Type()) {
		item, ok := m[f.name]
		if !ok {
			continue
		}
		delete(m, f.name)
		if err := parseValue(item, v.FieldByIndex(f.index)); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return none(m)
}

// none refuses what is left of an object: a word that is not known may be a slip of the pen.
func none(m map[string]json.RawMessage) error {
	for name := range m {
		return fmt.Errorf("unknown field %q", name)
	}
	return nil
}

func parseChange(raw json.RawMessage, v reflect.Value) error {
	m, err := object(raw)
	if err != nil {
		return err
	}
	if len(m) != 1 {
		return fmt.Errorf("a change has one name, this has %d", len(m))
	}
	for name, item := range m {
		t := changes[name]
		if t == nil {
			return fmt.Errorf("unknown change %q", name)
		}
		c := reflect.New(t).Elem()
		if err := parseStruct(item, c); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		v.Set(c)
	}
	return nil
}
