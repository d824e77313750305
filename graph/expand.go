package graph

import (
	"iter"
	"slices"
	"strings"
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
	own.bad = own.bad || d.defaults.bad
	if len(def.Env) > 0 && d.grow(placeOf(j), int64(len(def.Env))*32) {
		d.joinEnv(j, def.Env)
	}
	if len(d.defaultUses) > 0 && own.matrix == nil && own.set&bit("matrix") == 0 {
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

// noMatrix reports what a job without a matrix took of the defaults with a variable in it: each text of
// the defaults once, for the first such job.
func (d *decoder) noMatrix(j *Job) {
	for field, p := range texts(j) {
		for name := range references(*p) {
			for _, u := range d.defaultUses {
				if u.is(field, *p) && d.sayOnce(u.at) {
					d.add(u.at, "%s: ${matrix.%s} is used, but job %s has no matrix", u.field, cut(name), quote(j.Name))
				}
			}
			break
		}
	}
}

// is reports whether the use is that of a text in a field; the fields of env are one.
func (u *use) is(field, text string) bool {
	return u.text == text && (u.field == field || strings.HasPrefix(u.field, field+": "))
}

// sayOnce is true if there is no problem at a place yet.
func (d *decoder) sayOnce(at place) bool {
	return !slices.ContainsFunc(d.list, func(p Problem) bool { return p.Line == int(at.line) && p.Column == int(at.col) })
}

// texts gives each text of a job in which matrix variables are substituted, with its field.
func texts(j *Job) iter.Seq2[string, *string] {
	return func(yield func(string, *string) bool) {
		if !yield("run", &j.Run.Shell) || !yield("dir", &j.Dir) || !yield("system", &j.System) || !yield("key", &j.Key) {
			return
		}
		for _, all := range []struct {
			field string
			texts []string
		}{{"run", j.Run.Argv}, {"features", j.Features}, {"outputs", j.Outputs}} {
			for i := range all.texts {
				if !yield(all.field, &all.texts[i]) {
					return
				}
			}
		}
		for i := range j.Env {
			if !yield("env", &j.Env[i].Value) {
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
	at := d.drafts[i].matrix.at
	other, taken := named[j.Name]
	switch {
	case !taken:
		named[j.Name] = span{i, 1}
	case d.jobs[other.first].Base == j.Base:
		d.add(at, "two variants of job %s would be named %s: make their values differ in letters, digits or %s_",
			quote(j.Base), quote(j.Name), nameMarks)
	default:
		d.add(at, "a variant of job %s would be named %s, as the job at line %d", quote(j.Base), quote(j.Name),
			d.jobs[other.first].Line)
	}
	if why := badName(j.Name, d.lim.Name); why != "" {
		d.add(at, "variant %s of job %s: name %s", quote(j.Name), quote(j.Base), why)
	}
}
