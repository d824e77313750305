package depot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/job"
)

func TestArtifactIsThereWhenItIsWhole(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	f := open(t, Options{Now: func() time.Time { return now }})
	at := attempt(1)
	want := noise(1, 500_000)
	u := upload("out/disk.img", want)
	received := int64(0)
	// In pieces that overlap; the second begins after the depot was opened anew.
	for i, end := range []int{0, 1, 200_000, 200_000, 499_999} {
		from := max(0, received-1000)
		var err error
		if received, err = f.Put(bg, at, u, from, bytes.NewReader(want[from:end])); received != int64(end) || err != nil {
			t.Fatalf("piece %d: %d, %v", i, received, err)
		}
		if n, err := f.Received(bg, at, u); n != received || err != nil {
			t.Errorf("piece %d: received %d, %v", i, n, err)
		}
		if list, err := f.Artifacts(bg, at); len(list) != 0 || err != nil {
			t.Errorf("piece %d: %v, %v", i, list, err)
		}
		_, _, err = f.OpenArtifact(bg, at, u.Name)
		wantIs(t, err, ErrNotKept)
		f = again(t, f)
	}
	_, err := f.Put(bg, at, u, received+1, bytes.NewReader(nil))
	if e := wantError[*GapError](t, err); e.Have != received {
		t.Errorf("%+v, want %d", e, received)
	}
	if n, err := f.Put(bg, at, u, received, bytes.NewReader(want[received:])); n != u.Size || err != nil {
		t.Fatal(n, err)
	}
	for range 2 {
		artifactIs(t, f, at, u.Name, want)
		list, err := f.Artifacts(bg, at)
		if d := cmp.Diff([]Artifact{{u, now}}, list); d != "" || err != nil {
			t.Error(d, err)
		}
		// Again, by a reader that must not be asked.
		if n, err := f.Put(bg, at, u, 0, iotest.ErrReader(errors.New("read"))); n != u.Size || err != nil {
			t.Errorf("a repeat: %d, %v", n, err)
		}
		if n, err := f.Received(bg, at, u); n != u.Size || err != nil {
			t.Errorf("received %d, %v", n, err)
		}
		f = again(t, f)
	}
	other := upload(u.Name, want[1:])
	_, err = f.Put(bg, at, other, 0, bytes.NewReader(want[1:]))
	if e := wantError[*TakenError](t, err); e.Kept.Upload != u {
		t.Errorf("%+v", e)
	}
	_, err = f.Received(bg, at, other)
	wantError[*TakenError](t, err)
	artifactIs(t, f, at, u.Name, want)
}

func TestWrongBytesAreDropped(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	want := noise(1, 1000)
	u := upload("a", want)
	wrong := bytes.Clone(want)
	wrong[10] ^= 1
	if n, err := f.Put(bg, at, u, 0, bytes.NewReader(wrong[:500])); n != 500 || err != nil {
		t.Fatal(n, err)
	}
	n, err := f.Put(bg, at, u, 500, bytes.NewReader(wrong[500:]))
	if e := wantError[*SumError](t, err); n != 0 || e.Want != u.Sum || e.Have != upload("a", wrong).Sum {
		t.Errorf("%d, %v", n, err)
	}
	n, err = f.Put(bg, at, u, 0, bytes.NewReader(append(bytes.Clone(want), 'x')))
	if e := wantError[*job.InvalidError](t, err); n != 0 || e.Field != "size" {
		t.Errorf("%d, %v", n, err)
	}
	for range 2 {
		if n, err := f.Received(bg, at, u); n != 0 || err != nil {
			t.Errorf("%d bytes stay, %v", n, err)
		}
		f = again(t, f)
	}
	mustPut(t, f, at, "a", want)
	mustPut(t, f, at, "empty", nil)
	artifactIs(t, f, at, "a", want)
	artifactIs(t, f, at, "empty", nil)
}

func TestAnotherDeclarationBeginsAnew(t *testing.T) {
	t.Parallel()
	f := open(t, Options{Limits: Limits{Files: 1}})
	at := attempt(1)
	one, two := noise(1, 1000), noise(2, 1000)
	if _, err := f.Put(bg, at, upload("a", one), 0, bytes.NewReader(one[:300])); err != nil {
		t.Fatal(err)
	}
	_, err := f.Put(bg, at, upload("a", two), 300, bytes.NewReader(two[300:]))
	if e := wantError[*GapError](t, err); e.Have != 0 {
		t.Errorf("%+v", e)
	}
	mustPut(t, f, at, "a", two)
	artifactIs(t, again(t, f), at, "a", two)
}

func TestLimitsOfArtifacts(t *testing.T) {
	t.Parallel()
	f := open(t, Options{Limits: Limits{File: 100, Bytes: 150, Files: 3}})
	at := attempt(1)
	refused := func(name string, size int) {
		t.Helper()
		b := make([]byte, size)
		_, err := f.Put(bg, at, upload(name, b), 0, bytes.NewReader(b))
		wantError[*LimitError](t, err)
	}
	refused("a", 101)
	mustPut(t, f, at, "a", make([]byte, 100))
	refused("b", 51)
	// What is declared counts, before it comes.
	if _, err := f.Put(bg, at, upload("b", make([]byte, 40)), 0, bytes.NewReader(nil)); err != nil {
		t.Fatal(err)
	}
	refused("c", 11)
	mustPut(t, f, at, "c", make([]byte, 10))
	refused("d", 0)
	f = again(t, f)
	refused("d", 0)
	mustPut(t, f, at, "b", make([]byte, 40))
	mustPut(t, f, attempt(2), "d", make([]byte, 100))
}

// slow gives its bytes when it is told to.
type slow struct {
	reading chan struct{} // told when somebody reads
	b       chan []byte
}

func (s *slow) Read(p []byte) (int, error) {
	s.reading <- struct{}{}
	b, ok := <-s.b
	if !ok {
		return 0, io.EOF
	}
	return copy(p, b), nil
}

// putSlowly puts b under name in two halves, and stands before the second one until it is told to go on.
func putSlowly(f *Folder, at Attempt, name string, b []byte) (goOn func() error) {
	s := &slow{make(chan struct{}, 3), make(chan []byte)}
	out := make(chan error)
	go func() {
		_, err := f.Put(bg, at, upload(name, b), 0, s)
		out <- err
	}()
	s.b <- b[:len(b)/2]
	for range 2 {
		<-s.reading
	}
	return func() error {
		s.b <- b[len(b)/2:]
		close(s.b)
		return <-out
	}
}

func TestSecondUploadOfANameIsBusy(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	want := noise(1, 1000)
	goOn := putSlowly(f, at, "a", want)
	if n, err := f.Received(bg, at, upload("a", want)); n != 500 || err != nil {
		t.Errorf("received %d, %v", n, err)
	}
	for _, b := range [][]byte{want, noise(2, 100)} {
		// Not fatal: the other call must come to its end.
		if _, err := f.Put(bg, at, upload("a", b), 0, bytes.NewReader(b)); !errors.Is(err, ErrBusy) {
			t.Errorf("a second upload: %v", err)
		}
	}
	if _, err := f.Put(bg, at, upload("b", want), 0, bytes.NewReader(want)); err != nil {
		t.Error(err)
	}
	if n, err := f.Sweep(bg, time.Now().Add(time.Hour)); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if err := goOn(); err != nil {
		t.Fatal(err)
	}
	artifactIs(t, f, at, "a", want)
}

func TestManyUploadsAtOnce(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	var all sync.WaitGroup
	names := []string{"a", "b", "c/d", "c/e"}
	for w := range 12 {
		all.Go(func() {
			name := names[w%len(names)]
			b := noise(uint64(w%len(names)), 300_000)
			for {
				_, err := f.Put(bg, attempt(1), upload(name, b), 0, bytes.NewReader(b))
				if err == nil {
					return
				}
				if !errors.Is(err, ErrBusy) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for i, name := range names {
		artifactIs(t, f, attempt(1), name, noise(uint64(i), 300_000))
	}
}

func TestReaderThatFailsLosesNothing(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	want := noise(1, 300_000)
	u := upload("a", want)
	broken := errors.New("the line broke")
	n, err := f.Put(bg, at, u, 0, io.MultiReader(bytes.NewReader(want[:1000]), iotest.ErrReader(broken)))
	if wantIs(t, err, broken); n != 1000 {
		t.Errorf("%d bytes", n)
	}
	ctx, cancel := context.WithCancel(bg)
	n, err = f.Put(ctx, at, u, 1000, io.MultiReader(bytes.NewReader(want[1000:2000]), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, nil
	})))
	if wantIs(t, err, context.Canceled); n != 2000 {
		t.Errorf("%d bytes", n)
	}
	if n, err = f.Put(bg, at, u, 2000, iotest.OneByteReader(bytes.NewReader(want[2000:]))); n != u.Size || err != nil {
		t.Fatal(n, err)
	}
	artifactIs(t, f, at, "a", want)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestRemoveTakesAllOfAJob(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	second := Attempt{at.Job, 2}
	neighbour := Attempt{job.ID{2, 15: 1}, 1} // On the same shelf.
	want := text(1, 10_000)
	for _, a := range []Attempt{at, second, neighbour} {
		mustAppend(t, f, a, 0, want)
		mustPut(t, f, a, "a", want)
	}
	mustSeal(t, f, second)
	l := mustOpen(t, f, second)
	r, _, err := f.OpenArtifact(bg, at, "a")
	if err != nil {
		t.Fatal(err)
	}
	goOn := putSlowly(f, at, "late", want)
	for range 2 {
		if err := f.Remove(bg, at.Job); err != nil {
			t.Fatal(err)
		}
	}
	wantIs(t, goOn(), ErrNotKept)
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, want) || !bytes.Equal(whole(t, l), want) {
		t.Errorf("what was open cannot be read to its end: %v", err)
	}
	for _, a := range []Attempt{at, second} {
		_, err := f.OpenLog(bg, a)
		wantIs(t, err, ErrNotKept)
		if list, err := f.Artifacts(bg, a); len(list) != 0 || err != nil {
			t.Errorf("%v, %v", list, err)
		}
		_, err = f.Append(bg, a, 10_000, []byte("x"), 0)
		wantError[*GapError](t, err)
	}
	logIs(t, f, neighbour, want, false)
	held, total, err := f.List(bg)
	if err != nil || len(held) != 1 || held[0].Job != neighbour.Job || total != held[0].Bytes || total < 20_000 {
		t.Errorf("%+v, %d, %v", held, total, err)
	}
	if d := cmp.Diff([]int32{1}, held[0].Open); d != "" {
		t.Error(d)
	}
	// What comes begins anew.
	mustAppend(t, f, at, 0, []byte("x"))
	logIs(t, f, at, []byte("x"), false)
}

func TestListIsInOrderOfAge(t *testing.T) {
	t.Parallel()
	d := newMemDisk()
	f := openOn(t, d, Options{})
	base := time.Now()
	for i, age := range []int{3, 9, 1} {
		mustAppend(t, f, attempt(byte(i+1)), 0, []byte("x"))
		n, err := d.find(jobDir(attempt(byte(i + 1)).Job))
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range n.dir {
			child.mod = base.Add(-time.Duration(age) * time.Hour)
		}
	}
	held, total, err := f.List(bg)
	if err != nil || total != 3*(1+24) {
		t.Errorf("%d bytes, %v", total, err)
	}
	var order []byte
	for _, h := range held {
		order = append(order, h.Job[15])
	}
	if d := cmp.Diff([]byte{2, 1, 3}, order); d != "" {
		t.Error(d)
	}
}

func TestSweepTakesOldUploadsAndRemains(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	at := attempt(1)
	b := noise(1, 100)
	mustPut(t, f, at, "kept", b)
	if _, err := f.Put(bg, at, upload("part", b), 0, bytes.NewReader(b[:50])); err != nil {
		t.Fatal(err)
	}
	gone := jobDir(attempt(2).Job) + extGone
	if err := makeDirs(f.disk, gone); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Sweep(bg, time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if _, err := f.disk.List(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the remains of a removal: %v", err)
	}
	if n, err := f.Sweep(bg, time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if n, err := f.Received(bg, at, upload("part", b)); n != 0 || err != nil {
		t.Errorf("%d bytes of what was swept, %v", n, err)
	}
	artifactIs(t, f, at, "kept", b)
	mustPut(t, f, at, "part", b)
}

func TestClosedDepotRefuses(t *testing.T) {
	t.Parallel()
	f := open(t, Options{})
	mustAppend(t, f, attempt(1), 0, text(1, 100_000))
	mustSeal(t, f, attempt(1))
	l := mustOpen(t, f, attempt(1))
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(whole(t, l), text(1, 100_000)) {
		t.Error("a log that was open reads otherwise")
	}
	u := upload("a", nil)
	_, err1 := f.Append(bg, attempt(1), 0, nil, 0)
	_, err2 := f.OpenLog(bg, attempt(1))
	_, _, err3 := f.Wait(bg, attempt(1), 0)
	_, err4 := f.Put(bg, attempt(1), u, 0, strings.NewReader(""))
	_, err5 := f.Received(bg, attempt(1), u)
	_, err6 := f.Artifacts(bg, attempt(1))
	_, _, err7 := f.OpenArtifact(bg, attempt(1), "a")
	_, _, err8 := f.List(bg)
	_, err9 := f.Sweep(bg, time.Now())
	for i, err := range []error{f.Seal(bg, attempt(1)), err1, err2, err3, err4, err5, err6, err7, err8, err9, f.Remove(bg, attempt(1).Job)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
