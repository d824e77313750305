package depot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/job"
)

func TestAppendIsIdempotentByOffset(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	steps := []struct {
		offset int64
		chunk  string
		size   int64
	}{
		{0, "", 0}, {0, "hello ", 6}, {0, "hello ", 6}, {2, "llo", 6}, {4, "o world", 11}, {11, "", 11}, {0, "hello world\n", 12},
	}
	for _, s := range steps {
		size, err := f.Append(bg, at, s.offset, []byte(s.chunk), 0)
		if size != s.size || err != nil {
			t.Fatalf("%q at %d: size %d, %v; want %d", s.chunk, s.offset, size, err, s.size)
		}
	}
	size, err := f.Append(bg, at, 13, []byte("x"), 0)
	if e := wantError[*GapError](t, err); size != 12 || e.Have != 12 || e.Offset != 13 {
		t.Errorf("size %d, %+v", size, e)
	}
	for _, offset := range []int64{-1, 1<<63 - 1} {
		_, err = f.Append(bg, at, offset, []byte("x"), 0)
		wantError[*job.InvalidError](t, err)
	}
	_, err = f.Append(bg, Attempt{}, 0, nil, 0)
	wantError[*job.InvalidError](t, err)
	_, err = f.Append(bg, Attempt{at.Job, -1}, 0, nil, 0)
	wantError[*job.InvalidError](t, err)
	logIs(t, f, at, []byte("hello world\n"), false)
}

func TestLimitAppendsWhatFits(t *testing.T) {
	t.Parallel()
	f := open(t, Options{Limits: Limits{Log: 20}})
	at := attempt(1)
	mustAppend(t, f, at, 0, []byte("12345"))
	size, err := f.Append(bg, at, 5, []byte("6789abc"), 9)
	if e := wantError[*LimitError](t, err); size != 9 || e.Limit != 9 {
		t.Errorf("size %d, %v", size, err)
	}
	size, err = f.Append(bg, at, 9, []byte("x"), 7)
	if wantError[*LimitError](t, err); size != 9 {
		t.Errorf("with a limit below the size: %d, %v", size, err)
	}
	if size, err = f.Append(bg, at, 2, []byte("3456"), 7); size != 9 || err != nil {
		t.Errorf("a repeat: %d, %v", size, err)
	}
	size, err = f.Append(bg, at, 9, make([]byte, 100), 50)
	if e := wantError[*LimitError](t, err); size != 20 || e.Limit != 20 {
		t.Errorf("beyond the depot's own limit: %d, %v", size, err)
	}
}

func TestSealedLogTakesRepeatsOnly(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{"text": text(1, 3*frameSize+7), "noise": noise(1, 1000), "empty": nil, "short": []byte("x")} {
		f := open(t, Options{})
		at := attempt(1)
		mustAppend(t, f, at, 0, b)
		before := mustOpen(t, f, at)
		for range 2 {
			mustSeal(t, f, at)
		}
		mustAppend(t, f, at, int64(len(b)/2), b[len(b)/2:])
		size, err := f.Append(bg, at, int64(len(b)), []byte("more"), 0)
		if wantIs(t, err, ErrSealed); size != int64(len(b)) {
			t.Errorf("%s: size %d", name, size)
		}
		_, err = f.Append(bg, at, int64(len(b))+1, nil, 0)
		wantError[*GapError](t, err)
		logIs(t, f, at, b, true)
		if !bytes.Equal(whole(t, before), b) || !before.Sealed() {
			t.Errorf("%s: who had the log open reads something else, or does not see the seal", name)
		}
		logIs(t, again(t, f), at, b, true)
	}
}

// again closes a depot and opens it anew.
func again(t testing.TB, f *Folder) *Folder {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(f.dir, Options{Limits: f.limits, Now: f.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestSealOfAnAttemptThatWroteNothing(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	_, err := f.OpenLog(bg, attempt(1))
	wantIs(t, err, ErrNotKept)
	wantIs(t, err, fs.ErrNotExist)
	mustSeal(t, f, attempt(1))
	logIs(t, f, attempt(1), nil, true)
	_, err = f.Append(bg, attempt(1), 0, []byte("late"), 0)
	wantIs(t, err, ErrSealed)
}

// sizes gives the files of an attempt by extension.
func sizes(t testing.TB, f *Folder, at Attempt) map[string]int64 {
	t.Helper()
	infos, err := f.disk.List(jobDir(at.Job))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, info := range infos {
		_, ext, _ := parseEntry(info.Name())
		out[ext] = info.Size()
	}
	return out
}

func TestSealNeverCostsMore(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	n := byte(0)
	for _, size := range []int{0, 1, 10, 63, 64, 100, 300, 1000, 4096, 5000, frameSize, frameSize + 1, 2*frameSize + 100} {
		for kind, b := range map[string][]byte{"text": text(uint64(size), size), "noise": noise(2, size)} {
			n++
			at := attempt(n)
			mustAppend(t, f, at, 0, b)
			plain := sizes(t, f, at)
			mustSeal(t, f, at)
			sealed := sizes(t, f, at)
			if sealed[extLog]+sealed[extTmp] != 0 || sum(sealed) > sum(plain) || len(sealed) > len(plain) {
				t.Errorf("%s, %d bytes: before the seal %v, after it %v", kind, size, plain, sealed)
			}
			if kind == "text" && size >= 1000 && sum(sealed)*2 > int64(size) {
				t.Errorf("%d bytes of text: %v", size, sealed)
			}
			logIs(t, f, at, b, true)
		}
	}
}

func sum(sizes map[string]int64) (n int64) {
	for _, size := range sizes {
		n += size
	}
	return n
}

func TestReadsAnyRangeOfALog(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	want := text(5, 3*frameSize+1234)
	mustAppend(t, f, at, 0, want)
	plain := mustOpen(t, f, at)
	mustSeal(t, f, at)
	sealed := mustOpen(t, f, at)
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range []Log{plain, sealed} {
		for range 300 {
			from := r.IntN(len(want) + 10)
			b := make([]byte, r.IntN(2*frameSize))
			n, err := l.ReadAt(b, int64(from))
			rest := want[min(from, len(want)):]
			if n != min(len(b), len(rest)) || !bytes.Equal(b[:n], rest[:n]) || (n < len(b)) != errors.Is(err, io.EOF) {
				t.Fatalf("%d from %d: %d, %v", len(b), from, n, err)
			}
		}
	}
}

func TestRangeAtTheEndDecodesFewFrames(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	want := text(6, 20*frameSize+100)
	mustAppend(t, f, at, 0, want)
	mustSeal(t, f, at)
	l := mustOpen(t, f, at)
	b := make([]byte, 64<<10)
	if _, err := l.ReadAt(b, int64(len(want)-len(b))); err != nil {
		t.Fatal(err)
	}
	if s := l.(*openLog).src.ReaderAt.(*seekable); s.decoded > 2 || !bytes.Equal(b, want[len(want)-len(b):]) {
		t.Errorf("%d of %d frames were decoded", s.decoded, len(s.offsets)-1)
	}
}

func TestWaitSeesBytesSealAndRemoval(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	type answer struct {
		size   int64
		sealed bool
		err    error
	}
	follow := func(ctx context.Context, offset int64) <-chan answer {
		out := make(chan answer, 1)
		go func() {
			size, sealed, err := f.Wait(ctx, at, offset)
			out <- answer{size, sealed, err}
		}()
		return out
	}
	first := follow(bg, 0) // Nothing is there yet.
	mustAppend(t, f, at, 0, []byte("one\n"))
	if a := <-first; a != (answer{4, false, nil}) {
		t.Errorf("first bytes: %+v", a)
	}
	ctx, cancel := context.WithCancel(bg)
	gone := follow(ctx, 4)
	cancel()
	wantIs(t, (<-gone).err, context.Canceled)
	sealed := follow(bg, 4)
	mustSeal(t, f, at)
	if a := <-sealed; a != (answer{4, true, nil}) {
		t.Errorf("seal: %+v", a)
	}
	at = attempt(2)
	mustAppend(t, f, at, 0, []byte("one\n"))
	removed := follow(bg, 4)
	if err := f.Remove(bg, at.Job); err != nil {
		t.Fatal(err)
	}
	wantIs(t, (<-removed).err, ErrNotKept)
	closed := follow(bg, 0)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wantIs(t, (<-closed).err, ErrClosed)
}

func TestThousandsFollowOneLog(t *testing.T) {
	t.Parallel()
	// Virtual time stands still while somebody polls or runs: if all wait, they wait for bytes alone.
	synctest.Test(t, func(t *testing.T) {
		f := openOn(t, newMemDisk(), Options{})
		var all sync.WaitGroup
		const followers, lines = 3000, 5
		for range followers {
			all.Go(func() {
				offset, sealed := int64(0), false
				for !sealed {
					var err error
					if offset, sealed, err = f.Wait(t.Context(), attempt(1), offset); err != nil {
						t.Error(err)
						return
					}
				}
				if offset != lines {
					t.Errorf("a follower ended at %d", offset)
				}
			})
		}
		start := time.Now()
		for i := range int64(lines) {
			synctest.Wait()
			mustAppend(t, f, attempt(1), i, []byte("\n"))
		}
		synctest.Wait()
		mustSeal(t, f, attempt(1))
		all.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v of virtual time", took)
		}
	})
}

func TestArrivalsAreFewAndLast(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	f := open(t, Options{Now: func() time.Time { return now }})
	at := attempt(1)
	begin := now
	size := int64(0)
	put := func(step time.Duration) {
		now = now.Add(step)
		mustAppend(t, f, at, size, []byte("0123456789"))
		size += 10
	}
	for _, step := range []time.Duration{0, 10, 89, 1, 99, 1, -500, 499, 100} {
		put(step * time.Millisecond)
	}
	want := []Arrival{{0, begin}, {30, begin.Add(100 * time.Millisecond)}, {50, begin.Add(200 * time.Millisecond)}, {80, begin.Add(299 * time.Millisecond)}}
	// The last step is 99 ms after the entry before it by the clock, as that was set back.
	want = want[:3]
	arrivals := func(f *Folder) []Arrival {
		l := mustOpen(t, f, at)
		return l.Arrivals()
	}
	if d := cmp.Diff(want, arrivals(f)); d != "" {
		t.Error(d)
	}
	for _, l := range []struct {
		offset int64
		want   time.Time
	}{{0, begin}, {29, begin}, {30, want[1].Time}, {1000, want[2].Time}} {
		if got, ok := When(want, l.offset); got != l.want || !ok {
			t.Errorf("byte %d came at %v, %v; want %v", l.offset, got, ok, l.want)
		}
	}
	if _, ok := When(nil, 5); ok {
		t.Error("an empty ledger knows a time")
	}
	for range 3 * maxArrivals {
		put(100 * time.Millisecond)
	}
	full := arrivals(f)
	if len(full) > maxArrivals || len(full) < maxArrivals/2 {
		t.Errorf("%d entries", len(full))
	}
	last := full[len(full)-1]
	if late := now.Sub(last.Time); late > 2*time.Second {
		t.Errorf("the last entry is %v old", late)
	}
	if n := sizes(t, f, at)[extTimes]; n > 64<<10+16 {
		t.Errorf("the times have %d bytes", n)
	}
	f = again(t, f)
	if d := cmp.Diff(full, arrivals(f)); d != "" {
		t.Error(d)
	}
	mustSeal(t, f, at)
	f = again(t, f)
	if d := cmp.Diff(full, arrivals(f)); d != "" {
		t.Error(d)
	}
}

func TestManyWritersOfOneLogAndOthers(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	want := text(3, 200_000)
	var all sync.WaitGroup
	for w := range 8 {
		for n := range byte(3) {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), uint64(n)))
				size := int64(0)
				for size < int64(len(want)) {
					end := min(size+int64(r.IntN(5000)), int64(len(want)))
					from := max(0, size-int64(r.IntN(3000)))
					var err error
					if size, err = f.Append(bg, attempt(n), from, want[from:end], 0); err != nil {
						t.Error(err)
						return
					}
				}
				if err := f.Seal(bg, attempt(n)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for n := range byte(3) {
		logIs(t, f, attempt(n), want, true)
	}
}

func TestMoreAttemptsThanAreRemembered(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	const n = maxIdle + 50
	name := func(i int) Attempt { return Attempt{job.ID{9, 14: byte(i >> 8), 15: byte(i)}, 2} }
	for round := range int64(2) {
		for i := range n {
			mustAppend(t, f, name(i), 5*round, []byte("line\n"))
		}
	}
	for i := range n {
		logIs(t, f, name(i), []byte("line\nline\n"), false)
	}
	if len(f.entries) > maxIdle || f.idle.Len() != len(f.entries) {
		t.Errorf("%d attempts are remembered, %d idle", len(f.entries), f.idle.Len())
	}
}

func TestOneProcessHasTheFolder(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	_, err := Open(f.dir, Options{})
	wantIs(t, err, ErrInUse)
	if !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("%v does not name this process", err)
	}
	again(t, f)
}

func TestFilesAreNobodyElses(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	mustAppend(t, f, attempt(1), 0, []byte("x"))
	mustPut(t, f, attempt(1), "a", []byte("b"))
	mustAppend(t, f, attempt(2), 0, text(1, 10000))
	mustSeal(t, f, attempt(2))
	err := filepath.WalkDir(f.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || name == f.dir {
			return err
		}
		if extra := info.Mode().Perm() &^ map[bool]fs.FileMode{true: 0o750, false: 0o640}[d.IsDir()]; extra != 0 {
			t.Errorf("%s has %v", name, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// writerEnv makes the test binary append to a log in the folder that it names, until it is killed.
const writerEnv = "HEADRACE_TEST_DEPOT"

// counted is no two times the same within four bytes.
func counted(size int) []byte {
	b := make([]byte, 0, size)
	for i := range uint32(size / 4) {
		b = binary.BigEndian.AppendUint32(b, i)
	}
	return b
}

func writeUntilKilled(dir string) {
	f, err := Open(dir, Options{})
	if err != nil {
		panic(err)
	}
	all := counted(16 << 20)
	size, err := f.Append(bg, attempt(1), 0, nil, 0)
	for err == nil && size < int64(len(all)) {
		end := min(size+301, int64(len(all)))
		if size, err = f.Append(bg, attempt(1), size, all[size:end], 0); err == nil {
			_, err = os.Stdout.WriteString(strconv.FormatInt(size, 10) + "\n")
		}
	}
	panic(err)
}

func TestKilledWriterLosesNothingThatWasAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := counted(16 << 20)
	told := int64(0)
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 8*(20+37*round))
		n, err := io.ReadAtLeast(out, b, len(b)/2)
		if err := errors.Join(err, cmd.Process.Kill()); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer was not killed")
		}
		answers := strings.Split(string(append(b[:n], rest...)), "\n")
		if len(answers) < 2 {
			t.Fatal("no answers")
		}
		if told, err = strconv.ParseInt(answers[len(answers)-2], 10, 64); err != nil {
			t.Fatal(err)
		}
		f, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, f, attempt(1))
		if size := l.Size(); size < told || !bytes.Equal(whole(t, l), all[:size]) {
			t.Errorf("round %d: %d bytes, %d were answered", round, size, told)
		}
		if err := errors.Join(l.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
