package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/headrace/headrace/graph"
)

// stream is the name of a graph that comes from no file: standard input, or a pipe that a shell made (`<(...)`). It has
// no folder: its jobs run in the current one, and its store is there.
const stream = "-"

// descriptor is a path by which a process names one of its own open files.
var descriptor = regexp.MustCompile(`^/(dev/stdin|dev/fd/\d+|proc/(self|thread-self|\d+)/fd/\d+)$`)

// isStream reports whether the argument names an open file that is no regular one.
func isStream(file string) bool {
	if file == stream {
		return true
	}
	if !descriptor.MatchString(file) {
		return false
	}
	info, err := os.Stat(file)
	return err == nil && !info.Mode().IsRegular()
}

// lasting gives the name of a graph file: where a path leads to an open regular file (/dev/stdin), that of this file, as it is found
// by it later, too.
func lasting(file string) string {
	if !descriptor.MatchString(file) || isStream(file) {
		return file
	}
	path := target(file)
	if here, err := os.Getwd(); err == nil {
		if near, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(near) {
			return near
		}
	}
	return path
}

// inputName is how messages call a graph file.
func inputName(file string) string {
	if isStream(file) {
		return "standard input"
	}
	return fmt.Sprintf("graph file %q", file)
}

// patience is how long a graph may take to come before somebody is told what is waited for.
const patience = time.Second

// openInput opens a graph file, or the pipe or terminal from which what is to be read is to come. It tells stderr that it waits
// for it, if nothing comes for long; nil: nobody wants to know.
func openInput(file, what string, stderr io.Writer) (io.ReadCloser, error) {
	kind, err := kindOf(file)
	if err != nil {
		return nil, usage("%s: %v", inputName(file), cause(err))
	}
	if kind == "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usage("%s: %v", inputName(file), cause(err))
		}
		return f, nil
	}
	name := visible(file)
	if isStream(file) {
		name = "standard input"
	}
	in := &input{}
	if stderr != nil {
		in.late = time.AfterFunc(patience, func() {
			fmt.Fprintf(stderr, "headrace: waiting for %s on %s (%s)\n", what, name, kind)
		})
	}
	if file == stream {
		in.file = os.Stdin
	} else if in.file, err = os.Open(file); err != nil { // Of a pipe it waits for who writes.
		in.came()
		return nil, usage("%s: %v", inputName(file), cause(err))
	}
	return in, nil
}

// cause is an error without the path, which the message has already.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// kindOf says what a graph is to come from if it is no regular file, or why it cannot come from there.
func kindOf(file string) (kind string, err error) {
	info, err := os.Stat(file)
	if file == stream {
		info, err = os.Stdin.Stat()
	}
	if err != nil {
		return "", err
	}
	mode := info.Mode()
	switch {
	case mode.IsDir():
		return "", errors.New("it is a directory; name the file in it")
	case isStream(file) && mode&fs.ModeNamedPipe != 0:
		return "a pipe", nil
	case isStream(file) && mode&fs.ModeCharDevice != 0:
		return "a terminal; Ctrl-D ends it", nil // Of other devices nobody has to wait for long.
	case isStream(file):
		return "a file or socket", nil
	case mode.IsRegular():
		return "", nil
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe", nil
	case mode&fs.ModeSocket != 0:
		return "", errors.New("it is a socket, not a file")
	}
	return "", errors.New("it is a device, not a file")
}

// input is a graph that comes when it comes.
type input struct {
	file *os.File
	late *time.Timer // nil: nobody is to be told
}

func (in *input) came() {
	if in.late != nil {
		in.late.Stop()
	}
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.file.Read(p)
	in.came()
	return n, err
}

// Close implements io.Closer.
func (in *input) Close() error {
	in.came()
	if in.file == os.Stdin {
		return nil
	}
	return in.file.Close()
}

// parseInput reads a graph to run.
func parseInput(file string, stderr io.Writer) (*graph.Graph, error) {
	in, err := openInput(file, "a graph", stderr)
	if err != nil {
		return nil, err
	}
	defer in.Close() // Only read from.
	name := file
	if isStream(file) {
		name = "stdin"
	}
	g, err := graph.Parse(in, name, graph.Limits{})
	if err != nil {
		return nil, &exit{exitUsage, err}
	}
	return g, nil
}

// parseFile reads a graph file that is there to be looked up in; what can be read but once is not.
func parseFile(file string) (*graph.Graph, error) {
	if kind, err := kindOf(file); err == nil && kind != "" {
		return nil, usage("%s: it can be read but once", inputName(file))
	}
	return parseInput(file, nil)
}
