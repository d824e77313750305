package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminalSize reports whether what is written is seen by a person at once, and how to learn the size of the terminal.
func terminalSize(w io.Writer) (size func() (columns, rows int), terminal bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	return func() (int, int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}, true
}
