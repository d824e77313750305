package graph_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/graph"
)

// validator checks a value against a schema, with the keywords that ours uses; another is a failure.
type validator struct {
	root     map[string]any
	patterns map[string]*regexp.Regexp
	t        *testing.T
}

func newValidator(t *testing.T) validator {
	t.Helper()
	v := validator{patterns: make(map[string]*regexp.Regexp), t: t}
	if err := json.Unmarshal(graph.Schema(), &v.root); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v validator) pattern(text string) *regexp.Regexp {
	if v.patterns[text] == nil {
		v.patterns[text] = regexp.MustCompile(text)
	}
	return v.patterns[text]
}

func (v validator) ok(s map[string]any, x any) bool {
	for keyword, arg := range s {
		if !v.keyword(s, keyword, arg, x) {
			return false
		}
	}
	return true
}

func (v validator) keyword(s map[string]any, keyword string, arg, x any) bool {
	object, isObject := x.(map[string]any)
	array, isArray := x.([]any)
	text, isText := x.(string)
	n, isNumber := x.(float64)
	is := func(sub any, x any) bool { return v.ok(sub.(map[string]any), x) }
	switch keyword {
	case "$schema", "$id", "$defs", "title", "description":
		return true
	case "$ref":
		name := strings.TrimPrefix(arg.(string), "#/$defs/")
		return is(v.root["$defs"].(map[string]any)[name], x)
	case "type":
		types, many := arg.([]any)
		if !many {
			types = []any{arg}
		}
		return slices.ContainsFunc(types, func(t any) bool { return hasType(t.(string), x) })
	case "enum":
		return slices.ContainsFunc(arg.([]any), func(a any) bool { return reflect.DeepEqual(a, x) })
	case "const":
		return reflect.DeepEqual(arg, x)
	case "oneOf", "anyOf":
		count := 0
		for _, sub := range arg.([]any) {
			if is(sub, x) {
				count++
			}
		}
		return count == 1 || count > 1 && keyword == "anyOf"
	case "required":
		return !isObject || !slices.ContainsFunc(arg.([]any), func(a any) bool { _, ok := object[a.(string)]; return !ok })
	case "properties":
		for name, sub := range arg.(map[string]any) {
			if value, ok := object[name]; ok && !is(sub, value) {
				return false
			}
		}
		return true
	case "additionalProperties":
		known, _ := s["properties"].(map[string]any)
		for name, value := range object {
			if _, ok := known[name]; !ok && (arg == false || !is(arg, value)) {
				return false
			}
		}
		return true
	case "propertyNames":
		return !slices.ContainsFunc(slices.Collect(maps.Keys(object)), func(name string) bool { return !is(arg, name) })
	case "prefixItems":
		for i, sub := range arg.([]any) {
			if i < len(array) && !is(sub, array[i]) {
				return false
			}
		}
		return true
	case "items":
		if prefix, ok := s["prefixItems"].([]any); ok {
			array = array[min(len(prefix), len(array)):]
		}
		return !slices.ContainsFunc(array, func(item any) bool { return !is(arg, item) })
	case "uniqueItems":
		for i := range array {
			if slices.ContainsFunc(array[:i], func(a any) bool { return reflect.DeepEqual(a, array[i]) }) {
				return false
			}
		}
		return true
	case "pattern":
		return !isText || v.pattern(arg.(string)).MatchString(text)
	}
	bound, ok := arg.(float64)
	if !ok {
		v.t.Fatalf("keyword %s is not known", keyword)
	}
	switch keyword {
	case "minimum":
		return !isNumber || n >= bound
	case "maximum":
		return !isNumber || n <= bound
	case "minLength":
		return !isText || float64(utf8.RuneCountInString(text)) >= bound
	case "maxLength":
		return !isText || float64(utf8.RuneCountInString(text)) <= bound
	case "minItems":
		return !isArray || float64(len(array)) >= bound
	case "maxItems":
		return !isArray || float64(len(array)) <= bound
	case "minProperties":
		return !isObject || float64(len(object)) >= bound
	case "maxProperties":
		return !isObject || float64(len(object)) <= bound
	}
	v.t.Fatalf("keyword %s is not known", keyword)
	return false
}

func hasType(name string, x any) bool {
	switch x := x.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && x == math.Trunc(x)
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

// TestSchemaAndParserAgree tries values of every field on both.
func TestSchemaAndParserAgree(t *testing.T) {
	t.Parallel()
	values := []string{
		`null`, `true`, `0`, `1`, `-1`, `1.5`, `255`, `256`, `1000000`, `1000001`, `""`, `"x"`, `"/x"`, `"5m"`, `"1h5m"`, `"+1.5h"`, `".5s"`,
		`1.0`, `-1.0`, `0.0`, `-0`, `0e0`, `1e1`, `1E+1`, `10e-1`, `1e-1`, `1e3`, `1e4`, `255.0`, `255.5`, `[1.0]`, `[1e2, 255.0]`, `[1e3]`, `[1.5]`,
		`"1.0"`, `"1e1"`, `"00"`, `"5m0"`, `"-0s"`, `"-0"`, `"+0"`, `"1us"`, `"0.0s"`,
		`"5"`, `"-5m"`, `"m"`, `"0"`, `"b"`, `" "`, `"a b"`, `["a b"]`, `"a\tb"`, `[""]`, `[]`, `["x"]`, `["b"]`, `[1]`, `[1, "x"]`, `[true, "x"]`, `[0]`, `[null]`, `[[]]`, `["/x"]`, `[""]`,
		`{}`, `{"b": null}`, `{"b": "finish"}`, `{"b": "x"}`, `{"A": 1, "B": true, "C": null}`, `{"": 1}`, `{"A=B": 1}`, `{"A": []}`, `{"A": ["x"]}`,
		`{"A": ["x", "x"]}`, `{"1": ["x"]}`, `{"A": ["x"], "include": [], "exclude": []}`, `{"include": [{"A": 1}]}`, `{"include": [{}]}`,
		`{"A": [null]}`, `{"A": ["x"], "include": [{"A": "x", "B": 2}]}`,
		`[{"job": "b"}]`, `[{"job": "b", "policy": "order"}]`, `[{"job": "b", "policy": "y"}]`, `[{"policy": "order"}]`, `[{"job": "b", "x": 1}]`,
		`"` + strings.Repeat("x", 128) + `"`, `"` + strings.Repeat("x", 129) + `"`, `"` + strings.Repeat("x", 4096) + `"`, `"` + strings.Repeat("x", 4097) + `"`,
	}
	// What a schema cannot tell: the names of jobs.
	unknownJob := func(p graph.Problem) bool { return strings.HasPrefix(p.Message, "no job is named") }
	v := newValidator(t)
	check := func(text string) {
		var x any
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"f.json", "f.yaml"} { // JSON is YAML, too.
			_, err := graph.Parse(strings.NewReader(text), name, graph.Limits{})
			var problems graph.Problems
			errors.As(err, &problems)
			problems = slices.DeleteFunc(problems, unknownJob)
			if schema := v.ok(v.root, x); schema != (len(problems) == 0) {
				t.Errorf("%s: %.200s\nschema: %v, parser: %v", name, text, schema, err)
			}
		}
	}
	for _, value := range values {
		for _, f := range slices.Concat(graph.JobFields, []string{"unknown"}) {
			run := `"run": "x",`
			if f == "run" {
				run = ""
				if value == "null" {
					continue // The schema does not ask for run, because defaults can give it.
				}
			}
			check(fmt.Sprintf(`{"jobs": {"b": {"run": "x"}, "a": {%s %q: %s}}}`, run, f, value))
			if f != "matrix" && f != "needs" {
				check(fmt.Sprintf(`{"jobs": {"a": {"run": "x"}}, "defaults": {%q: %s}}`, f, value))
			}
		}
	}
	for _, most := range []int{64, 1000, 10_000} { // of one list; names are words, globs and jobs alike
		for _, n := range []int{most, most + 1} {
			check(fmt.Sprintf(`{"jobs": {"a": {"run": "x", "features": [%s]}}}`, letters(n)))
			check(fmt.Sprintf(`{"jobs": {"a": {"run": "x", "outputs": [%s]}}}`, letters(n)))
			check(fmt.Sprintf(`{"jobs": {"a": {"run": "x", "needs": [%s]}}}`, letters(n)))
		}
	}
	for _, name := range []string{"a", "_", "a.:/+@-b", "-a", "", "a b", "é", strings.Repeat("x", 128), strings.Repeat("x", 129)} {
		check(fmt.Sprintf(`{"jobs": {%q: {"run": "x"}}}`, name))
	}
	for _, text := range []string{
		`{}`, `{"jobs": {}}`, `{"jobs": []}`, `{"jobs": null}`, `{"jobs": {"a": {"run": "x"}}, "x": 1}`,
		`{"jobs": {"a": {"run": "x"}}, "name": "n", "defaults": null}`, `{"jobs": {"a": 1}}`,
		`{"jobs": {"a": {"run": "x"}}, "$schema": "https://example.org/x"}`, `{"jobs": {"a": {"run": "x"}}, "$schema": 1}`,
		`{"jobs": {"a": {"run": "x"}}, "name": "a\nb"}`, `{"jobs": {"a": {"run": "x"}}, "name": "\u007f"}`, `{"name": 1, "jobs": {"a": {"run": "x"}}}`,
	} {
		check(text)
	}
}

func TestSchemaHasTheFieldsOfTheParser(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	fields := func(s any) []string {
		return slices.Sorted(maps.Keys(s.(map[string]any)["properties"].(map[string]any)))
	}
	top := v.root["properties"].(map[string]any)
	if diff := cmp.Diff(slices.Sorted(slices.Values(graph.TopFields)), fields(v.root)); diff != "" {
		t.Errorf("top level (-parser +schema):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(graph.JobFields)), fields(v.root["$defs"].(map[string]any)["job"])); diff != "" {
		t.Errorf("job (-parser +schema):\n%s", diff)
	}
	inDefaults := slices.DeleteFunc(slices.Clone(graph.JobFields), func(f string) bool { return slices.Contains(graph.NotInDefaults, f) })
	if diff := cmp.Diff(slices.Sorted(slices.Values(inDefaults)), fields(top["defaults"])); diff != "" {
		t.Errorf("defaults (-parser +schema):\n%s", diff)
	}
}

func TestSchemaTakesTheLargeExample(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	var x any
	text := readFile(t, "testdata/good/full.json")
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		t.Fatal(err)
	}
	if !v.ok(v.root, x) {
		t.Error("refused")
	}
}
