package apitest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/memory"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// prefix begins the paths of all operations.
const prefix = "/api/v1"

// document is the OpenAPI document of the server, ready to be asked.
type document struct {
	paths map[string]map[string]operation // by path and method

	patterns []pattern
	mu       sync.Mutex // compiler
	compiler *jsonschema.Compiler
}

type operation struct {
	OperationID string
	Role        string `json:"x-role"`
	Responses   map[string]struct{ Content map[string]any }
}

// Operation is one of the API.
type Operation struct {
	ID     string
	Method string
	Path   string // below /api/v1, with {name} for each parameter
	Role   string // that it needs; "": none
}

// Operations lists all that the document has, by path and method.
func Operations() ([]Operation, error) {
	d, err := load()
	if err != nil {
		return nil, err
	}
	var all []Operation
	for path, methods := range d.paths {
		for method, op := range methods {
			all = append(all, Operation{ID: op.OperationID, Method: strings.ToUpper(method), Path: path, Role: op.Role})
		}
	}
	slices.SortFunc(all, func(a, b Operation) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method)) })
	return all, nil
}

type pattern struct {
	path    string
	matches *regexp.Regexp
}

// load makes the document, once for a test program.
var load = sync.OnceValues(func() (*document, error) {
	s, err := server.New(server.Config{Queue: &queue.Queue{}, History: memory.New(), Failures: memory.New()})
	if err != nil {
		return nil, err
	}
	text, err := s.OpenAPI()
	if err != nil {
		return nil, err
	}
	var described struct {
		Paths map[string]map[string]operation
	}
	if err := json.Unmarshal(text, &described); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &document{paths: described.Paths, compiler: jsonschema.NewCompiler()}
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("openapi.json", whole); err != nil {
		return nil, err
	}
	for path := range d.paths {
		text := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+")
		if strings.HasSuffix(path, "/artifacts/{name}") {
			text = strings.TrimSuffix(text, "[^/]+") + ".+"
		}
		d.patterns = append(d.patterns, pattern{path, regexp.MustCompile("^" + text + "$")})
	}
	return d, nil
})

// find gives the operation of a method (in small letters) at a path, and its path in the document; ok is false if there is none.
func (d *document) find(method, path string) (op operation, at string, ok bool) {
	for _, p := range d.patterns {
		if !p.matches.MatchString(path) {
			continue
		}
		if op, ok := d.paths[p.path][method]; ok {
			return op, p.path, true
		}
	}
	return operation{}, "", false
}

// check reports what of an answer is not as the document has it.
func (d *document) check(method, path string, a *answer) error {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	method = strings.ToLower(method)
	op, at, ok := d.find(method, path)
	if !ok {
		switch a.status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusTooManyRequests:
			return d.problem(a)
		}
		return errors.New("the document does not know the operation")
	}
	code := strconv.Itoa(a.status)
	response, ok := op.Responses[code]
	if !ok {
		return fmt.Errorf("the document knows no status %s", code)
	}
	if len(response.Content) == 0 {
		if a.size > 0 {
			return errors.New("there is a body where the document has none")
		}
		return nil
	}
	kind := a.mediaType()
	if _, ok := response.Content[kind]; !ok {
		return fmt.Errorf("the document knows no media type %q", kind)
	}
	if !a.judged() {
		return nil
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	return d.hold("/paths/"+escape.Replace(at)+"/"+method+"/responses/"+code+"/content/"+escape.Replace(kind)+"/schema", a.body.Bytes())
}

// problem reports what is wrong with an answer that has to be a problem.
func (d *document) problem(a *answer) error {
	if kind := a.mediaType(); kind != api.ProblemType {
		return fmt.Errorf("its media type is %q, want %s", kind, api.ProblemType)
	}
	if a.head {
		return nil
	}
	return d.hold("/components/schemas/Problem", a.body.Bytes())
}

// hold checks a text against the schema that stands at a place of the document.
func (d *document) hold(at string, text []byte) error {
	d.mu.Lock()
	schema, err := d.compiler.Compile("openapi.json#" + at)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}
