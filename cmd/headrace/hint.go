package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// command gives a command line about the file, for a person to copy: headrace VERB FILE [NAME].
func (p place) command(verb string, names ...string) string {
	line := "headrace " + verb
	words := append([]string{p.file}, names...)
	switch {
	case p.address != "":
		line += " --store " + shellWord(p.name())
	case p.folder != "":
		line += " --store " + shellWord(p.folder)
	}
	for _, w := range words {
		if strings.HasPrefix(w, "-") && w != stream {
			line += " --" // What follows is no flag.
			break
		}
	}
	for _, w := range words {
		line += " " + shellWord(w)
	}
	return line
}

// shellWord quotes a word for a shell where that is needed.
func shellWord(s string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:,=@+%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// commandOn says how to call a command for the server, and with the token, that this command was given by flags.
func (s *serverFlags) commandOn(cmd *cobra.Command) func(verb, what string) string {
	line := ""
	for _, flag := range []string{"server", "token-file"} {
		if f := cmd.Flags().Lookup(flag); f.Changed {
			line += " --" + flag + " " + shellWord(f.Value.String())
		}
	}
	return func(verb, what string) string { return "headrace " + verb + line + " " + shellWord(what) }
}
