package graph

import (
	"slices"
	"strings"
)

// variant is one variant of a job in the making.
type variant struct {
	*decoder
	job  Job
	base *Job
	m    *matrix
	vars []Var
	// bad: something is wrong with it, and was said.
	bad bool
}

// variant appends one variant of a job.
func (d *decoder) variant(base *Job, own draft, vars []Var) {
	v := variant{decoder: d, job: *base, base: base, m: own.matrix, vars: vars, bad: own.bad}
	j := &v.job
	j.Name = own.matrix.variantName(base.Name, vars)
	j.Run.Argv, j.Features = slices.Clone(base.Run.Argv), slices.Clone(base.Features)
	j.Outputs, j.Env = slices.Clone(base.Outputs), slices.Clone(base.Env)
	lists := len(j.Run.Argv) + len(j.Features) + len(j.Outputs) + 2*len(j.Env) + 2*int(own.needsTo-own.needsFrom)
	if !d.grow(placeOf(base), int64(lists)*16) {
		return
	}
	for field, p := range texts(j) {
		v.text(field, p)
	}
	// Of a list, what a variant has nothing for is left out.
	empty := func(s string) bool { return s == "" }
	j.Features, j.Outputs = slices.DeleteFunc(j.Features, empty), slices.DeleteFunc(j.Outputs, empty)
	slices.Sort(j.Features)
	j.Features = slices.Compact(j.Features)
	if !v.bad {
		v.check()
	}
	needs := d.needs[own.needsFrom:own.needsTo]
	own.needsFrom = int32(len(d.needs))
	for _, n := range needs {
		if strings.Contains(n.name, opening) {
			raw := n.name
			var missing string
			if n.name, missing = v.substitute(raw, n.at); missing != "" {
				v.wrong("needs", raw, "there is no matrix variable "+quote(missing))
				continue
			}
		}
		d.needs = append(d.needs, n)
	}
	own.needsTo = int32(len(d.needs))
	d.jobs, d.drafts = append(d.jobs, *j), append(d.drafts, own)
}

// text puts the values of the variant in a text of a field, and checks it again.
func (v *variant) text(field string, p *string) {
	raw := *p
	if !strings.Contains(raw, opening) {
		return
	}
	var missing string
	if *p, missing = v.substitute(raw, placeOf(v.base)); missing != "" {
		v.wrong(field, raw, "there is no matrix variable "+quote(missing))
	} else if why := v.fault(field, *p); why != "" {
		v.wrong(field, raw, why)
	}
}

// fault tells what substitution made wrong in a text, or "". That it is empty is allowed.
func (v *variant) fault(field, text string) string {
	most, check := v.lim.Text, plainText
	switch field {
	case "run", "env":
		return ""
	case "system":
		most = v.lim.Name
	case "features":
		most, check = v.lim.Name, oneWord
	case "outputs":
		check = badGlob
	}
	switch {
	case text == "":
		return ""
	case len(text) > most:
		return "longer than " + size(most)
	}
	why := check(text)
	if field == "outputs" && why != "" {
		why = quote(text) + ": " + why
	}
	return why
}

// check checks what all texts of a field are together.
func (v *variant) check() {
	j := &v.job
	total := len(j.Run.Shell)
	for _, a := range j.Run.Argv {
		total += len(a)
	}
	env := 0
	for _, e := range j.Env {
		env += len(e.Name) + len(e.Value)
	}
	switch {
	case strings.TrimSpace(j.Run.Shell) == "" && (len(j.Run.Argv) == 0 || j.Run.Argv[0] == ""):
		v.wrong("run", "", "nothing is left of the command")
	case total > v.lim.Command:
		v.wrong("run", "", "longer than "+size(v.lim.Command))
	case env > v.lim.Env:
		v.wrong("env", "", "more than "+size(v.lim.Env))
	}
}

// wrong reports what is wrong with a text of a field, wherever it stands, or with the first text of the
// field if it is not said which. Each place is named once, for the first variant for which it is wrong.
func (v *variant) wrong(field, text, why string) {
	v.bad = true
	found := false
	for _, u := range slices.Concat(v.m.uses, v.defaultUses) {
		if !u.is(field, text) && (text != "" || found || !u.is(field, u.text)) {
			continue
		}
		found = true
		if v.sayOnce(u.at) {
			v.add(u.at, "%s: variant %s: %s", u.field, quote(v.job.Name), why)
		}
	}
	if at := placeOf(v.base); !found && v.sayOnce(at) {
		v.add(at, "%s: variant %s: %s", field, quote(v.job.Name), why)
	}
}

// substitute puts the values of a variant in a text, or gives the name of the variable that is missing.
// The new text is measured before it is made.
func (v *variant) substitute(s string, at place) (text, missing string) {
	length := int64(len(s))
	for name := range references(s) {
		value, ok := lookup(v.vars, name)
		if !ok {
			return "", name
		}
		length += int64(len(value)) - int64(len(opening)+len(name)+1)
	}
	if !v.grow(at, length) {
		v.bad = true
		return "", ""
	}
	var b strings.Builder
	b.Grow(int(length))
	for {
		before, rest, found := strings.Cut(s, opening)
		b.WriteString(before)
		if !found {
			return b.String(), ""
		}
		name, rest, _ := strings.Cut(rest, "}")
		value, _ := lookup(v.vars, name)
		b.WriteString(value)
		s = rest
	}
}
