package graph

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// maxColons bounds the entries of mappings in one piece: the library takes time that grows with the
// square of the entries of a mapping, 0.3 s for 10,000.
const maxColons = 20_000

// parse reads one piece of the file into a node.
func (r *yamlReader) parse(piece string) (node, error) {
	tokens, err := r.tokens(piece)
	if err != nil {
		return node{}, err
	}
	file, err := parseTokens(tokens)
	if err != nil {
		var at yaml.Error
		if !errors.As(err, &at) {
			r.d.add(place{r.first, 1}, "not valid YAML: %v", err)
			return node{}, errStop
		}
		why := at.GetMessage()
		if why == "mapping value is not allowed in this context" {
			why = holdsColon
		}
		r.d.add(r.at(at.GetToken()), "not valid YAML: %s", why)
		return node{}, errStop
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return node{at: place{r.first, 1}}, nil
	}
	if len(file.Docs) > 1 {
		r.d.add(r.at(file.Docs[1].GetToken()), "a second document begins: expected one a file")
		return node{}, errStop
	}
	var n node
	err = r.node(&n, file.Docs[0].Body, 0)
	return n, err
}

// errFault is what is said of a text on which the library fails: that must not take the program down.
var errFault = errors.New("the parser gave up on this text")

// scan gives the next tokens.
func scan(s *scanner.Scanner) (tokens token.Tokens, err error) {
	defer func() {
		if recover() != nil {
			tokens, err = nil, errFault
		}
	}()
	return s.Scan()
}

func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if recover() != nil {
			file, err = nil, errFault
		}
	}()
	// Duplicates are found here, with both places; the library would stop at the first.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// tokens splits a piece into tokens and stops at the limits, before the library builds its tree: that
// is recursive, and takes a multiple of the memory.
func (r *yamlReader) tokens(piece string) (token.Tokens, error) {
	var s scanner.Scanner
	s.Init(piece)
	var all token.Tokens
	rules := strict{text: piece, line: 1, col: 1}
	depth, run, colons := 0, 0, 0
	for {
		some, err := scan(&s)
		for _, t := range some {
			switch t.Type {
			case token.MappingStartType, token.SequenceStartType:
				depth++
			case token.MappingEndType, token.SequenceEndType:
				depth--
			case token.MappingValueType:
				colons++
			default:
			}
			// "- - -" and "? ? ?" nest without brackets.
			if t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType {
				run++
			} else {
				run = 0
			}
			if depth+run > maxDepth {
				return nil, r.tooDeep(r.at(t))
			}
			if t.Type == token.InvalidType {
				r.d.add(r.at(t), "not valid YAML: %s", t.Error)
				return nil, errStop
			}
			if why, at := rules.check(t); why != "" {
				r.d.add(r.at(at), "not valid YAML: %s", why)
				return nil, errStop
			}
		}
		all.Add(some...)
		if len(all) > 2*maxNodes || colons > maxColons {
			r.d.add(place{r.first, 1}, "%s; jobs stand one below the other, or use JSON", tooBig(r.d.lim))
			return nil, errStop
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			r.d.add(place{r.first, 1}, "not valid YAML: %v", err)
			return nil, errStop
		}
	}
}

func (r *yamlReader) tooDeep(at place) error {
	r.d.add(at, "nested too deeply: at most %d levels", maxDepth)
	return errStop
}

// at gives the place of a token in the file.
func (r *yamlReader) at(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{r.first, 1}
	}
	return place{r.first + int32(t.Position.Line) - 1, int32(max(1, t.Position.Column))}
}

// node turns a node of the library into one of ours.
func (r *yamlReader) node(n *node, from ast.Node, depth int) error {
	if depth > maxDepth {
		return r.tooDeep(r.at(from.GetToken()))
	}
	n.at, n.size = r.at(from.GetToken()), 1
	switch from := from.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.kind, n.text = boolean, from.Token.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = plainKind(from.GetToken().Value), from.GetToken().Value
	case *ast.StringNode:
		n.kind, n.text = text, from.Value
		if from.Token.Type == token.StringType {
			n.kind = plainKind(from.Value)
		}
	case *ast.LiteralNode:
		n.kind, n.text = text, from.Value.Value
	case *ast.MappingNode:
		return r.mapping(n, from.Values, from.IsFlowStyle, depth)
	case *ast.MappingValueNode:
		return r.mapping(n, []*ast.MappingValueNode{from}, from.IsFlowStyle, depth)
	case *ast.SequenceNode:
		return r.list(n, from, depth)
	case *ast.AnchorNode:
		if err := r.node(n, from.Value, depth); err != nil {
			return err
		}
		r.anchors[strings.Clone(from.Name.GetToken().Value)] = *n
	case *ast.AliasNode:
		return r.alias(n, from)
	case *ast.TagNode:
		if from.Start.Value != "!!str" || from.Value == nil {
			r.d.add(n.at, "tag %s is not supported", quote(from.Start.Value))
			return errStop
		}
		if err := r.node(n, from.Value, depth); err != nil {
			return err
		}
		if n.scalar() {
			n.kind = text
		}
	case *ast.MappingKeyNode:
		r.d.add(n.at, "expected a field as name: value, without ?")
		return errStop
	default:
		r.d.add(n.at, "YAML of this form is not supported here")
		return errStop
	}
	return nil
}

// coreNumber matches what is a number by the core schema of YAML 1.2. The library takes 1e1 for a text, and 1_000 for a number.
var coreNumber = regexp.MustCompile(`^([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)

// plainKind tells a number from a text where both stand without quotes.
func plainKind(s string) kind {
	if s != "" && strings.IndexByte("+-.0123456789", s[0]) >= 0 && coreNumber.MatchString(s) {
		return number
	}
	return text
}

func (r *yamlReader) list(n *node, from *ast.SequenceNode, depth int) error {
	n.kind = list
	for _, v := range from.Values {
		if !from.IsFlowStyle && !r.indented(from.Start, v) {
			return errStop
		}
		var item node
		if err := r.node(&item, v, depth+1); err != nil {
			return err
		}
		if err := r.grow(n, &item); err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

// grow counts a child, with all that its aliases stand for.
func (r *yamlReader) grow(n, child *node) error {
	if n.size += child.size; n.size > maxNodes {
		r.d.add(n.at, "%s", tooBig(r.d.lim))
		return errStop
	}
	return nil
}

// alias puts what an alias stands for in its place. It is found only if it is complete, so nothing can
// contain itself.
func (r *yamlReader) alias(n *node, from *ast.AliasNode) error {
	at, name := n.at, from.Value.GetToken().Value
	target, ok := r.anchors[name]
	if !ok {
		r.d.add(at, "no anchor is named %s before it", quote(name))
		return errStop
	}
	*n = target
	n.at = at
	if !r.d.grow(at, int64(n.size)*16) {
		return errStop
	}
	return nil
}

func (r *yamlReader) mapping(n *node, values []*ast.MappingValueNode, flow bool, depth int) error {
	n.kind = mapping
	if len(values) > 0 {
		n.at = r.at(values[0].Key.GetToken())
	}
	var seen names
	var merged []node
	for _, v := range values {
		if !flow && !r.indented(v.Key.GetToken(), v.Value) {
			return errStop
		}
		var f field
		if err := r.node(&f.value, v.Value, depth+1); err != nil {
			return err
		}
		f.at = r.at(v.Key.GetToken())
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, f.value)
			continue
		}
		if err := r.key(&f, v.Key, depth); err != nil {
			return err
		}
		before := n.size
		n.add(r.d, &seen, f)
		n.size = before
		if err := r.grow(n, &f.value); err != nil {
			return err
		}
	}
	for i := range merged {
		if err := r.merge(n, &merged[i]); err != nil {
			return err
		}
	}
	return nil
}

// key reads the name of a field: any scalar, as it is written.
func (r *yamlReader) key(f *field, key ast.MapKeyNode, depth int) error {
	var k node
	if err := r.node(&k, key, depth+1); err != nil {
		return err
	}
	if k.kind == null {
		k.text = key.GetToken().Value
	} else if !k.scalar() {
		r.d.add(f.at, "expected a name, found %s", k.kind)
	}
	f.name = k.text
	return nil
}

// merge adds the fields of a merge key (<<) that are not there yet.
func (r *yamlReader) merge(n, from *node) error {
	switch from.kind {
	case mapping:
	case list:
		for i := range from.items {
			if from.items[i].kind != mapping {
				r.d.add(from.items[i].at, "<<: expected a mapping, found %s", from.items[i].found())
				return nil
			}
			if err := r.merge(n, &from.items[i]); err != nil {
				return err
			}
		}
		return nil
	default:
		r.d.add(from.at, "<<: expected a mapping, found %s", from.found())
		return nil
	}
	have := make(map[string]struct{}, len(n.fields))
	for i := range n.fields {
		have[n.fields[i].name] = struct{}{}
	}
	// The fields of n may be shared with an alias, so they are not appended to in place.
	fields := slices.Clone(n.fields)
	for i := range from.fields {
		f := from.fields[i]
		if _, ok := have[f.name]; ok {
			continue
		}
		if err := r.grow(n, &f.value); err != nil {
			return err
		}
		fields = append(fields, f)
	}
	n.fields = fields
	return nil
}
