package graph

import (
	"iter"
	"slices"
	"strings"
)

// matrix is what the field matrix of a job makes: its variants in order. Each has a value for every
// axis, in the order of the axes, and after them what include entries add.
type matrix struct {
	axes     []string
	variants [][]Var
	at       place
	uses     []use
}

// use is a text of a job, or of the defaults, in which matrix variables are: where it stands, in which field.
type use struct {
	field, text string
	at          place
}

// axis is one axis with its values.
type axis struct {
	name   string
	values []string
}

// decodeMatrix gives the variants of a job: every combination of the axes, the last axis fastest,
// without what exclude entries match, and with what include entries add:
//
//   - an entry with a value for every axis is a further variant, or adds its other variables to the
//     variant that is there;
//   - an entry with values for some axes adds its other variables to all variants that match.
//
// With no axis at all the names in the first include entry are the axes.
func (t *target) decodeMatrix(n *node) *matrix {
	if n.kind != mapping {
		t.wrong(n, "matrix", "a mapping from axes to lists of values")
		return nil
	}
	before := len(t.list)
	axes, include, exclude := t.axes(n)
	if len(axes) == 0 && len(include) == 0 && len(t.list) == before {
		t.add(n.at, "matrix: expected at least one axis, as in os: [linux, darwin]")
	}
	if len(t.list) > before || t.full() {
		return nil
	}
	m := &matrix{at: n.at}
	for _, a := range axes {
		m.axes = append(m.axes, a.name)
	}
	if !t.product(m, axes, n.at) {
		return nil
	}
	for i := range exclude {
		t.exclude(m, &exclude[i])
	}
	for i := range include {
		t.include(m, &include[i])
		if !t.room(len(m.variants), n.at) {
			return nil
		}
	}
	if len(t.list) > before {
		return nil
	}
	if len(m.variants) == 0 {
		t.add(n.at, "matrix: every variant is excluded")
		return nil
	}
	return m
}

// axes reads the fields of a matrix.
func (t *target) axes(n *node) (axes []axis, include, exclude []node) {
	for i := range n.fields {
		f := &n.fields[i]
		switch f.name {
		case "include":
			include = t.entries(&f.value, f.name)
		case "exclude":
			exclude = t.entries(&f.value, f.name)
		default:
			if why := badAxis(f.name); why != "" {
				t.add(f.at, "matrix: axis %s: %s", quote(f.name), why)
				continue
			}
			axes = append(axes, axis{f.name, t.axisValues(f)})
		}
	}
	return axes, include, exclude
}

// matrixLists are the fields of a matrix that are no axes.
var matrixLists = []string{"include", "exclude"}

func (t *target) axisValues(f *field) []string {
	n := &f.value
	if n.kind == mapping || n.kind == list && slices.ContainsFunc(n.items, func(item node) bool { return item.kind == mapping }) {
		t.add(f.at, "matrix: axis %s: expected a list of strings, numbers or booleans, found mappings%s", quote(f.name),
			suggest(f.name, slices.Values(matrixLists), "; only include and exclude have such"))
		return nil
	}
	if n.kind != list || len(n.items) == 0 {
		t.wrong(n, "matrix: "+f.name, "a list of at least one value")
		return nil
	}
	if len(n.items) > t.lim.List {
		t.add(n.at, "matrix: %s: more than %d values", f.name, t.lim.List)
		return nil
	}
	values := make([]string, 0, len(n.items))
	for i := range n.items {
		item := &n.items[i]
		if !t.axisValue(item, f.name) {
			continue
		}
		if slices.Contains(values, item.text) {
			t.add(item.at, "matrix: %s: the value %s is given twice", f.name, quote(item.text))
			continue
		}
		values = append(values, item.text)
	}
	return values
}

func (t *target) axisValue(n *node, name string) bool {
	if !n.scalar() {
		t.wrong(n, "matrix: "+name, "a string, number or boolean")
		return false
	}
	if len(n.text) > t.lim.Text || strings.IndexByte(n.text, 0) >= 0 {
		t.add(n.at, "matrix: %s: expected at most %d bytes and no zero byte", name, t.lim.Text)
		return false
	}
	return true
}

// entries reads the lists include and exclude.
func (t *target) entries(n *node, name string) []node {
	if n.kind != list {
		t.wrong(n, "matrix: "+name, "a list of mappings")
		return nil
	}
	if len(n.items) > t.lim.List {
		t.add(n.at, "matrix: %s: more than %d entries", name, t.lim.List)
		return nil
	}
	for i := range n.items {
		item := &n.items[i]
		if item.kind != mapping || len(item.fields) == 0 {
			t.wrong(item, "matrix: "+name, "a mapping from axes to values")
			return nil
		}
		for k := range item.fields {
			f := &item.fields[k]
			if why := badAxis(f.name); why != "" {
				t.add(f.at, "matrix: %s: %s: %s", name, quote(f.name), why)
			}
			t.axisValue(&f.value, f.name)
		}
	}
	return n.items
}

func badAxis(s string) string {
	for i, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return "expected letters, digits, - and _, a letter or _ first"
		}
	}
	if s == "" || len(s) > 64 {
		return "expected 1 to 64 characters"
	}
	return ""
}

// room checks that a matrix of that many variants is within the limit on jobs.
func (t *target) room(variants int, at place) bool {
	if t.count+variants > t.lim.Jobs {
		t.add(at, "too many jobs: at most %d", t.lim.Jobs)
		return false
	}
	return true
}

// product makes every combination of the axes.
func (t *target) product(m *matrix, axes []axis, at place) bool {
	if len(axes) == 0 {
		return true
	}
	total := 1
	for _, a := range axes {
		// Checked axis by axis, so that it cannot overflow.
		if total *= len(a.values); !t.room(total, at) {
			return false
		}
	}
	if !t.grow(at, int64(total)*int64(len(axes))*32) {
		return false
	}
	m.variants = make([][]Var, total)
	for i := range m.variants {
		vars := make([]Var, len(axes))
		for k, rest := len(axes)-1, i; k >= 0; k-- {
			vars[k] = Var{axes[k].name, axes[k].values[rest%len(axes[k].values)]}
			rest /= len(axes[k].values)
		}
		m.variants[i] = vars
	}
	return true
}

func (t *target) exclude(m *matrix, entry *node) {
	for i := range entry.fields {
		f := &entry.fields[i]
		if !slices.Contains(m.axes, f.name) {
			t.add(f.at, "matrix: exclude: no axis is named %s%s", quote(f.name),
				suggest(f.name, slices.Values(m.axes), ""))
			return
		}
	}
	before := len(m.variants)
	m.variants = slices.DeleteFunc(m.variants, func(v []Var) bool { return matches(v, entry.fields, m.axes) })
	if len(m.variants) == before {
		t.add(entry.at, "matrix: exclude: no variant matches")
	}
}

// matches reports whether a variant has the values that an entry gives for axes.
func matches(variant []Var, entry []field, axes []string) bool {
	for i := range entry {
		f := &entry[i]
		if slices.Contains(axes, f.name) {
			if v, _ := lookup(variant, f.name); v != f.value.text {
				return false
			}
		}
	}
	return true
}

func (t *target) include(m *matrix, entry *node) {
	if len(m.axes) == 0 {
		for i := range entry.fields {
			m.axes = append(m.axes, entry.fields[i].name)
		}
	}
	var vars, extra []Var
	for _, name := range m.axes {
		if v := entry.find(name); v != nil {
			vars = append(vars, Var{name, v.text})
		}
	}
	for i := range entry.fields {
		if f := &entry.fields[i]; !slices.Contains(m.axes, f.name) {
			extra = append(extra, Var{f.name, f.value.text})
		}
	}
	matched := false
	for i, v := range m.variants {
		if !matches(v, entry.fields, m.axes) {
			continue
		}
		matched = true
		if !t.grow(entry.at, int64(len(v)+len(extra))*32) {
			return
		}
		m.variants[i] = with(v, extra)
	}
	switch {
	case !matched && len(vars) == len(m.axes):
		m.variants = append(m.variants, append(vars, extra...))
	case !matched:
		t.add(entry.at, "matrix: include: no variant matches, and it is none itself: it has no %s",
			strings.Join(missing(m.axes, vars), ", "))
	case len(extra) == 0:
		t.add(entry.at, "matrix: include: the variant is there already")
	}
}

// with gives a variant with further variables; those that are there already get the new value.
func with(variant, extra []Var) []Var {
	all := slices.Clone(variant)
	for _, e := range extra {
		if i := slices.IndexFunc(all, func(v Var) bool { return v.Name == e.Name }); i >= 0 {
			all[i].Value = e.Value
		} else {
			all = append(all, e)
		}
	}
	return all
}

func missing(axes []string, vars []Var) []string {
	var none []string
	for _, a := range axes {
		if _, ok := lookup(vars, a); !ok {
			none = append(none, a)
		}
	}
	return none
}

func lookup(vars []Var, name string) (string, bool) {
	for _, v := range vars {
		if v.Name == name {
			return v.Value, true
		}
	}
	return "", false
}

// variantName gives base:value-value, the values in the order of the axes. What cannot stand in a name
// becomes _, as does a value without any character.
func (m *matrix) variantName(base string, variant []Var) string {
	var b strings.Builder
	b.WriteString(base)
	separator := ":"
	for i := range m.axes {
		b.WriteString(separator)
		separator = "-"
		if variant[i].Value == "" {
			b.WriteByte('_')
		}
		for _, c := range variant[i].Value {
			if badName("_"+string(c), 8) != "" {
				c = '_'
			}
			b.WriteRune(c)
		}
	}
	return b.String()
}

// known lists the variables of a matrix.
func (m *matrix) known() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, v := range m.variants {
			for k := range v {
				if (i == 0 || k >= len(m.axes)) && !yield(v[k].Name) {
					return
				}
			}
		}
	}
}

const opening = "${matrix."

// references calls one for each ${matrix.name} in a text; ok is false for one that is not closed.
func references(s string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for {
			_, rest, found := strings.Cut(s, opening)
			if !found {
				return
			}
			name, rest, closed := strings.Cut(rest, "}")
			if !yield(name, closed) || !closed {
				return
			}
			s = rest
		}
	}
}

// variables checks the references in a text of a job.
func (t *target) variables(n *node, field string) bool {
	for name, closed := range references(n.text) {
		switch {
		case !closed:
			t.add(n.at, "%s: ${matrix.%s is not closed by }", field, cut(name))
			return false
		case t.defaults:
		case t.draft.matrix == nil && t.draft.set&bit("matrix") != 0:
			return true // The matrix is wrong, and that was said.
		case t.draft.matrix == nil:
			t.add(n.at, "%s: ${matrix.%s} is used, but the job has no matrix", field, cut(name))
			return false
		case !contains(t.draft.matrix.known(), name):
			t.add(n.at, "%s: no matrix variable is named %s%s", field, quote(name),
				suggest(name, t.draft.matrix.known(), ""))
			return false
		}
	}
	if !strings.Contains(n.text, opening) {
		return true
	}
	one := use{field, n.text, n.at}
	if t.defaults {
		t.defaultUses = append(t.defaultUses, one)
	} else if t.draft.matrix != nil {
		t.draft.matrix.uses = append(t.draft.matrix.uses, one)
	}
	return true
}

func contains(names iter.Seq[string], name string) bool {
	for n := range names {
		if n == name {
			return true
		}
	}
	return false
}
