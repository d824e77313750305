package worker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/headrace/headrace/job"
)

// ownFolder is where `headrace run` keeps its stores and logs, beside graph files: it changes with each run, and is nobody's output.
// Only who names it means it.
const ownFolder = ".headrace"

// maxOutputs bounds the files that an attempt keeps.
const maxOutputs = 100_000

// checkGlob refuses a pattern that can match nothing, or that leaves the folder of the job.
func checkGlob(glob string) error {
	if glob == "" {
		return errors.New("output \"\": the glob is empty")
	}
	for seg := range strings.SplitSeq(glob, "/") {
		switch {
		case seg == "" || seg == "." || seg == "..":
			return fmt.Errorf("output %q: want a path below the job's directory, without empty names, dot or dot-dot", glob)
		case seg != "**" && strings.Contains(seg, "**"):
			return fmt.Errorf("output %q: ** must stand alone between slashes", glob)
		}
		if _, err := path.Match(seg, ""); err != nil {
			return fmt.Errorf("output %q: bad pattern %q", glob, seg)
		}
	}
	return nil
}

// globError says why the outputs are not as promised.
type globError struct {
	detail job.Detail
	text   string
}

func (e *globError) Error() string { return e.text }

// collect hashes the files below dir that the globs match, sorted by path. Each glob must match a regular
// file. The error is a *globError where the command is to blame, else the cause of ctx or an input error.
func collect(ctx context.Context, dir string, globs []string) ([]Output, error) {
	if len(globs) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &globError{job.MissingOutput, fmt.Sprintf("output %q: the job's directory is gone", globs[0])}
	}
	if err != nil {
		return nil, fmt.Errorf("open the job's directory: %v", err)
	}
	defer root.Close() // Only read from.
	kept := map[string]bool{}
	for _, glob := range globs {
		w := walk{ctx: ctx, root: root, seen: map[place]bool{}, files: map[string]bool{}}
		if err := w.expand(".", compact(glob)); err != nil {
			return nil, err
		}
		if len(w.files) == 0 {
			return nil, &globError{job.MissingOutput, w.explain(glob)}
		}
		for f := range w.files {
			kept[f] = true
		}
		if len(kept) > maxOutputs {
			return nil, &globError{job.OutputLimit, fmt.Sprintf("output %q: more than %d files", glob, maxOutputs)}
		}
	}
	outs := make([]Output, 0, len(kept))
	for f := range kept {
		o, err := hash(ctx, root, f)
		if err != nil {
			return nil, err
		}
		outs = append(outs, o)
	}
	slices.SortFunc(outs, func(a, b Output) int { return cmp.Compare(a.Path, b.Path) })
	return outs, nil
}

// compact splits a glob; ** after ** adds nothing.
func compact(glob string) []string {
	segs := slices.CompactFunc(strings.Split(glob, "/"), func(a, b string) bool { return a == "**" && b == "**" })
	if segs[len(segs)-1] == "**" {
		segs = append(segs, "*")
	}
	return segs
}

// place is a folder together with the number of pattern parts still to match below it.
type place struct {
	dir  string
	left int
}

// walk finds the files that one glob matches. All access goes through root, which no symbolic link leaves.
type walk struct {
	ctx    context.Context
	root   *os.Root
	seen   map[place]bool // So that several ** cannot make the work explode.
	files  map[string]bool
	refuse string // a match that is no regular file inside, and why
}

func (w *walk) expand(dir string, segs []string) error {
	at := place{dir, len(segs)}
	if w.seen[at] {
		return nil
	}
	w.seen[at] = true
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if segs[0] == "**" {
		if err := w.expand(dir, segs[1:]); err != nil {
			return err
		}
	} else if !strings.ContainsAny(segs[0], `*?[\`) {
		return w.match(path.Join(dir, segs[0]), segs)
	}
	names, err := w.list(dir)
	if err != nil {
		return err
	}
	for _, e := range names {
		if e.Name() == ownFolder && e.IsDir() {
			continue
		}
		full := path.Join(dir, e.Name())
		if segs[0] == "**" {
			// Links to folders are not followed here, as they may form a ring.
			if e.IsDir() {
				if err := w.expand(full, segs); err != nil {
					return err
				}
			}
			continue
		}
		if ok, _ := path.Match(segs[0], e.Name()); ok { // checkGlob has seen the pattern.
			if err := w.match(full, segs); err != nil {
				return err
			}
		}
	}
	return nil
}

// match takes a path whose last name matched the first of segs.
func (w *walk) match(full string, segs []string) error {
	fi, err := w.root.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		if l, lerr := w.root.Lstat(full); lerr == nil && l.Mode()&fs.ModeSymlink != 0 {
			w.refuse = fmt.Sprintf("%q is a symbolic link to nothing", full)
		}
	case err != nil:
		// Among them links that leave the root; os has no error value for those.
		w.refuse = fmt.Sprintf("%q leads out of the job's directory or cannot be read (%v)", full, rootCause(err))
	case len(segs) > 1 && fi.IsDir():
		return w.expand(full, segs[1:])
	case len(segs) > 1:
	case fi.IsDir():
		w.refuse = fmt.Sprintf("%q is a directory; %q takes the files in it", full, full+"/**")
	case !fi.Mode().IsRegular():
		w.refuse = fmt.Sprintf("%q is not a regular file", full)
	default:
		w.files[full] = true
	}
	return nil
}

// list reads a folder in the order of names. One that has gone meanwhile, or was none, is empty.
func (w *walk) list(dir string) ([]fs.DirEntry, error) {
	f, err := w.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, &globError{job.MissingOutput, fmt.Sprintf("look for outputs in %q: %v", dir, rootCause(err))}
	}
	defer f.Close() // Only read from.
	names, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("look for outputs in %q: %v", dir, rootCause(err))
	}
	slices.SortFunc(names, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return names, nil
}

func (w *walk) explain(glob string) string {
	if w.refuse != "" {
		return fmt.Sprintf("output %q: no file matches; %s", glob, w.refuse)
	}
	return fmt.Sprintf("output %q: no file matches", glob)
}

func hash(ctx context.Context, root *os.Root, name string) (Output, error) {
	// Non-blocking: had a FIFO taken the file's place, a plain open would wait for its writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Output{}, &globError{job.MissingOutput, fmt.Sprintf("output %q: %v", name, rootCause(err))}
	}
	defer f.Close() // Only read from.
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return Output{}, &globError{job.MissingOutput, fmt.Sprintf("output %q is not a regular file any more", name)}
	}
	sum := sha256.New()
	var size int64
	for {
		if ctx.Err() != nil {
			return Output{}, context.Cause(ctx)
		}
		n, err := io.CopyN(sum, f, 4<<20)
		size += n
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Output{}, fmt.Errorf("hash output %q: %v", name, rootCause(err))
		}
	}
	return Output{Path: name, Size: size, SHA256: [32]byte(sum.Sum(nil))}, nil
}

// rootCause drops the operation and path that os puts before an error; our messages name them already.
func rootCause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
