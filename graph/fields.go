package graph

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headrace/headrace/job"
)

// jobFields are the fields of a job; the place of a name is its bit in draft.set.
var jobFields = []string{
	"run", "needs", "env", "dir", "timeout", "silence", "retries", "retry-on", "system", "features", "priority",
	"exclusive", "key", "outputs", "optional", "matrix", "description",
}

// notInDefaults are the fields that belong to one job.
var notInDefaults = []string{"needs", "key", "matrix"}

func bit(name string) uint32 { return 1 << slices.Index(jobFields, name) }

// target decodes the fields of one job, or of the defaults.
type target struct {
	*decoder
	job      *Job
	draft    *draft
	defaults bool
}

// fields decodes all fields of a job, the matrix first, because the others may refer to it.
func (t *target) fields(n *node) {
	for i := range n.fields {
		if n.fields[i].name == "matrix" {
			t.field(&n.fields[i])
		}
	}
	for i := range n.fields {
		if n.fields[i].name != "matrix" {
			t.field(&n.fields[i])
		}
	}
}

// field decodes one field; a null is as if it were absent.
func (t *target) field(f *field) {
	known := slices.Index(jobFields, f.name)
	switch {
	case known < 0:
		if Nearest(f.name, slices.Values(jobFields)) == "run" {
			t.draft.set |= bit("run") // Else the job would be said to have none.
		}
		t.add(f.at, "unknown field %s of a job%s", quote(f.name),
			suggest(f.name, slices.Values(jobFields), "; a job has "+strings.Join(jobFields, ", ")))
		return
	case t.defaults && slices.Contains(notInDefaults, f.name):
		t.add(f.at, "defaults cannot give %s: it belongs to one job", f.name)
		return
	case f.value.kind == null:
		return
	}
	t.draft.set |= 1 << known
	n := &f.value
	switch f.name {
	case "run":
		t.run(n)
	case "needs":
		t.needsField(n)
	case "env":
		t.env(n)
	case "matrix":
		t.draft.matrix = t.decodeMatrix(n)
	case "retry-on":
		t.retryOn(n)
	case "features":
		t.job.Features = t.texts(n, f.name, t.lim.Features, t.lim.Name, oneWord)
		slices.Sort(t.job.Features)
		t.job.Features = slices.Compact(t.job.Features)
	case "outputs":
		t.job.Outputs = t.texts(n, f.name, t.lim.List, t.lim.Text, badGlob)
	default:
		t.scalarField(f.name, n)
	}
}

// scalarField decodes a field that has one value.
func (t *target) scalarField(name string, n *node) {
	j := t.job
	switch name {
	case "dir":
		j.Dir = t.text(n, name, t.lim.Text, plainText)
	case "system":
		j.System = t.text(n, name, t.lim.Name, plainText)
	case "key":
		j.Key = t.text(n, name, t.lim.Text, plainText)
	case "timeout":
		j.Timeout = t.duration(n, name)
	case "silence":
		j.Silence = t.duration(n, name)
	case "retries":
		j.Retries = t.integer(n, name, 0, 1000)
	case "priority":
		j.Priority = t.integer(n, name, -1_000_000, 1_000_000)
	case "exclusive":
		j.Exclusive = t.boolean(n, name)
	case "optional":
		j.Optional = t.boolean(n, name)
	case "description":
		if n.kind != text {
			t.wrong(n, name, "a string")
		}
	}
}

func (t *target) wrong(n *node, name, expected string) {
	t.add(n.at, "%s: expected %s, found %s", name, expected, n.found())
}

// plainText tells what is wrong with a text that must be one line and not empty.
func plainText(s string) string {
	if s == "" {
		return "expected a text that is not empty"
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "expected no line end or other control character, found " + quote(s)
	}
	return ""
}

// oneWord tells what is wrong with a text that stands in lists joined by blanks.
func oneWord(s string) string {
	if strings.ContainsAny(s, " \t") {
		return "expected no blank, found " + quote(s)
	}
	return plainText(s)
}

// text decodes a string that may refer to matrix variables.
func (t *target) text(n *node, name string, most int, check func(string) string) string {
	if n.kind != text {
		t.wrong(n, name, "a string")
		return ""
	}
	if !t.textOK(n, name, most) {
		return ""
	}
	if why := check(n.text); why != "" {
		t.add(n.at, "%s: %s", name, why)
		return ""
	}
	return n.text
}

// textOK checks what holds for every text of a job: length, no zero byte, known variables.
func (t *target) textOK(n *node, name string, most int) bool {
	if len(n.text) > most {
		t.add(n.at, "%s: longer than %s", name, size(most))
		return false
	}
	if strings.IndexByte(n.text, 0) >= 0 {
		t.add(n.at, "%s: a zero byte is not allowed", name)
		return false
	}
	return t.variables(n, name)
}

// texts decodes a list of at most so many strings of at most so many bytes; one string is a list of one.
func (t *target) texts(n *node, name string, many, most int, check func(string) string) []string {
	switch n.kind {
	case text:
		return []string{t.text(n, name, most, check)}
	case list:
	default:
		t.wrong(n, name, "a list of strings")
		return nil
	}
	if len(n.items) > many {
		t.add(n.at, "%s: more than %d entries", name, many)
		return nil
	}
	if len(n.items) == 0 {
		return nil
	}
	all := make([]string, 0, len(n.items))
	for i := range n.items {
		all = append(all, t.text(&n.items[i], name, most, check))
	}
	return all
}

func (t *target) run(n *node) {
	switch n.kind {
	case text:
		if strings.TrimSpace(n.text) == "" {
			t.add(n.at, "run: expected a command, found an empty string")
		} else if t.textOK(n, "run", t.lim.Command) {
			t.job.Run.Shell = n.text
		}
		return
	case list:
	default:
		t.add(n.at, "run: expected a shell line or a list of a program and its arguments, found %s%s", n.found(), quoteIt(n))
		return
	}
	if len(n.items) == 0 || n.items[0].scalar() && n.items[0].text == "" {
		t.add(n.at, "run: expected a program first")
		return
	}
	total := 0
	for i := range n.items {
		a := &n.items[i]
		if !a.scalar() {
			t.add(a.at, "run: expected a string for each argument, found %s%s", a.found(), quoteIt(a))
			return
		}
		if total += len(a.text); total > t.lim.Command {
			t.add(n.at, "run: longer than %s", size(t.lim.Command))
			return
		}
		if !t.textOK(a, "run", t.lim.Command) {
			return
		}
		t.job.Run.Argv = append(t.job.Run.Argv, a.text)
	}
}

// quoteIt advises on a command that YAML and JSON take for something else, as `run: true` or `- echo a: b`.
func quoteIt(n *node) string {
	if n.scalar() {
		return "; write " + quote(n.text)
	}
	if n.kind == mapping && len(n.fields) > 0 {
		return `; a text with ": " in it needs quotes`
	}
	return ""
}

func (t *target) env(n *node) {
	if n.kind != mapping {
		t.wrong(n, "env", "a mapping from names to values")
		return
	}
	total := 0
	for i := range n.fields {
		f := &n.fields[i]
		if f.name == "" || strings.ContainsAny(f.name, "=\x00") {
			t.add(f.at, "env: %s cannot be the name of a variable", quote(f.name))
			continue
		}
		if f.value.kind != null && !f.value.scalar() {
			t.wrong(&f.value, "env: "+cut(f.name), "a string")
			continue
		}
		if total += len(f.name) + len(f.value.text); total > t.lim.Env {
			t.add(f.at, "env: more than %s", size(t.lim.Env))
			return
		}
		if t.textOK(&f.value, "env: "+cut(f.name), t.lim.Env) {
			t.job.Env = append(t.job.Env, Var{f.name, f.value.text})
		}
	}
	slices.SortFunc(t.job.Env, func(a, b Var) int { return strings.Compare(a.Name, b.Name) })
}

// durationForm matches what has the form of a duration. Go takes one of that form if it is less than 292 years.
var durationForm = regexp.MustCompile(`^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`)

func (t *target) duration(n *node, name string) time.Duration {
	if v, ok := n.whole(); ok && v == 0 {
		return 0
	}
	v, err := time.ParseDuration(n.text)
	if n.kind == text && (v > job.MaxDuration || err != nil && durationForm.MatchString(n.text)) {
		t.add(n.at, "%s: expected a duration of at most %dh, found %s", name, job.MaxDuration/time.Hour, quote(n.text))
		return 0
	}
	if n.kind != text || err != nil {
		advice := ""
		if _, err := strconv.ParseFloat(n.text, 64); err == nil {
			advice = "; a unit is missing"
		}
		t.add(n.at, "%s: expected a duration such as 90s or 1h30m, found %s%s", name, n.found(), advice)
		return 0
	}
	if strings.HasPrefix(n.text, "-") {
		t.add(n.at, "%s: expected a duration of 0 or more, found %s", name, quote(n.text))
		return 0
	}
	// Times are kept to the microsecond: what is less would be 0, and so no limit.
	if v < time.Microsecond && strings.ContainsAny(n.text, "123456789") {
		t.add(n.at, "%s: expected 0 (no limit) or a duration of at least 1µs, found %s", name, quote(n.text))
		return 0
	}
	return v
}

func (t *target) integer(n *node, name string, least, most int) int {
	v, ok := n.whole()
	if !ok || v < least || v > most {
		t.add(n.at, "%s: expected a whole number from %d to %d, found %s", name, least, most, n.found())
		return 0
	}
	return v
}

func (t *target) boolean(n *node, name string) bool {
	if n.kind != boolean || n.text != "true" && n.text != "false" {
		t.wrong(n, name, "true or false")
		return false
	}
	return n.text == "true"
}

func (t *target) retryOn(n *node) {
	codes := []node{*n}
	if n.kind == list {
		codes = n.items
	} else if n.kind != number {
		t.wrong(n, "retry-on", "a list of exit codes")
		return
	}
	if len(codes) > t.lim.List {
		t.add(n.at, "retry-on: more than %d entries", t.lim.List)
		return
	}
	for i := range codes {
		before := len(t.list)
		if c := t.integer(&codes[i], "retry-on", 1, 255); len(t.list) == before {
			t.job.RetryOn = append(t.job.RetryOn, c)
		}
	}
	slices.Sort(t.job.RetryOn)
	t.job.RetryOn = slices.Compact(t.job.RetryOn)
}

// needsField decodes needs: a name, a list of names and {job, policy}, or a mapping from names to
// policies.
func (t *target) needsField(n *node) {
	count := len(n.items) + len(n.fields)
	if count > t.lim.Needs {
		t.add(n.at, "needs: more than %d entries", t.lim.Needs)
		return
	}
	switch n.kind {
	case text, number:
		t.need(n, nil)
	case list:
		for i := range n.items {
			item := &n.items[i]
			if item.kind == mapping {
				t.needMapping(item)
			} else {
				t.need(item, nil)
			}
		}
	case mapping:
		for i := range n.fields {
			f := &n.fields[i]
			t.need(&node{kind: text, text: f.name, at: f.at}, &f.value)
		}
	default:
		t.wrong(n, "needs", "a list of job names")
	}
}

func (t *target) needMapping(n *node) {
	for i := range n.fields {
		f := &n.fields[i]
		if f.name != "job" && f.name != "policy" {
			t.add(f.at, "unknown field %s of a need%s", quote(f.name),
				suggest(f.name, slices.Values([]string{"job", "policy"}), "; a need has job and policy"))
			return
		}
	}
	name := n.find("job")
	if name == nil {
		t.add(n.at, "needs: expected the field job")
		return
	}
	t.need(name, n.find("policy"))
}

// need notes one need; its job is looked up when all are known.
func (t *target) need(name, policy *node) {
	if name.kind != text && name.kind != number {
		t.wrong(name, "needs", "the name of a job")
		return
	}
	if !t.textOK(name, "needs", t.lim.Text) {
		return
	}
	p := job.Success
	if policy != nil && policy.kind != null {
		var ok bool
		if p, ok = job.ParsePolicy(policy.text); !ok || policy.kind != text {
			t.add(policy.at, "needs: expected the policy success, finish or order, found %s%s", policy.found(),
				suggest(policy.text, slices.Values([]string{"success", "finish", "order"}), ""))
			return
		}
	}
	t.needs = append(t.needs, namedNeed{name: t.intern(name.text), at: name.at, policy: uint8(p)})
}

// intern gives the same text as one that is kept anyway, if there is one: a job's name is needed
// again and again.
func (t *target) intern(s string) string {
	if known, ok := t.spans[s]; ok {
		return t.at(known.first).Name
	}
	return s
}
