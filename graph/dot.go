package graph

import (
	"bufio"
	"io"
	"strings"

	"github.com/headrace/headrace/job"
)

// DOT writes the graph in the language of Graphviz, from left to right as the jobs run. Edges with the
// policy finish are dashed, with order dotted; optional jobs are dashed. It reports errors of w.
func (g *Graph) DOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteString("digraph " + dotText(g.Name) + " {\n\trankdir=LR;\n\tnode [shape=box, fontname=monospace];\n")
	for i := range g.Jobs {
		j := &g.Jobs[i]
		b.WriteString("\t" + dotText(j.Name))
		if j.Optional {
			b.WriteString(" [style=dashed]")
		}
		b.WriteString(";\n")
	}
	for i := range g.Jobs {
		j := &g.Jobs[i]
		for _, n := range j.Needs {
			b.WriteString("\t" + dotText(g.Jobs[n.Job].Name) + " -> " + dotText(j.Name))
			switch n.Policy {
			case job.Success:
			case job.Finish:
				b.WriteString(" [style=dashed]")
			case job.Order:
				b.WriteString(" [style=dotted, constraint=false]")
			}
			b.WriteString(";\n")
		}
	}
	b.WriteString("}\n")
	return b.Flush()
}

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ")

// dotText quotes a text. In DOT the quote is special, and the backslash in labels.
func dotText(s string) string { return `"` + dotEscapes.Replace(s) + `"` }
