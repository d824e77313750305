package graph

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// strict finds what the YAML library takes although YAML 1.2 does not. The library guesses what was
// meant, and other readers of the same file would refuse it or guess otherwise; but what runs must be what
// the file says. It looks at the tokens of one piece in order.
type strict struct {
	// text is the piece from the place line:col on, which moves forward with the tokens.
	text      string
	line, col int
	// flow has for each open brace or bracket whether the entry that is being read has its colon.
	flow []bool
	// last is the token before, and before the one before that.
	last, before *token.Token
	// colon is the last colon outside of braces, and value the first token after it.
	colon, value *token.Token
}

// check tells what is wrong with the next token and at which token to say so, or "".
func (s *strict) check(t *token.Token) (string, *token.Token) {
	if s.value == nil {
		s.value = t
	}
	why, at := s.rule(t)
	s.before, s.last = s.last, t
	return why, at
}

// after reports whether the token before is of one of some types.
func (s *strict) after(types ...token.Type) bool {
	return s.last != nil && slices.Contains(types, s.last.Type)
}

// rule finds the rule that a token breaks.
func (s *strict) rule(t *token.Token) (string, *token.Token) {
	if s.after(token.AnchorType, token.AliasType) && !anchorName.MatchString(t.Origin) {
		return "an anchor is named with letters, digits, - and _, found " + quote(t.Value), t
	}
	if s.glued(t) {
		return "expected a space before " + quote(strings.TrimSpace(t.Value)), t
	}
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		s.flow = append(s.flow, false)
	case token.MappingEndType, token.SequenceEndType:
		s.flow = s.flow[:max(0, len(s.flow)-1)]
	case token.CollectEntryType:
		if s.after(token.MappingStartType, token.SequenceStartType, token.CollectEntryType) {
			return "expected a value before the comma", t
		}
		if len(s.flow) > 0 {
			s.flow[len(s.flow)-1] = false
		}
	case token.MappingValueType:
		return s.mappingValue(t)
	case token.SequenceEntryType:
		if len(s.flow) > 0 {
			return "a list inside of braces or brackets is written in brackets; put a text that begins with - in quotes", t
		}
	case token.LiteralType, token.FoldedType:
		if len(s.flow) > 0 {
			return "a text inside of braces or brackets cannot be a block; put it in quotes", t
		}
		if !blockHeader.MatchString(t.Value) {
			return "expected | or > with at most a digit and one of + and -, found " + quote(t.Value), t
		}
	case token.DocumentHeaderType, token.DocumentEndType:
		return "expected " + t.Value + " on a line of its own", t
	case token.DoubleQuoteType:
		return s.escapes(t), t
	case token.TagType:
		if s.after(token.TagType) {
			return "two tags for one value", t
		}
	case token.StringType:
		if s.after(token.LiteralType, token.FoldedType) && !strings.ContainsAny(s.last.Value, "123456789") && deeperBlank(t.Origin) {
			return "the empty lines that a block begins with are indented more than its first line", s.last
		}
		// A name of an anchor, and the lines of a block, are no plain text.
		if !s.after(token.LiteralType, token.FoldedType, token.AnchorType, token.AliasType) {
			return s.plain(t.Value), t
		}
	default:
	}
	return "", t
}

// glued reports a token that follows a colon or the name of an anchor without a space. A colon needs none
// after quotes and brackets, nor before a brace or a bracket.
func (s *strict) glued(t *token.Token) bool {
	last := s.last
	if last == nil || last.Position.Line != t.Position.Line ||
		t.Position.Column != last.Position.Column+utf8.RuneCountInString(strings.TrimSpace(last.Value)) {
		return false
	}
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		return s.before != nil && s.before.Type == token.AnchorType
	case token.AnchorType, token.AliasType, token.TagType, token.SingleQuoteType, token.DoubleQuoteType:
		if last.Type != token.MappingValueType || s.before == nil {
			return false
		}
		switch s.before.Type {
		case token.SingleQuoteType, token.DoubleQuoteType, token.MappingEndType, token.SequenceEndType:
			return false
		default:
			return true
		}
	default:
		return false
	}
}

// escapes checks the escapes by number in a text in double quotes, which the library takes with too few
// digits. The token has them no more, so they are looked up in the piece.
func (s *strict) escapes(t *token.Token) string {
	for s.text != "" && (s.line < t.Position.Line || s.line == t.Position.Line && s.col < t.Position.Column) {
		c, size := utf8.DecodeRuneInString(s.text)
		s.text, s.col = s.text[size:], s.col+1
		if c == '\n' {
			s.line, s.col = s.line+1, 1
		}
	}
	text, quoted := strings.CutPrefix(s.text, `"`)
	for quoted {
		i := strings.IndexAny(text, "\"\\")
		if i < 0 || text[i] == '"' || i+1 == len(text) {
			break
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[i+1]]
		text = text[i+2:]
		number := text[:min(digits, len(text))]
		if len(number) < digits || strings.Trim(number, "0123456789abcdefABCDEF") != "" {
			return "expected an escape such as \\x41 or \\u00e9"
		}
	}
	return ""
}

// deeperBlank reports whether a block begins with an empty line that is longer than the indentation of
// its first other line.
func deeperBlank(block string) bool {
	most := 0
	for line := range strings.Lines(block) {
		text := strings.TrimLeft(line, " ")
		if text != "\n" {
			return most > len(line)-len(text)
		}
		most = max(most, len(line)-1)
	}
	return false
}

// mappingValue checks a colon: the second of an entry, or of a line of a block, is inside of a text.
func (s *strict) mappingValue(t *token.Token) (string, *token.Token) {
	if open := len(s.flow) - 1; open >= 0 {
		if s.flow[open] {
			return holdsColon, t
		}
		s.flow[open] = true
		return "", t
	}
	if s.colon != nil && s.colon.Position.Line == t.Position.Line && s.value != nil {
		return holdsColon, s.value
	}
	s.colon, s.value = t, nil
	return "", t
}

const holdsColon = `the text holds ": ", which begins a value: ` +
	`put all of the text in quotes, or the field on a line of its own`

// plain tells what is wrong with a text without quotes, or "".
func (s *strict) plain(text string) string {
	if strings.HasPrefix(text, "}") || strings.HasPrefix(text, "]") {
		return text[:1] + " closes nothing; a text that begins with it needs quotes"
	}
	// The library itself refuses the other characters that mean something.
	if strings.ContainsAny(text[:min(1, len(text))], "%@`,[{") {
		return "a text that begins with " + text[:1] + " needs quotes"
	}
	if i := strings.IndexAny(text, ",[]{}"); i >= 0 && len(s.flow) > 0 {
		return "a text with " + text[i:i+1] + " inside of braces or brackets needs quotes"
	}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, ":")
		if !found {
			return ""
		}
		if after == "" || strings.ContainsAny(after[:1], " \t\n") {
			return holdsColon
		}
		rest = after
	}
}

// anchorName is what all readers take; the trailing blanks and line ends are no part of the name.
var anchorName = regexp.MustCompile(`^[A-Za-z0-9_-]+\s*$`)

// blockHeader is what may stand before the lines of a block.
var blockHeader = regexp.MustCompile(`^[|>]([1-9][+-]?|[+-][1-9]?)?$`)

// indented checks that the value of a field of a block stands further right than its name, if it is on a
// line of its own. Lists may begin where the name does.
func (r *yamlReader) indented(name *token.Token, value ast.Node) bool {
	for {
		t := value.GetToken()
		if t.Type == token.ImplicitNullType {
			return true
		}
		if list, ok := value.(*ast.SequenceNode); ok && !list.IsFlowStyle && name.Type != token.SequenceEntryType {
			return true
		}
		if m, ok := value.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
			t = m.Values[0].Key.GetToken()
		}
		if m, ok := value.(*ast.MappingValueNode); ok {
			t = m.Key.GetToken()
		}
		at := *t.Position
		if blank := t.Origin[:len(t.Origin)-len(strings.TrimLeft(t.Origin, " \n"))]; t.Type == token.StringType {
			// The library's place is wrong if the text goes on over lines and begins with a dash.
			if end := strings.LastIndexByte(blank, '\n'); end >= 0 {
				at.Line, at.Column = max(at.Line, name.Position.Line+1), len(blank)-end
			}
		}
		if at.Line > name.Position.Line && at.Column <= name.Position.Column {
			r.d.add(r.at(t), "expected the value after %s indented more", quote(name.Value))
			return false
		}
		switch outer := value.(type) {
		case *ast.AnchorNode:
			value = outer.Value
		case *ast.TagNode:
			value = outer.Value
		default:
			return true
		}
	}
}
