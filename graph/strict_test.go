package graph_test

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/graph"
)

const colon = `not valid YAML: the text holds ": ", which begins a value: put all of the text in quotes, or the field on a line of its own`

// TestWhatIsNotYAMLIsRefused has texts that the library takes in some way although they are not YAML, and
// for which it has no clear words.
func TestWhatIsNotYAMLIsRefused(t *testing.T) {
	t.Parallel()
	in := func(value string) string { return "jobs:\n  a:\n    run: " + value + "\n  b: {run: x}\n" }
	for text, want := range map[string]string{
		"jobs: {a: {run: echo: hi}}":             "1:17: " + colon,
		"jobs: {a: {run: echo \"x\": hi}}":       "1:17: " + colon,
		"jobs: {a: {run: x, env: {A: b c: d}}}":  "1:29: " + colon,
		"jobs: {a: {run: echo a:}}":              "1:17: " + colon,
		"jobs: {a: {run: \"a\": b}}":             "1:20: " + colon,
		"jobs: {a: <<: {run: x}}":                "1:13: " + colon,
		in("echo: hi"):                           "3:10: " + colon,
		in(`echo "x": hi`):                       "3:10: " + colon,
		in("echo hi:"):                           "3:10: " + colon,
		in("x\n      y: z"):                      "3:10: " + colon,
		in("x\n     -&k y: z"):                   "4:14: " + colon,
		"jobs:\n  a: run: x\n":                   "2:6: " + colon,
		in("- a"):                                "3:10: not valid YAML: block sequence entries are not allowed in this context",
		in("\n    - x\n    - y: z"):              `5:7: run: expected a string for each argument, found a mapping; a text with ": " in it needs quotes`,
		"jobs: {a: {run: - b}}":                  "1:17: not valid YAML: a list inside of braces or brackets is written in brackets; put a text that begins with - in quotes",
		"jobs: {a: {run: |\n b}}":                "1:17: not valid YAML: a text inside of braces or brackets cannot be a block; put it in quotes",
		"jobs: {a: {run: b]}}":                   "1:17: not valid YAML: a text with ] inside of braces or brackets needs quotes",
		"jobs: {, a: {run: b}}":                  "1:8: not valid YAML: expected a value before the comma",
		"jobs: {a: {run: b},, c: {run: b}}":      "1:20: not valid YAML: expected a value before the comma",
		"jobs: {a:&x {run: b}}":                  `1:10: not valid YAML: expected a space before "&"`,
		"jobs: {a: &x{run: b}}":                  `1:13: not valid YAML: expected a space before "{"`,
		in("%a"):                                 "3:10: not valid YAML: a text that begins with % needs quotes",
		in(",a"):                                 "3:10: not valid YAML: a text that begins with , needs quotes",
		in("!!str !!str a"):                      "3:15: not valid YAML: two tags for one value",
		in("&x: a"):                              `3:11: not valid YAML: an anchor is named with letters, digits, - and _, found "x:"`,
		in("|+-\n      a"):                       `3:10: not valid YAML: expected | or > with at most a digit and one of + and -, found "|+-"`,
		in("|\n       \n      a"):                "3:10: not valid YAML: the empty lines that a block begins with are indented more than its first line",
		in("\n    a"):                            `4:5: expected the value after "run" indented more`,
		in("\n    - \n    a"):                    `5:5: expected the value after "-" indented more`,
		in(`"\u12g4"`):                           `3:10: not valid YAML: expected an escape such as \x41 or \u00e9`,
		in(`"é \\ \x4."`):                        `3:10: not valid YAML: expected an escape such as \x41 or \u00e9`,
		in("a\x01b"):                             `3:11: the character '\x01' is not allowed; write it as an escape in double quotes`,
		in("é\x7fb"):                             `3:11: the character '\x7f' is not allowed; write it as an escape in double quotes`,
		in("a\rb"):                               `3:11: the character '\r' is not allowed; write it as an escape in double quotes`,
		"  b: {run: y}\njobs: {a: {run: x}}":     "1:1: indented by 2, but the first field begins its line",
		"- b\njobs: {a: {run: x}}":               "1:1: expected a field such as jobs:, found a list",
		"~\njobs: {a: {run: x}}":                 "1:1: expected a field such as jobs:, found nothing",
		"jobs:\n  a: {run: x}\n  {b: {run: y}}":  `3:1: expected a name, found "{"`,
		"name: x\n{jobs: {a: {run: x}}}":         `2:1: expected a name, found "{"`,
		"jobs:#\n  a: {run: x}":                  "1:1: not valid YAML: unexpected key name",
		"jobs: {a: {run: x}}\n... y":             "2:1: expected nothing on the line after ...",
		"...jobs: {a: {run: x}}":                 "1:1: not valid YAML: expected ... on a line of its own",
		"jobs:\n  a: {run: x}\n\tb: {run: x}\n":  "3:1: indented with a tab: YAML wants spaces",
		"jobs: {a: {run: x, run: y}}":            `1:20: "run" is given twice, first at line 1`,
		"{jobs: {a: {run: x}}}}":                 "1:22: not valid YAML: } closes nothing; a text that begins with it needs quotes",
		"{jobs: {a: {run: x}}":                   "1:1: not valid YAML: could not find flow mapping end token '}'",
		"{jobs: {a: {run: x}}} b":                "1:23: not valid YAML: value is not allowed in this context",
		"{jobs: {a: {run: x}}}\nb: {run: x}":     "2:1: not valid YAML: value is not allowed in this context",
		"jobs:\n  {a: {run: x}}\n  b: {run: y}":  "3:3: not valid YAML: value is not allowed in this context",
		"jobs: {a: {run: x}}\nb\nname: {run: x}": `2:1: expected a field such as jobs:, found "b"`,
	} {
		_, err := graph.Parse(strings.NewReader(text), "f.yaml", graph.Limits{})
		if err == nil || err.Error() != "f.yaml:"+want {
			t.Errorf("%s\ngot  %v\nwant f.yaml:%s", text, err, want)
		}
	}
}

// TestUnusualYAMLIsTaken has texts that are near to those that are refused, but are YAML.
func TestUnusualYAMLIsTaken(t *testing.T) {
	t.Parallel()
	in := func(value string) string { return "jobs:\n  a:\n    run: " + value + "\n" }
	for text, want := range map[string]string{
		`jobs: {a: {run: "echo: hi"}}`:               "echo: hi",
		`jobs: {a: {run: http://x:80/y?z}}`:          "http://x:80/y?z",
		`{jobs: {a: {run: x}}}`:                      "x",
		"# a note\n{jobs: {a: {run: x}}}":            "x",
		"\ufeff{jobs: {a: {run: x,},}}\n...\n":       "x",
		"{\n\tjobs: {\n\t\ta: {run: x}\n\t}\n}\n":    "x",
		`{"jobs":{"a":{"run":"x\/\u00e9\"\\u1: "}}}`: "x/é\"\\u1: ",
		"{'jobs':{'a':{'run':'x'}}}":                 "x",
		"jobs:\n  {a: {run: x}}\n":                   "x",
		"jobs: # a note\n  a: {run: x}\n":            "x",
		"jobs: {a: {run: b - c ? d}}":                "b - c ? d",
		in("a]{}, b"):                                "a]{}, b",
		in("a\t# b"):                                 "a",
		in("&x-1 a"):                                 "a",
		in("!!str &x a"):                             "a",
		in("|\n\n      \n      a: b"):                "\n\na: b\n",
		in("|2\n          \n       a"):               "    \n a\n",
		in("\n      &x\n      a"):                    "a",
		in(`"\x41 \U0001F600"`):                      "A 😀",
		in("a\u00a0b"):                               "a\u00a0b",
	} {
		g, err := graph.Parse(strings.NewReader(text), "f.yaml", graph.Limits{})
		if err != nil || g.Jobs[0].Run.Shell != want {
			t.Errorf("%s\ngot %+v, %v\nwant %q", text, g, err, want)
		}
	}
}

// TestTheFormatComesFromTheNameOrTheText reads each text under names with and without an ending.
func TestTheFormatComesFromTheNameOrTheText(t *testing.T) {
	t.Parallel()
	const flow, json = `{jobs: {a: {run: x}}}`, ` {"jobs": {"a": {"run": "x"}}}`
	for _, c := range []struct{ name, text, want string }{
		{"f", flow, ""},
		{"f", "{ # a note\n  jobs: {a: {run: x}}}", ""},
		{"f.yml", flow, ""},
		{"f.YAML", flow, ""},
		{"f.json", flow, `1:2: expected a name in double quotes, found 'j'`},
		{"f", json, ""},
		{"f.yaml", json, ""},
		{"f.json", json, ""},
		{"f", "jobs: {a: {run: x}}", ""},
		{"f.json", "jobs: {a: {run: x}}", `1:1: expected a JSON object, "{", found 'j'`},
		{"f.json", "", `1:1: expected a JSON object, "{", found the end of the file`},
		{"f", `{"jobs": {"a": {"run": "x",}}}`, "1:27: no comma is allowed after the last field"},
		{"f.yaml", `{"jobs": {"a": {"run": "x",}}}`, ""},
		{"f", `{}`, `1:1: expected the field jobs, as in "jobs: {hello: {run: echo hello}}"`},
		{"f", `{`, "1:2: expected a name in double quotes, found the end of the file"},
	} {
		_, err := graph.Parse(strings.NewReader(c.text), c.name, graph.Limits{})
		if got := ""; err != nil {
			got = strings.TrimPrefix(err.Error(), c.name+":")
			if got != c.want {
				t.Errorf("%s %q:\ngot  %s\nwant %s", c.name, c.text, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("%s %q: taken", c.name, c.text)
		}
	}
}
