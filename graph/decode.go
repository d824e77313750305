package graph

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// topFields are the fields of a file; $schema is for editors.
var topFields = []string{"name", "defaults", "jobs", "$schema"}

// decoder collects what the readers hand it: each top-level field and each job as soon as it is read.
type decoder struct {
	report
	lim   Limits
	title string
	// tops tells where the top-level fields stand that were read.
	tops     map[string]place
	defaults draft
	// defaultUses are the texts of the defaults that refer to a matrix.
	defaultUses []use
	// blocks holds the jobs as they are read, each block but the last full: a slice that grows would
	// move every job some five times and leave as much garbage.
	blocks [][]entry
	// jobs and drafts hold them after collect.
	jobs   []Job
	drafts []draft
	needs  []namedNeed
	// spans finds a job by its name in the file.
	spans map[string]span
	// count is the number of jobs, variants counted one by one.
	count int
	// grown is what aliases, defaults and matrix variables made of the file, in bytes.
	grown int64
}

const blockSize = 1024

// entry is a job that was read.
type entry struct {
	job   Job
	draft draft
}

// draft is what a job needs beside a Job until the whole file is read.
type draft struct {
	// job is nil but in the draft of the defaults.
	job *Job
	// set has a bit for each field of jobFields that is given.
	set uint32
	// needs is the job's part of decoder.needs.
	needsFrom, needsTo int32
	matrix             *matrix
	// bad: a field is wrong and its value missing, so there is no point in looking at the rest.
	bad bool
}

// namedNeed is a need whose job is not looked up yet.
type namedNeed struct {
	name   string
	at     place
	policy uint8
}

// span is a range of jobs: one, or all variants of a matrix job.
type span struct {
	first, count int32
}

func newDecoder(file string, lim Limits) *decoder {
	return &decoder{
		report: report{file: file}, lim: lim,
		tops: make(map[string]place), spans: make(map[string]span),
	}
}

// top takes a top-level field.
func (d *decoder) top(f field) {
	if first, ok := d.tops[f.name]; ok {
		d.twice(f, first)
		return
	}
	d.tops[f.name] = f.at
	switch f.name {
	case "$schema":
		if f.value.kind != text {
			d.add(f.value.at, "$schema: expected a string, found %s", f.value.found())
		}
	case "name":
		if f.value.kind != text {
			d.add(f.value.at, "name: expected a string, found %s", f.value.found())
		} else if strings.ContainsFunc(f.value.text, unicode.IsControl) {
			d.add(f.value.at, "name: %s", plainText(f.value.text))
		} else if len(f.value.text) > d.lim.Name {
			d.add(f.value.at, "name: longer than %d bytes", d.lim.Name)
		} else {
			d.title = f.value.text
		}
	case "defaults":
		d.decodeDefaults(&f.value)
	case "jobs":
		if f.value.kind != mapping {
			d.add(f.value.at, "jobs: expected a mapping from names to jobs, found %s", f.value.found())
			return
		}
		for _, one := range f.value.fields {
			if !d.job(one) {
				return
			}
		}
	default:
		d.add(f.at, "unknown field %s%s", quote(f.name),
			suggest(f.name, slices.Values(topFields), "; a file has name, defaults and jobs"))
	}
}

// beginJobs is called in place of top for the field jobs if job takes its jobs one by one.
func (d *decoder) beginJobs(at place) {
	if first, ok := d.tops["jobs"]; ok {
		d.twice(field{name: "jobs", at: at}, first)
		return
	}
	d.tops["jobs"] = at
}

func (d *decoder) decodeDefaults(n *node) {
	switch n.kind {
	case null:
		return
	case mapping:
	default:
		d.add(n.at, "defaults: expected a mapping, found %s", n.found())
		return
	}
	d.defaults.job = &Job{}
	before := len(d.list)
	t := target{decoder: d, job: d.defaults.job, draft: &d.defaults, defaults: true}
	for i := range n.fields {
		t.field(&n.fields[i])
	}
	d.defaults.bad = len(d.list) > before
}

// job takes a job. It is false if there must be no more.
func (d *decoder) job(f field) bool {
	if first, ok := d.spans[f.name]; ok {
		d.add(f.at, "job %s is given twice, first at line %d", quote(f.name), d.at(first.first).Line)
		return !d.full()
	}
	if why := badName(f.name, d.lim.Name); why != "" {
		d.add(f.at, "job name %s: %s", quote(f.name), why)
	}
	if d.count >= d.lim.Jobs {
		d.add(f.at, "too many jobs: at most %d", d.lim.Jobs)
		return false
	}
	j, own := d.push(f.name)
	j.Name, j.Base, j.Line, j.Column = f.name, f.name, int(f.at.line), int(f.at.col)
	own.needsFrom = int32(len(d.needs))
	before := len(d.list)
	switch f.value.kind {
	case mapping:
		t := target{decoder: d, job: j, draft: own}
		t.fields(&f.value)
	case null:
	default:
		d.add(f.value.at, "job %s: expected a mapping of fields, found %s", quote(f.name), f.value.found())
		own.set |= bit("run") // One message is enough.
	}
	own.needsTo = int32(len(d.needs))
	own.bad = len(d.list) > before
	d.count++
	if own.matrix != nil {
		d.count += len(own.matrix.variants) - 1
	}
	return !d.full()
}

// push adds an empty job under a name.
func (d *decoder) push(name string) (*Job, *draft) {
	last := len(d.blocks) - 1
	if last < 0 || len(d.blocks[last]) == blockSize {
		// Most files have few jobs, so the first block grows as it is filled.
		room := blockSize
		if last < 0 {
			room = 16
		}
		d.blocks = append(d.blocks, make([]entry, 0, room))
		last++
	}
	d.spans[name] = span{int32(last*blockSize + len(d.blocks[last])), 1}
	d.blocks[last] = append(d.blocks[last], entry{})
	e := &d.blocks[last][len(d.blocks[last])-1]
	return &e.job, &e.draft
}

// at gives a job that was read, before collect.
func (d *decoder) at(i int32) *Job { return &d.blocks[i/blockSize][i%blockSize].job }

// collect moves the jobs out of their blocks.
func (d *decoder) collect() {
	n := len(d.spans)
	d.jobs, d.drafts = make([]Job, 0, n), make([]draft, 0, n)
	for i, block := range d.blocks {
		for k := range block {
			d.jobs, d.drafts = append(d.jobs, block[k].job), append(d.drafts, block[k].draft)
		}
		d.blocks[i] = nil
	}
	d.blocks = nil
}

// end checks what can be told only at the end of the file.
func (d *decoder) end() {
	if _, ok := d.tops["jobs"]; !ok {
		d.add(place{1, 1}, `expected the field jobs, as in "jobs: {hello: {run: echo hello}}"`)
		return
	}
	if len(d.spans) == 0 && len(d.list) == 0 {
		d.add(d.tops["jobs"], "jobs: expected at least one job")
	}
}

// grow accounts for bytes that are not in the file. It is false, and says so once, if that is too
// much.
func (d *decoder) grow(at place, bytes int64) bool {
	over := d.grown > d.lim.File
	d.grown += bytes
	if d.grown <= d.lim.File {
		return true
	}
	if !over {
		d.add(at, "aliases, defaults and matrix variables make more than %s of the file", size(d.lim.File))
	}
	return false
}

func (d *decoder) twice(f field, first place) {
	d.add(f.at, "%s is given twice, first at line %d", quote(f.name), first.line)
}

func (d *decoder) tooLarge(at place) {
	d.add(at, "the file is larger than %s", size(d.lim.File))
}

func tooBig(lim Limits) string {
	return fmt.Sprintf("too much for one job: at most %s and %d values", size(lim.Job), maxNodes)
}

// badName tells what is wrong with a name that people type in a shell, or "".
func badName(s string, most int) string {
	if s == "" {
		return "expected at least one character"
	}
	if len(s) > most {
		return fmt.Sprintf("longer than %d bytes", most)
	}
	for i, c := range s {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_':
		case strings.ContainsRune(nameMarks, c) && i > 0:
		case strings.ContainsRune(nameMarks, c):
			return fmt.Sprintf("expected a letter, a digit or _ first, found %q", c)
		default:
			return fmt.Sprintf("expected letters, digits and %s_ only, found %q", nameMarks, c)
		}
	}
	return ""
}

// nameMarks may stand in a name but not begin it: an option or a path begins so.
const nameMarks = ".:/+@-"
