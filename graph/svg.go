package graph

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/headrace/headrace/job"
)

// maxDrawn bounds the jobs, and ten times it the edges, of a picture that a person can still read.
const maxDrawn = 2000

// ErrTooManyJobs is what SVG says of a graph with more than 2,000 jobs or 20,000 needs.
var ErrTooManyJobs = errors.New("too many jobs or needs to draw: at most 2000 and 20000; select a target, or use DOT")

const (
	letter    = 7.2 // The width of a letter of 12 px in a monospaced font.
	boxHeight = 28.0
	gap       = 56.0 // Between columns.
	margin    = 16.0
	maxLabel  = 40 // Letters; the tooltip has the whole name.
)

// SVG writes a picture of the graph, from left to right as the jobs run. Edges with the policy finish
// are dashed, with order dotted; optional jobs have a dashed border. Its colours suit light and dark
// pages; it has neither style sheet nor script, and classes job and need for who wants other colours.
// It reports ErrTooManyJobs, and errors of w.
func (g *Graph) SVG(w io.Writer) error {
	needs := 0
	for i := range g.Jobs {
		needs += len(g.Jobs[i].Needs)
	}
	if len(g.Jobs) > maxDrawn || needs > 10*maxDrawn {
		return ErrTooManyJobs
	}
	d := drawing{w: bufio.NewWriter(w), g: g}
	if len(g.Jobs) > 0 {
		d.l = g.layout()
	} else {
		d.l = &layout{}
	}
	d.draw()
	return d.w.Flush()
}

// drawing is one picture while it is written. Errors wait in w for Flush.
type drawing struct {
	w *bufio.Writer
	g *Graph
	l *layout
	// left and width are those of the columns.
	left, width []float64
}

func (d *drawing) draw() {
	x := margin
	for _, column := range d.l.columns {
		wide := 0.0
		for _, p := range column {
			if !d.l.points[p].bend {
				wide = max(wide, float64(utf8.RuneCountInString(label(d.g.Jobs[p].Name)))*letter+20)
			}
		}
		d.left, d.width = append(d.left, x), append(d.width, wide)
		x += wide + gap
	}
	right := max(x-gap, margin) + margin
	fmt.Fprintf(d.w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %[1]g %[2]g" role="img"`+
		` font-family="monospace" font-size="12">`+"\n", math.Ceil(right), math.Ceil(d.l.bottom+boxHeight+2*margin))
	d.title()
	d.w.WriteString(`<g class="needs" fill="none" stroke="#8795a1" stroke-width="1.5">` + "\n")
	for i := range d.l.edges {
		d.edge(&d.l.edges[i])
	}
	d.w.WriteString("</g>\n")
	for i := range d.g.Jobs {
		d.job(i)
	}
	d.w.WriteString("</svg>\n")
}

func (d *drawing) title() {
	name := d.g.Name
	if name == "" {
		name = "job graph"
	}
	d.w.WriteString("<title>" + escape(name) + "</title>\n" +
		`<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">` +
		`<path d="M0 0 8 4 0 8z" fill="#8795a1"/></marker>` + "\n")
}

func (d *drawing) y(p int) float64 { return d.l.points[p].y + boxHeight/2 + margin }

// edge draws a smooth line through its points, level at each of them.
func (d *drawing) edge(e *route) {
	at := e.points[0]
	x, y := d.left[d.l.points[at].column]+d.width[d.l.points[at].column], d.y(at)
	fmt.Fprintf(d.w, `<path class="need %s" d="M%.1f %.1f`, e.need.Policy, x, y)
	for k, p := range e.points[1:] {
		column := d.l.points[p].column
		nx, ny := d.left[column], d.y(p)
		if k == len(e.points)-2 {
			nx -= 2 // Room for the arrow.
		}
		bow := max(gap/2, (nx-x)/2)
		fmt.Fprintf(d.w, "C%.1f %.1f %.1f %.1f %.1f %.1f", x+bow, y, nx-bow, ny, nx, ny)
		x, y = nx, ny
		if d.l.points[p].bend {
			x += d.width[column]
			fmt.Fprintf(d.w, "H%.1f", x)
		}
	}
	dashes := ""
	switch e.need.Policy {
	case job.Success:
	case job.Finish:
		dashes = ` stroke-dasharray="6 4"`
	case job.Order:
		dashes = ` stroke-dasharray="1.5 4"`
	}
	fmt.Fprintf(d.w, `" marker-end="url(#arrow)"%s/>`+"\n", dashes)
}

func (d *drawing) job(i int) {
	j, p := &d.g.Jobs[i], &d.l.points[i]
	dashes := ""
	if j.Optional {
		dashes = ` stroke-dasharray="5 3"`
	}
	x, y := d.left[p.column], d.y(i)
	fmt.Fprintf(d.w, `<g class="job"><title>%s</title><rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="5" fill="#46627f"`+
		` stroke="#8fa9c4"%s/><text x="%.1f" y="%.1f" text-anchor="middle" fill="#fff">%s</text></g>`+"\n",
		escape(tooltip(j)), x, y-boxHeight/2, d.width[p.column], boxHeight, dashes,
		x+d.width[p.column]/2, y+4, escape(label(j.Name)))
}

// tooltip gives the name of a job and how its command begins.
func tooltip(j *Job) string {
	run := j.Run.Shell
	if run == "" {
		run = strings.Join(j.Run.Argv, " ")
	}
	return j.Name + "\n" + shorten(strings.TrimSpace(run), 200)
}

func label(name string) string { return shorten(name, maxLabel) }

func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // A strings.Builder never fails.
	return b.String()
}
