package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Long: `Write a manual page for each command into a folder, which is made if it is not there.

` + exitHelp,
		Example: "  headrace man /usr/local/share/man/man1",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the folder: %v", err)
			}
			return writeManual(cmd.Root(), args[0])
		},
	}
}

// writeManual writes the page of a command, and those of the commands below it.
func writeManual(cmd *cobra.Command, dir string) error {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := writeManual(c, dir); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), []byte(manual(cmd)), 0o644)
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manual gives the page of a command, in the man macros of roff: the same each time, and what help shows in lines of its own,
// such as lists, stays so.
func manual(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"\" \"%s\"\n", roff(strings.ToUpper(pageName(cmd))), roff("headrace "+version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR\n.SH DESCRIPTION\n", roff(cmd.UseLine()))
	prose(&b, cmd.Long)
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	b.WriteString(".SH OPTIONS\n")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			option(&b, f)
		}
	})
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		prose(&b, cmd.Example)
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, pageName(cmd.Parent()))
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			also = append(also, pageName(c))
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, name := range also {
		comma := ","
		if i == len(also)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), comma)
	}
	return b.String()
}

// prose writes text: paragraphs are filled, lines that are indented stay as they are.
func prose(b *strings.Builder, text string) {
	kept := false
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		switch indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); {
		case indented && !kept:
			b.WriteString(".nf\n")
			kept = true
		case !indented && kept:
			b.WriteString(".fi\n")
			kept = false
		}
		if line == "" {
			b.WriteString(".PP\n")
		} else {
			b.WriteString(roff(line) + "\n")
		}
	}
	if kept {
		b.WriteString(".fi\n")
	}
}

// option writes a flag.
func option(b *strings.Builder, f *pflag.Flag) {
	value, use := pflag.UnquoteUsage(f)
	b.WriteString(".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(b, "\\fB\\-%s\\fR, ", roff(f.Shorthand))
	}
	fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(f.Name))
	if value != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
	}
	b.WriteString("\n" + roff(use))
	switch f.DefValue {
	case "", "0", "[]", "false":
	default:
		b.WriteString(" (default " + roff(f.DefValue) + ")")
	}
	b.WriteString("\n")
}

// roff gives a line of text as roff reads it: nothing in it is a command.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
