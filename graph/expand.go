package graph

import (
	"slices"
	"strings"
	"unicode"
)

// expand applies the defaults and puts the variants of each matrix in place of its job.
func (d *decoder) expand() {
	if d.defaults.job != nil {
		for i := range d.jobs {
			d.applyDefaults(&d.jobs[i], &d.drafts[i])
			if d.full() {
				return
			}
		}
	}
	for i := range d.jobs {
		if j := &d.jobs[i]; d.drafts[i].set&bit("run") == 0 {
			d.add(placeOf(j), `job %s has no run: expected run: "command" or run: [program, argument]`, quote(j.Name))
		}
	}
	if d.count > len(d.jobs) || slices.ContainsFunc(d.drafts, func(f draft) bool { return f.matrix != nil }) {
		d.makeVariants()
	}
}

func placeOf(j *Job) place { return place{int32(j.Line), int32(j.Column)} }

// applyDefaults gives a job what it does not say itself. Environments are joined, the job's own value
// first; every other field is taken as a whole.
func (d *decoder) applyDefaults(j *Job, own *draft) {
	def := d.defaults.job
	missing := d.defaults.set &^ own.set
	for i, name := range jobFields {
		if missing&(1<<i) == 0 {
			continue
		}
		switch name {
		case "run":
			j.Run = def.Run
		case "dir":
			j.Dir = def.Dir
		case "timeout":
			j.Timeout = def.Timeout
		case "silence":
			j.Silence = def.Silence
		case "retries":
			j.Retries = def.Retries
		case "retry-on":
			j.RetryOn = def.RetryOn
		case "system":
			j.System = def.System
		case "features":
			j.Features = def.Features
		case "priority":
			j.Priority = def.Priority
		case "exclusive":
			j.Exclusive = def.Exclusive
		case "outputs":
			j.Outputs = def.Outputs
		case "optional":
			j.Optional = def.Optional
		}
	}
	own.set |= missing
	if len(def.Env) > 0 && d.grow(placeOf(j), int64(len(def.Env))*32) {
		d.joinEnv(j, def.Env)
	}
	if d.defaults.variables && own.matrix == nil && own.set&bit("matrix") == 0 {
		d.noMatrix(j)
	}
}

func (d *decoder) joinEnv(j *Job, defaults []Var) {
	if len(j.Env) == 0 {
		j.Env = defaults
		return
	}
	all := make([]Var, 0, len(j.Env)+len(defaults))
	total, own := 0, j.Env
	for len(own) > 0 || len(defaults) > 0 {
		switch {
		case len(own) == 0 || len(defaults) > 0 && defaults[0].Name < own[0].Name:
			all, defaults = append(all, defaults[0]), defaults[1:]
		default:
			if len(defaults) > 0 && defaults[0].Name == own[0].Name {
				defaults = defaults[1:]
			}
			all, own = append(all, own[0]), own[1:]
		}
		last := all[len(all)-1]
		total += len(last.Name) + len(last.Value)
	}
	if total > d.lim.Env {
		d.add(placeOf(j), "env: more than %s with that of defaults", size(d.lim.Env))
	}
	j.Env = all
}

// noMatrix reports what a job without a matrix took of the defaults with a variable in it.
func (d *decoder) noMatrix(j *Job) {
	for p := range texts(j) {
		for name := range references(*p) {
			d.add(placeOf(j), "job %s has no matrix, but defaults use ${matrix.%s}", quote(j.Name), cut(name))
			return
		}
	}
}

// texts gives each text of a job in which matrix variables are substituted.
func texts(j *Job) func(yield func(*string) bool) {
	return func(yield func(*string) bool) {
		for _, p := range []*string{&j.Run.Shell, &j.Dir, &j.System, &j.Key} {
			if !yield(p) {
				return
			}
		}
		for _, all := range [][]string{j.Run.Argv, j.Features, j.Outputs} {
			for i := range all {
				if !yield(&all[i]) {
					return
				}
			}
		}
		for i := range j.Env {
			if !yield(&j.Env[i].Value) {
				return
			}
		}
	}
}

// makeVariants rebuilds the list of jobs, with all variants of a matrix side by side.
func (d *decoder) makeVariants() {
	jobs, drafts := d.jobs, d.drafts
	d.jobs = make([]Job, 0, d.count)
	d.drafts = make([]draft, 0, d.count)
	named := make(map[string]span, d.count)
	for i := range jobs {
		m := drafts[i].matrix
		at := span{int32(len(d.jobs)), 1}
		if m == nil {
			d.jobs, d.drafts = append(d.jobs, jobs[i]), append(d.drafts, drafts[i])
		} else {
			for _, vars := range m.variants {
				d.variant(&jobs[i], drafts[i], vars)
				if d.full() {
					return
				}
			}
			at.count = int32(len(d.jobs)) - at.first
		}
		named[jobs[i].Name] = at
	}
	for i := range d.jobs {
		if j := &d.jobs[i]; j.Name != j.Base {
			d.nameVariant(named, j, int32(i))
		}
	}
	d.spans = named
}

func (d *decoder) nameVariant(named map[string]span, j *Job, i int32) {
	other, taken := named[j.Name]
	switch {
	case !taken:
		named[j.Name] = span{i, 1}
	case d.jobs[other.first].Base == j.Base:
		d.add(placeOf(j), "two variants of job %s would be named %s: make their values differ in letters, digits or %s_",
			quote(j.Base), quote(j.Name), nameMarks)
	default:
		d.add(placeOf(j), "a variant of job %s would be named %s, as the job at line %d", quote(j.Base), quote(j.Name),
			d.jobs[other.first].Line)
	}
	if why := badName(j.Name, d.lim.Name); why != "" {
		d.add(placeOf(j), "variant %s of job %s: name %s", quote(j.Name), quote(j.Base), why)
	}
}

// variant appends one variant of a job.
func (d *decoder) variant(base *Job, own draft, vars []Var) {
	j := *base
	j.Name = own.matrix.variantName(base.Name, vars)
	j.Run.Argv, j.Features = slices.Clone(base.Run.Argv), slices.Clone(base.Features)
	j.Outputs, j.Env = slices.Clone(base.Outputs), slices.Clone(base.Env)
	lists := len(j.Run.Argv) + len(j.Features) + len(j.Outputs) + 2*len(j.Env) + 2*int(own.needsTo-own.needsFrom)
	if !d.grow(placeOf(base), int64(lists)*16) {
		return
	}
	before := len(d.list)
	for p := range texts(&j) {
		*p = d.substitute(*p, vars, &j)
	}
	// Of a list, what a variant has nothing for is left out.
	empty := func(s string) bool { return s == "" }
	j.Features, j.Outputs = slices.DeleteFunc(j.Features, empty), slices.DeleteFunc(j.Outputs, empty)
	slices.Sort(j.Features)
	j.Features = slices.Compact(j.Features)
	if len(d.list) == before {
		d.checkVariant(&j)
	}
	needs := d.needs[own.needsFrom:own.needsTo]
	own.needsFrom = int32(len(d.needs))
	for _, n := range needs {
		n.name = d.substitute(n.name, vars, &j)
		d.needs = append(d.needs, n)
	}
	own.needsTo = int32(len(d.needs))
	d.jobs, d.drafts = append(d.jobs, j), append(d.drafts, own)
}

// substitute puts the values of a variant in a text. The new text is measured before it is made.
func (d *decoder) substitute(s string, vars []Var, j *Job) string {
	if !strings.Contains(s, opening) {
		return s
	}
	length := int64(len(s))
	for name := range references(s) {
		value, ok := lookup(vars, name)
		if !ok {
			d.add(placeOf(j), "variant %s has no matrix variable %s", quote(j.Name), quote(name))
			return ""
		}
		length += int64(len(value)) - int64(len(opening)+len(name)+1)
	}
	if !d.grow(placeOf(j), length) {
		return ""
	}
	var b strings.Builder
	b.Grow(int(length))
	for {
		before, rest, found := strings.Cut(s, opening)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, rest, _ := strings.Cut(rest, "}")
		value, _ := lookup(vars, name)
		b.WriteString(value)
		s = rest
	}
}

// checkVariant checks again what substitution can have changed.
func (d *decoder) checkVariant(j *Job) {
	total := len(j.Run.Shell)
	for _, a := range j.Run.Argv {
		total += len(a)
	}
	env := 0
	for _, v := range j.Env {
		env += len(v.Name) + len(v.Value)
	}
	wrong := ""
	switch {
	case strings.TrimSpace(j.Run.Shell) == "" && (len(j.Run.Argv) == 0 || j.Run.Argv[0] == ""):
		wrong = "run: nothing is left of the command"
	case total > d.lim.Command:
		wrong = "run: longer than " + size(d.lim.Command)
	case env > d.lim.Env:
		wrong = "env: more than " + size(d.lim.Env)
	case len(j.Dir) > d.lim.Text || len(j.Key) > d.lim.Text:
		wrong = "dir or key: longer than " + size(d.lim.Text)
	case len(j.System) > d.lim.Name:
		wrong = "system: longer than " + size(d.lim.Name)
	}
	for _, s := range []string{j.Dir, j.System, j.Key} {
		if strings.ContainsFunc(s, unicode.IsControl) {
			wrong = "dir, system or key: " + plainText(s)
		}
	}
	for _, f := range j.Features {
		if plainText(f) != "" || len(f) > d.lim.Name {
			wrong = "features: expected 1 to " + size(d.lim.Name) + " on one line, found " + quote(f)
		}
	}
	for _, o := range j.Outputs {
		if why := badGlob(o); why != "" || len(o) > d.lim.Text {
			wrong = "outputs: " + quote(o) + ": " + why
		}
	}
	if wrong != "" {
		d.add(placeOf(j), "variant %s: %s", quote(j.Name), wrong)
	}
}
