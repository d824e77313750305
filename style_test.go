package headrace_test

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 700
	maxFunctionLines = 100 // tables inside a function do not count
	maxMethods       = 6   // of an interface
)

var styleRules = map[string]func(*tree) []finding{
	"file-length":     fileLengthRule,
	"function-length": functionLengthRule,
	"interface-width": interfaceWidthRule,
	"package-doc":     packageDocRule,
	"docstring":       docstringRule,
	"sleep":           sleepRule,
	"skip":            skipRule,
	"marker":          markerRule,
	"machine-path":    machinePathRule,
}

func TestEachFileKeepsTheLimits(t *testing.T) {
	t.Parallel()
	holds(t, styleRules)
}

func fileLengthRule(t *tree) []finding {
	var out []finding
	t.each(func(f *goFile) {
		if n := strings.Count(t.texts[f.path], "\n"); n > maxFileLines {
			out = append(out, finding{"file-length", f.path, fmt.Sprintf("%d lines, want at most %d", n, maxFileLines)})
		}
	})
	return out
}

func functionLengthRule(t *tree) []finding {
	var out []finding
	t.each(func(f *goFile) {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := t.lines(fn) - t.tableLines(fn.Body); n > maxFunctionLines {
				out = append(out, finding{"function-length", t.at(fn), fmt.Sprintf("%s has %d lines, want at most %d", fn.Name.Name, n, maxFunctionLines)})
			}
		}
	})
	return out
}

// tableLines is how many lines of the body are inside literals of slices, arrays and maps.
func (t *tree) tableLines(body *ast.BlockStmt) int {
	n := 0
	ast.Inspect(body, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch literal.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			n += t.lines(literal) - 1
			return false // what is inside is counted
		default:
			return true
		}
	})
	return n
}

func interfaceWidthRule(t *tree) []finding {
	var out []finding
	for _, dir := range sortedKeys(t.packages) {
		local := t.packages[dir].interfaces()
		for _, name := range sortedKeys(local) {
			if n := width(local, local[name], 0); n > maxMethods {
				out = append(out, finding{"interface-width", t.at(local[name]), fmt.Sprintf("%s has %d methods, want at most %d", name, n, maxMethods)})
			}
		}
	}
	return out
}

// interfaces are the package's interface types by name.
func (p *pkg) interfaces() map[string]*ast.InterfaceType {
	out := map[string]*ast.InterfaceType{}
	for _, f := range p.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && !f.generated {
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					out[spec.Name.Name] = i
				}
			}
			return true
		})
	}
	return out
}

// width counts the methods of an interface with those that it embeds; one embedded from another package
// counts as one.
func width(local map[string]*ast.InterfaceType, i *ast.InterfaceType, depth int) int {
	n := 0
	for _, field := range i.Methods.List {
		id, isLocal := field.Type.(*ast.Ident)
		switch {
		case len(field.Names) > 0:
			n += len(field.Names)
		case isLocal && local[id.Name] != nil && depth < 10:
			n += width(local, local[id.Name], depth+1)
		default:
			n++
		}
	}
	return n
}

// packageDocRule: doc.go is the folder's README.
func packageDocRule(t *tree) []finding {
	var out []finding
	for _, dir := range sortedKeys(t.packages) {
		var documented, code bool
		for _, f := range t.packages[dir].files {
			code = code || !f.test
			if path.Base(f.path) == "doc.go" && f.ast.Doc != nil {
				documented = f.ast.Name.Name == "main" || strings.HasPrefix(f.ast.Doc.Text(), "Package "+f.ast.Name.Name+" ")
			}
		}
		if code && !documented {
			out = append(out, finding{"package-doc", dir, `want a doc.go whose comment begins with "Package <name>" (any text for a command)`})
		}
	}
	return out
}

// selfEvident are methods whose meaning package fmt or errors gives.
var selfEvident = []string{"String", "Error", "Unwrap"}

// docstringRule: each exported name says what it means to the caller. Struct fields are left to the
// type's own docstring.
func docstringRule(t *tree) []finding {
	var out []finding
	want := func(n ast.Node, name string, docs ...*ast.CommentGroup) {
		exported := ast.IsExported(name)
		if exported && !slices.ContainsFunc(docs, func(c *ast.CommentGroup) bool { return c.Text() != "" }) {
			out = append(out, finding{"docstring", t.at(n), fmt.Sprintf("%s has no docstring", name)})
		}
	}
	t.each(func(f *goFile) {
		if f.test {
			return
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil || ast.IsExported(receiver(d)) && !slices.Contains(selfEvident, d.Name.Name) {
					want(d, d.Name.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					wantSpec(want, d, spec)
				}
			}
		}
	})
	return out
}

func wantSpec(want func(ast.Node, string, ...*ast.CommentGroup), d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		want(s, s.Name.Name, s.Doc, d.Doc, s.Comment)
		if i, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
			for _, m := range i.Methods.List {
				for _, name := range m.Names {
					if !slices.Contains(selfEvident, name.Name) {
						want(m, name.Name, m.Doc, m.Comment)
					}
				}
			}
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			want(s, name.Name, s.Doc, s.Comment, d.Doc)
		}
	}
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// sleepRule: a test waits for what it waits for. Inside a synctest bubble, sleeping is how virtual time
// passes; a function that is called only there says so by naming synctest in its docstring.
func sleepRule(t *tree) []finding {
	var out []finding
	t.each(func(f *goFile) {
		if !f.test {
			return
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.Contains(fn.Doc.Text(), "synctest") {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				from, name := selected(call.Fun)
				if from == "time" && name == "Sleep" {
					out = append(out, finding{"sleep", t.at(call), "a test does not sleep: use testing/synctest or a channel"})
				}
				return from != "synctest" // a bubble's inside is not looked at
			})
		}
	})
	return out
}

// skipRule: what cannot run is a requirement of internal/testreport, not a silent skip.
func skipRule(t *tree) []finding {
	var out []finding
	t.each(func(f *goFile) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			on, name := selected(call.Fun)
			if slices.Contains([]string{"t", "b", "f", "tb"}, on) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name) {
				out = append(out, finding{"skip", t.at(call), "a test does not leave itself out: scripts/setup installs what it needs"})
			}
			return true
		})
	})
	return out
}

var marker = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

// markerRule: what is left to do is done, or is an issue. It reads comments of Go files, and scripts.
func markerRule(t *tree) []finding {
	var out []finding
	t.each(func(f *goFile) {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if m := marker.FindString(c.Text); m != "" {
					out = append(out, finding{"marker", t.at(c), "a comment with " + m + ": do it, or file an issue"})
				}
			}
		}
	})
	for _, name := range sortedKeys(t.texts) {
		script := path.Ext(name) == "" || slices.Contains([]string{".sh", ".yaml", ".yml", ".json", ".sql", ".css", ".js", ".mod"}, path.Ext(name))
		if m := marker.FindString(t.texts[name]); script && m != "" {
			out = append(out, finding{"marker", name, "it contains " + m + ": do it, or file an issue"})
		}
	}
	return out
}

// onePlace matches a path that only one person's or one runner's machine has.
var onePlace = regexp.MustCompile(`(^|[^\w.*/-])/(home|Users|root|work|workspace|builds)/[\w.-]+`)

// machinePathRule looks at every text of the tree.
func machinePathRule(t *tree) []finding {
	var out []finding
	for _, name := range sortedKeys(t.texts) {
		for i, line := range strings.Split(t.texts[name], "\n") {
			if onePlace.MatchString(line) {
				out = append(out, finding{"machine-path", fmt.Sprintf("%s:%d", name, i+1), "it names a path of one machine"})
			}
		}
	}
	return out
}

func TestFindingsNameTheirPlace(t *testing.T) {
	t.Parallel()
	parsed, err := parseTree(map[string]string{"job/j.go": "package job\n\nfunc F() {}\n"})
	if err != nil {
		t.Fatal(err)
	}
	found := docstringRule(parsed)
	if len(found) != 1 || found[0].String() != "job/j.go:3: docstring: F has no docstring" {
		t.Errorf("found %v", found)
	}
}
