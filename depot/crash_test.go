package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// life is what somebody does with a depot, with what was answered.
type life struct {
	text     []byte
	file     []byte
	appended int64
	sealed   bool
	put      int64
	kept     bool
	removed  bool
	fresh    bool // the depot that is looked at has just been opened
}

// live goes as far as it can: a log in three chunks, sealed, and an artifact in two calls; another job is removed.
func (l *life) live(f *Folder) (err error) {
	third := int64(len(l.text) / 3)
	for i := range int64(3) {
		end := (i + 1) * third
		if i == 2 {
			end = int64(len(l.text))
		}
		size, err := f.Append(bg, attempt(1), i*third, l.text[i*third:end], 0)
		l.appended = max(l.appended, size)
		if err != nil {
			return err
		}
	}
	for _, b := range [][]byte{l.file[:100], l.file[100:]} {
		n, err := f.Put(bg, attempt(1), upload("a/b", l.file), l.put, bytes.NewReader(b))
		l.put = max(l.put, n)
		if err != nil {
			return err
		}
	}
	l.kept = true
	if err := f.Seal(bg, attempt(1)); err != nil {
		return err
	}
	l.sealed = true
	if _, err := f.Put(bg, attempt(2), upload("x", nil), 0, strings.NewReader("")); err != nil {
		return err
	}
	if err := f.Remove(bg, attempt(2).Job); err != nil {
		return err
	}
	l.removed = true
	return nil
}

// check looks at what is there after a death, and goes on.
func (l *life) check(t *testing.T, f *Folder, lost loss) {
	t.Helper()
	log, err := f.OpenLog(bg, attempt(1))
	size, sealed := int64(0), false
	switch {
	case err == nil:
		size, sealed = log.Size(), log.Sealed()
		if got := whole(t, log); !bytes.Equal(got, l.text[:min(size, int64(len(l.text)))]) {
			t.Fatalf("the log has %d bytes that nobody wrote so", size)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	case !errors.Is(err, ErrNotKept):
		t.Fatal(err)
	}
	if lost == process && size < l.appended {
		t.Fatalf("the log has %d bytes, %d were answered", size, l.appended)
	}
	if l.sealed && !sealed || sealed && size != int64(len(l.text)) {
		t.Fatalf("the log has %d bytes, sealed: %v; its seal was answered: %v", size, sealed, l.sealed)
	}
	if found, err := f.look(attempt(1)); err != nil || l.fresh && (found[extLog] && (found[extZstd] || found[extDone]) || found[extTmp]) {
		t.Fatalf("there is %v, %v", found, err)
	}
	if !sealed {
		mustAppend(t, f, attempt(1), size, l.text[size:])
	}
	mustSeal(t, f, attempt(1))
	logIs(t, f, attempt(1), l.text, true)

	u := upload("a/b", l.file)
	list, err := f.Artifacts(bg, attempt(1))
	if err != nil || l.kept && len(list) != 1 || len(list) > 1 {
		t.Fatalf("artifacts: %v, %v", list, err)
	}
	n, err := f.Received(bg, attempt(1), u)
	if err != nil || lost == process && n < l.put {
		t.Fatalf("%d bytes of the artifact, %d were answered, %v", n, l.put, err)
	}
	if n, err = f.Put(bg, attempt(1), u, n, bytes.NewReader(l.file[n:])); err != nil || n != u.Size {
		t.Fatalf("put again: %d, %v", n, err)
	}
	artifactIs(t, f, attempt(1), u.Name, l.file)
	l.sealed, l.kept = true, true // Both were answered just now.
	if l.removed {
		if list, err := f.Artifacts(bg, attempt(2)); err != nil || len(list) != 0 {
			t.Fatalf("after a removal: %v, %v", list, err)
		}
	}
	if _, err := f.Sweep(bg, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestDeathAtAnyStepLosesNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	for kind, b := range map[string][]byte{"text": text(1, 5000), "noise": noise(1, 900)} {
		for lost := range losses {
			steps := 0
			for {
				l := &life{text: b, file: noise(2, 500)}
				d := newMemDisk()
				d.dieAt(steps + 1)
				f := openOn(t, d, Options{})
				err := l.live(f)
				where := fmt.Sprintf("%s, %s lost, dead at step %d: %v", kind, lost, steps, err)
				after := d.die(lost)
				ok := t.Run("", func(t *testing.T) {
					t.Log(where)
					l.fresh = true
					l.check(t, openOn(t, after, Options{}), lost)
					l.check(t, openOn(t, after.die(machine), Options{}), machine)
				})
				if err == nil || !ok {
					break
				}
				steps++
			}
			if steps < 40 {
				t.Errorf("%s: only %d steps", kind, steps)
			}
		}
	}
}

func TestStepThatFailsLosesNothing(t *testing.T) {
	t.Parallel()
	b, file := text(1, 5000), noise(2, 500)
	for steps := 0; ; steps++ {
		d := newMemDisk()
		n := 0
		d.before = func(op, name string) error {
			if n++; n == steps {
				return syscall.EIO
			}
			return nil
		}
		f := openOn(t, d, Options{})
		l := &life{text: b, file: file}
		err := l.live(f)
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatalf("step %d: %v", steps, err)
		}
		d.before = nil
		// The same depot goes on, and one that knows the disk alone.
		l.check(t, f, process)
		l.check(t, openOn(t, d.die(machine), Options{}), machine)
		if n < steps {
			if steps < 40 {
				t.Errorf("only %d steps", steps)
			}
			return
		}
	}
}

// storm does all there is to do, and gives the errors.
func storm(f *Folder) map[string]error {
	_, append1 := f.Append(bg, attempt(1), 3, text(1, 5000), 0)
	_, append2 := f.Append(bg, attempt(2), 0, text(1, 5000), 0)
	file := noise(1, 9000)
	_, put := f.Put(bg, attempt(1), upload("new", file), 0, bytes.NewReader(file))
	return map[string]error{"append": append1, "new log": append2, "put": put}
}

func TestFullDiskIsNamedAndLosesNothing(t *testing.T) {
	t.Parallel()
	file := noise(3, 200)
	for _, room := range []int64{0, 1, 1000, 4990} {
		d := newMemDisk()
		f := openOn(t, d, Options{})
		mustAppend(t, f, attempt(1), 0, []byte("one"))
		mustPut(t, f, attempt(1), "kept", file)
		d.room = room
		if size, err := f.Append(bg, attempt(4), 0, text(1, 5000), 0); size != room || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d: a new log has %d bytes, %v", room, size, err)
		}
		d.room = room
		for what, err := range storm(f) {
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), jobDir(attempt(1).Job)[:1]) || !strings.Contains(err.Error(), `depot "memory"`) {
				t.Errorf("%s: %v", what, err)
			}
		}
		size, err := f.Append(bg, attempt(1), 0, nil, 0)
		if size != min(3+room, 5003) || err != nil {
			t.Errorf("room for %d: the log has %d bytes, %v", room, size, err)
		}
		if err := f.Seal(bg, attempt(1)); size > 64 && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d: seal: %v", room, err)
		}
		logIs(t, f, attempt(1), append([]byte("one"), text(1, 5000)...)[:size], size <= 64)
		artifactIs(t, f, attempt(1), "kept", file)
		d.room = -1
		for what, err := range storm(f) {
			if err != nil && !errors.Is(err, ErrSealed) {
				t.Errorf("with room again: %s: %v", what, err)
			}
		}
		mustSeal(t, f, attempt(1))
		artifactIs(t, f, attempt(1), "new", noise(1, 9000))
	}
}

func TestReadOnlyDiskIsNamedAndCanBeRead(t *testing.T) {
	t.Parallel()
	d := newMemDisk()
	f := openOn(t, d, Options{})
	file, b := noise(3, 200), text(2, 10_000)
	mustAppend(t, f, attempt(1), 0, b)
	mustPut(t, f, attempt(1), "kept", file)
	mustAppend(t, f, attempt(3), 0, b)
	mustSeal(t, f, attempt(3))
	d.before = func(string, string) error { return syscall.EROFS }
	for range 2 {
		_, err := f.Append(bg, attempt(1), 10_000, []byte("x"), 0)
		errs := []error{err, f.Seal(bg, attempt(1)), f.Remove(bg, attempt(1).Job)}
		_, err = f.Put(bg, attempt(1), upload("new", file), 0, bytes.NewReader(file))
		for i, err := range append(errs, err) {
			if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), attempt(1).Job.String()) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		logIs(t, f, attempt(1), b, false)
		logIs(t, f, attempt(3), b, true)
		artifactIs(t, f, attempt(1), "kept", file)
		f = openOn(t, d, Options{}) // Whose memory is empty.
	}
}

func TestTimesThatCannotBeWrittenFailNoAppend(t *testing.T) {
	t.Parallel()
	d := newMemDisk()
	now := time.Now()
	f := openOn(t, d, Options{Now: func() time.Time { now = now.Add(time.Second); return now }})
	d.before = func(_, name string) error {
		if strings.HasSuffix(name, extTimes) || strings.HasSuffix(name, extTmp) {
			return syscall.ENOSPC
		}
		return nil
	}
	for i := range int64(3) {
		mustAppend(t, f, attempt(1), i, []byte("x"))
	}
	l := mustOpen(t, f, attempt(1))
	d.before = nil
	mustAppend(t, f, attempt(1), 3, []byte("x"))
	if again := mustOpen(t, openOn(t, d, Options{}), attempt(1)); !slices.Equal(again.Arrivals(), l.Arrivals()) || len(l.Arrivals()) != 4 {
		t.Errorf("in memory %v, on disk %v", l.Arrivals(), again.Arrivals())
	}
}

func TestDamageIsTold(t *testing.T) {
	t.Parallel()
	want := text(1, 3*frameSize)
	for name, spoil := range map[string]func(b []byte) []byte{
		"a frame": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"the end": func(b []byte) []byte { return b[:len(b)-1] },
		"all":     func([]byte) []byte { return nil },
		"table":   func(b []byte) []byte { b[len(b)-20] ^= 0xff; return b },
	} {
		d := newMemDisk()
		f := openOn(t, d, Options{})
		mustAppend(t, f, attempt(1), 0, want)
		mustSeal(t, f, attempt(1))
		n, err := d.find(attempt(1).place(extZstd))
		if err != nil {
			t.Fatal(err)
		}
		n.data = spoil(n.data)
		f = openOn(t, d, Options{})
		l, err := f.OpenLog(bg, attempt(1))
		if err == nil {
			_, err = io.ReadAll(io.NewSectionReader(l, 0, l.Size()))
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
