package depot

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fileState is what memory knows of the artifacts of an attempt. Who holds the gate of the entry writes it, under the
// entry's mu. The counters of an upload belong to the call that makes it, likewise under mu.
type fileState struct {
	loaded bool // false: the disk knows better
	gone   bool // the job was removed
	safe   bool // this process has synced the index since
	kept   map[string]Artifact
	parts  map[string]*part // by nameKey
	end    int64            // of what is whole in the index
}

// part is an upload that is not complete.
type part struct {
	Upload         // the name only if it began in this process
	received int64 // bytes on disk
	busy     bool
}

// room counts what is kept or under way, without the upload of one key.
func (s *fileState) room(without string) (files int, size int64) {
	for _, a := range s.kept {
		files, size = files+1, size+a.Size
	}
	for key, p := range s.parts {
		if key != without {
			files, size = files+1, size+p.Size
		}
	}
	return files, size
}

// indexLine is a line of the index: a checksum (CRC-32C, 8 hexadecimal digits), a space, and this as JSON. A line counts
// once it is whole; a later one replaces an earlier one of the same name.
type indexLine struct {
	Name string    `json:"name"`
	Size int64     `json:"size"`
	Sum  string    `json:"sha256"`
	Time time.Time `json:"time"`
}

func encodeIndexLine(a Artifact) ([]byte, error) {
	b, err := json.Marshal(indexLine{a.Name, a.Size, hex.EncodeToString(a.Sum[:]), a.Time})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(b, castagnoli), b), nil
}

// decodeIndex reads all lines that are whole and right, and tells where the last whole one ends. A line that is damaged
// stops no other.
func decodeIndex(b []byte) (kept map[string]Artifact, end int64) {
	kept = map[string]Artifact{}
	for {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			return kept, end
		}
		end += int64(len(line)) + 1
		b = rest
		if a, ok := decodeIndexLine(line); ok {
			kept[a.Name] = a
		}
	}
}

func decodeIndexLine(line []byte) (a Artifact, ok bool) {
	sum, text, ok := bytes.Cut(line, []byte{' '})
	if !ok || len(sum) != 8 {
		return Artifact{}, false
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || crc32.Checksum(text, castagnoli) != uint32(want) {
		return Artifact{}, false
	}
	var l indexLine
	if json.Unmarshal(text, &l) != nil || len(l.Sum) != 2*len(a.Sum) || l.Size < 0 || CheckName(l.Name) != nil {
		return Artifact{}, false
	}
	if _, err := hex.Decode(a.Sum[:], []byte(l.Sum)); err != nil {
		return Artifact{}, false
	}
	a.Name, a.Size, a.Time = l.Name, l.Size, l.Time
	return a, true
}

// maxIndex bounds what is read of an index.
const maxIndex = 256 << 20

// loadFiles finds out what the disk has of the artifacts. It needs the gate.
func (f *Folder) loadFiles(e *entry) error {
	if e.files.loaded {
		return nil
	}
	dir := e.at.place(extFiles)
	infos, err := f.disk.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	next := fileState{loaded: true, kept: map[string]Artifact{}, parts: map[string]*part{}}
	sizes := map[string]int64{}
	for _, info := range infos {
		sizes[info.Name()] = info.Size()
	}
	if _, ok := sizes[indexName]; ok {
		b, err := readAll(f.disk, dir+"/"+indexName, maxIndex)
		if err != nil {
			return err
		}
		next.kept, next.end = decodeIndex(b)
	}
	used := map[string]bool{indexName: true} // names of files, and keys
	for name, a := range next.kept {
		key := nameKey(name)
		content := contentName(key, a.Upload)
		// Without its content, or with a part of it, it can be put again.
		if size, ok := sizes[content]; !ok || size != a.Size {
			delete(next.kept, name)
			continue
		}
		used[content], used[key] = true, true
	}
	var stray []string
	for name, size := range sizes {
		key, u, ok := parseContent(name)
		switch {
		case used[name]:
		case !ok || size > u.Size || used[key]:
			stray = append(stray, name)
		default:
			used[key] = true
			next.parts[key] = &part{Upload: u, received: size}
		}
	}
	for _, name := range stray {
		if err := f.disk.RemoveAll(dir + "/" + name); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// What is under way goes on with the counters that it has.
	for key, p := range e.files.parts {
		if p.busy && (next.parts[key] != nil || !used[key]) {
			next.parts[key] = p
		}
	}
	*e.files = next
	return nil
}

// enterFiles gives the entry of an attempt whose artifacts are known. The caller leaves.
func (f *Folder) enterFiles(ctx context.Context, at Attempt) (*entry, error) {
	e, err := f.enter(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := f.loadFiles(e); err != nil {
		f.leave(e)
		return nil, err
	}
	return e, nil
}

// Artifacts implements the interface Artifacts.
func (f *Folder) Artifacts(ctx context.Context, at Attempt) ([]Artifact, error) {
	e, err := f.enterFiles(ctx, at)
	if err != nil {
		return nil, f.fail("list the artifacts", at, err)
	}
	defer f.leave(e)
	out := make([]Artifact, 0, len(e.files.kept))
	for _, a := range e.files.kept {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// OpenArtifact implements Artifacts.
func (f *Folder) OpenArtifact(ctx context.Context, at Attempt, name string) (io.ReadSeekCloser, Artifact, error) {
	e, err := f.enterFiles(ctx, at)
	if err != nil {
		return nil, Artifact{}, f.fail("open an artifact", at, err)
	}
	defer f.leave(e)
	a, ok := e.files.kept[name]
	if !ok {
		return nil, Artifact{}, f.fail("open an artifact", at, fmt.Errorf("%.100q: %w", name, ErrNotKept))
	}
	content, err := f.disk.OpenFile(e.at.place(extFiles)+"/"+contentName(nameKey(name), a.Upload), os.O_RDONLY)
	if err != nil {
		return nil, Artifact{}, f.fail("open an artifact", at, err)
	}
	return &openArtifact{io.NewSectionReader(content, 0, a.Size), content}, a, nil
}

// openArtifact is the content of an artifact.
type openArtifact struct {
	*io.SectionReader
	io.Closer
}
