package headrace_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// modulePath begins the import path of every package of the tree.
const modulePath = "github.com/headrace/headrace"

// tree is all text of the module, as the rules look at it.
type tree struct {
	fset     *token.FileSet
	texts    map[string]string // by path from the root, with slashes
	packages map[string]*pkg   // by folder; "." is the root
}

// pkg is the Go files of one folder.
type pkg struct {
	dir   string
	files []*goFile
}

type goFile struct {
	path      string
	ast       *ast.File
	test      bool
	generated bool
}

// finding is one breach of one rule.
type finding struct{ rule, at, what string }

func (f finding) String() string { return fmt.Sprintf("%s: %s: %s", f.at, f.rule, f.what) }

// exceptions are the breaches that are accepted, each ("rule at") with its reason. Keep it empty.
var exceptions = map[string]string{}

// parseTree reads the given texts (path to content); it fails on a Go file that does not parse.
func parseTree(texts map[string]string) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), texts: texts, packages: map[string]*pkg{}}
	for _, name := range sortedKeys(texts) {
		if path.Ext(name) != ".go" {
			continue
		}
		parsed, err := parser.ParseFile(t.fset, name, texts[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		dir := path.Dir(name)
		if t.packages[dir] == nil {
			t.packages[dir] = &pkg{dir: dir}
		}
		t.packages[dir].files = append(t.packages[dir].files, &goFile{
			path: name, ast: parsed, test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(parsed),
		})
	}
	return t, nil
}

// readTree reads the module that this test stands in. Left out are folders that git ignores, test data,
// and modules of their own.
func readTree(t *testing.T) *tree {
	t.Helper()
	texts := map[string]string{}
	root := os.DirFS(".")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", ".headrace", "bin", "dist"}, name) || d.Name() == "testdata" {
				return fs.SkipDir
			}
			if _, err := fs.Stat(root, path.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		// A worktree's .git is a file, and names its machine.
		if name == ".git" || !d.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err == nil && utf8.Valid(text) {
			texts[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parseTree(texts)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// at is the place of a node as file:line.
func (t *tree) at(n ast.Node) string {
	p := t.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// lines is how many lines a node covers.
func (t *tree) lines(n ast.Node) int {
	return t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line + 1
}

// each calls f for every Go file that a person wrote, in the order of their paths.
func (t *tree) each(f func(*goFile)) {
	for _, dir := range sortedKeys(t.packages) {
		for _, file := range t.packages[dir].files {
			if !file.generated {
				f(file)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// holds runs the rules over the real tree and reports each breach that is no exception, and each
// exception that no breach needs any more.
func holds(t *testing.T, rules map[string]func(*tree) []finding) {
	t.Helper()
	real := readTree(t)
	if len(real.packages) < 2 {
		t.Fatalf("only %d packages found: the rules were not put to the tree", len(real.packages))
	}
	used := map[string]bool{}
	for _, name := range sortedKeys(rules) {
		for _, f := range rules[name](real) {
			key := f.rule + " " + f.at
			used[key] = true
			if exceptions[key] == "" {
				t.Error(f)
			}
		}
	}
	for key := range exceptions {
		if rule, _, _ := strings.Cut(key, " "); rules[rule] != nil && !used[key] {
			t.Errorf("the exception %q is not needed any more: take it out", key)
		}
	}
}

// planted is a small tree with one fault, which one rule must find, or with none.
type planted struct {
	name  string
	files map[string]string
	want  string // a part of the finding's text; empty: nothing may be found
}

// finds puts one rule to planted trees.
func finds(t *testing.T, rule func(*tree) []finding, trees []planted) {
	t.Helper()
	for _, p := range trees {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			parsed, err := parseTree(p.files)
			if err != nil {
				t.Fatal(err)
			}
			found := rule(parsed)
			switch {
			case p.want == "" && len(found) > 0:
				t.Errorf("found %v, want nothing", found)
			case p.want != "" && len(found) != 1:
				t.Errorf("found %v, want one finding with %q", found, p.want)
			case p.want != "" && !strings.Contains(found[0].String(), p.want):
				t.Errorf("found %q, want %q in it", found[0], p.want)
			}
		})
	}
}
