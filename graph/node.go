package graph

import (
	"math"
	"strconv"
	"strings"
)

// kind is the type of a value in a file.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	mapping
)

var kindNames = [...]string{
	null: "nothing", boolean: "a boolean", number: "a number", text: "a string", list: "a list", mapping: "a mapping",
}

func (k kind) String() string { return kindNames[k] }

// node is a value of a file, YAML and JSON alike. Nodes that aliases stand for share their contents,
// so nobody changes a node once it is made.
type node struct {
	kind kind
	// size counts the node and all below it; it is at most maxNodes.
	size int32
	at   place
	// text is a scalar as the file writes it (1.10 stays 1.10), without quotes.
	text   string
	items  []node
	fields []field
}

// field is one entry of a mapping.
type field struct {
	name  string
	at    place
	value node
}

// scalar reports whether the node is a string, number or boolean.
func (n *node) scalar() bool { return n.kind == text || n.kind == number || n.kind == boolean }

// whole gives the value of a whole number, however it is written: to JSON Schema, 10, 10.0 and 1e1 are the same.
func (n *node) whole() (v int, ok bool) {
	if n.kind != number {
		return 0, false
	}
	for prefix, base := range map[string]int{"0o": 8, "0x": 16, "": 10} {
		digits, has := strings.CutPrefix(n.text, prefix)
		if v, err := strconv.ParseInt(digits, base, 0); has && err == nil {
			return int(v), true
		}
	}
	const exact = 1 << 53 // up to here no whole number is skipped
	f, err := strconv.ParseFloat(n.text, 64)
	return int(f), err == nil && f == math.Trunc(f) && math.Abs(f) < exact
}

// find gives the value of a field of a mapping, or nil.
func (n *node) find(name string) *node {
	for i := range n.fields {
		if n.fields[i].name == name {
			return &n.fields[i].value
		}
	}
	return nil
}

// found describes a value in a message: its type, and its text if it is short enough to help.
func (n *node) found() string {
	switch n.kind {
	case number:
		return "the number " + cut(n.text)
	case boolean:
		return "the boolean " + cut(n.text)
	case text:
		return quote(n.text)
	case list:
		if len(n.items) == 0 {
			return "an empty list"
		}
	case null, mapping:
	}
	return n.kind.String()
}

func cut(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// names finds duplicates among the fields of one mapping; the zero value is empty.
type names struct {
	many map[string]struct{}
}

// add puts a field into a mapping, or reports that its name is there already.
func (n *node) add(d *decoder, seen *names, f field) {
	const few = 16
	n.size += f.value.size
	var twice bool
	if len(n.fields) < few {
		twice = n.find(f.name) != nil
	} else {
		if seen.many == nil {
			seen.many = make(map[string]struct{}, 4*few)
			for i := range n.fields {
				seen.many[n.fields[i].name] = struct{}{}
			}
		}
		_, twice = seen.many[f.name]
		seen.many[f.name] = struct{}{}
	}
	if twice {
		d.twice(f, n.fieldAt(f.name))
		return
	}
	if n.fields == nil {
		n.fields = make([]field, 0, 4)
	}
	n.fields = append(n.fields, f)
}

func (n *node) fieldAt(name string) place {
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].at
		}
	}
	return n.at
}
