package depot

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"sort"
	"time"

	"github.com/headrace/headrace/job"
)

// Attempt names one run of a job. Its job's id is not zero, and its number not negative.
type Attempt struct {
	Job    job.ID
	Number int32
}

// String gives the id and the number, as in 0190163d-8694-739b-aea5-966c26f8ad91/2.
func (a Attempt) String() string { return fmt.Sprintf("%s/%d", a.Job, a.Number) }

func (a Attempt) check() error {
	switch {
	case a.Job.IsZero():
		return &job.InvalidError{Field: "job", Want: "want an id that is not zero"}
	case a.Number < 0:
		return &job.InvalidError{Field: "attempt", Want: fmt.Sprintf("%d: want no negative number", a.Number)}
	}
	return nil
}

// Logs keeps what attempts write, as plain bytes: one log an attempt. All methods may be called at once, for one attempt
// too; what changes one log comes one after the other.
type Logs interface {
	// Append adds a chunk whose first byte stands at the offset, counted from 0, and gives the size of the log after it.
	// What is there already is not written again and not compared, so that a repeat, or a chunk that overlaps what is
	// there, is harmless. The chunk is not kept.
	//
	// The size is right with an error of the list below, too; a call that did not come to look at the log (its context ended,
	// ErrClosed, *job.InvalidError) gives 0. Errors: *GapError if the offset is beyond the size; *LimitError if the log
	// would grow beyond the limit in bytes (0: the keeper's own limit alone), after what fits was appended; ErrSealed if
	// the log is sealed and the chunk is not all there; *job.InvalidError for an offset below 0. A cause such as
	// syscall.ENOSPC is wrapped.
	//
	// A log is a witness and not state: it outlives the process, however that ends, but is safe from the end of the
	// machine only once it is sealed.
	Append(ctx context.Context, at Attempt, offset int64, chunk []byte, limit int64) (size int64, err error)
	// Seal says that the attempt is over: nothing is appended any more. The log is kept smaller from then on, and
	// safely: when Seal returns nil, it survives the end of the machine (of a log that is kept as it was, perhaps without its
	// arrivals). An attempt that wrote nothing gets an empty log.
	// To seal again is harmless.
	Seal(ctx context.Context, at Attempt) error
	// OpenLog gives the log to read, which the caller closes. Errors: ErrNotKept, ErrDamaged.
	OpenLog(ctx context.Context, at Attempt) (Log, error)
	// Wait returns when the log is longer than the offset or is sealed, and tells which. It waits for a log that has not
	// begun, too, if the offset is 0. Errors: ErrNotKept if the log is removed, or if there is none and the offset is not
	// 0; the context's; ErrClosed.
	Wait(ctx context.Context, at Attempt, offset int64) (size int64, sealed bool, err error)
}

// Log is one log to read, from several goroutines at once. It can be read to its end also after it was removed, and is the
// same before and after its seal.
type Log interface {
	// ReaderAt reads what had been appended at the time of the call; at its end it gives io.EOF. It wraps ErrDamaged if what is
	// kept cannot be read.
	io.ReaderAt
	io.Closer
	// Size is how many bytes there are now.
	Size() int64
	// Sealed reports whether nothing more can come.
	Sealed() bool
	// Arrivals tells when what was read came in, in order. The slice is the caller's.
	Arrivals() []Arrival
}

// Arrival says that the bytes from the offset on came in at that time, by the clock of the server, to the millisecond. Bytes
// of at least a tenth of a second share one, and of longer the longer the log is written to; so the true time of a byte
// may be a little later. Times never go back.
type Arrival struct {
	Offset int64
	Time   time.Time
}

// When tells when the byte at the offset came in; false if that is not known. The arrivals are in order.
func When(arrivals []Arrival, offset int64) (time.Time, bool) {
	n := sort.Search(len(arrivals), func(i int) bool { return arrivals[i].Offset > offset })
	if n == 0 {
		return time.Time{}, false
	}
	return arrivals[n-1].Time, true
}

// Artifacts keeps files that attempts upload, by name. All methods may be called at once, for one attempt too.
type Artifacts interface {
	// Put takes bytes of a file from the offset on, until r ends, and gives how many of the file's bytes are there now.
	// That may be fewer than the file has: another call goes on. It is right with an error, too, unless the call did not come to look. Once all are there and
	// right, the file is visible at once and as a whole, and survives the end of the machine; until then only Received
	// tells of it, and after the end of the machine it may be less than was told. What is there already is read from r
	// and dropped.
	//
	// To put a file that is kept is harmless; r is not read then. A declared size or sum other than that of an unfinished
	// upload begins anew. r is read without a lock; a call ends when its context does, as soon as r lets it.
	//
	// Errors: *job.InvalidError for a bad name, size or offset; *GapError if the offset is beyond what is there; *LimitError;
	// *SumError if the bytes are not those of the sum, and *job.InvalidError if they are too many (all are dropped then);
	// *TakenError if another file is kept under the name; ErrBusy while another call puts it; ErrNotKept if the job is
	// removed meanwhile. A cause such as syscall.ENOSPC, or an error of r, is wrapped.
	Put(ctx context.Context, at Attempt, u Upload, offset int64, r io.Reader) (received int64, err error)
	// Received tells how many bytes of such a file are there: all if it is kept, none if it is not begun. Errors:
	// *TakenError, *job.InvalidError.
	Received(ctx context.Context, at Attempt, u Upload) (int64, error)
	// Artifacts lists what is kept of the attempt, by name; none is no error. The slice is the caller's.
	Artifacts(ctx context.Context, at Attempt) ([]Artifact, error)
	// OpenArtifact gives a file to read, which the caller closes. It can be read to its end also after it was removed.
	// Errors: ErrNotKept.
	OpenArtifact(ctx context.Context, at Attempt, name string) (io.ReadSeekCloser, Artifact, error)
}

// Sum is the SHA-256 of a file.
type Sum [sha256.Size]byte

// Upload is a file as it is declared: its name (see CheckName), size in bytes and sum.
type Upload struct {
	Name string
	Size int64
	Sum  Sum
}

// Artifact is a file that is kept. Time is when the last of it came in, by the clock of the server.
type Artifact struct {
	Upload
	Time time.Time
}

// Keeper lists and removes what is kept.
type Keeper interface {
	// Remove removes all logs and artifacts of the job; nothing there is no error. Whoever waits for one of its logs gets
	// ErrNotKept, and so does an upload. Once it is called for a job, nothing should come for that any more: what
	// comes begins anew.
	Remove(ctx context.Context, id job.ID) error
	// List lists the jobs of which anything is kept, what was changed longest ago first, and how many bytes that is in
	// all. It looks at every file. The slice is the caller's.
	List(ctx context.Context) (held []Holding, total int64, err error)
	// Sweep removes uploads to which nothing came since before, and remains of what was interrupted; it gives how many
	// uploads. An upload under way stays.
	Sweep(ctx context.Context, before time.Time) (uploads int, err error)
}

// Holding is what is kept of one job.
type Holding struct {
	Job     job.ID
	Bytes   int64     // as the files are on disk, unfinished uploads included
	Changed time.Time // when anything of it was last written
	Open    []int32   // attempts whose logs are not sealed, in order
}

// Limits bound what is kept. Zero means the default.
type Limits struct {
	Log   int64 // bytes of one log; 4 GiB by default
	File  int64 // bytes of one artifact; 8 GiB by default
	Bytes int64 // bytes of all artifacts of an attempt, as declared, unfinished ones included; 32 GiB by default
	Files int   // artifacts of an attempt, unfinished ones included; 1,000 by default
}

func (l Limits) orDefault() Limits {
	or := func(n *int64, d int64) {
		if *n <= 0 {
			*n = d
		}
	}
	or(&l.Log, 4<<30)
	or(&l.File, 8<<30)
	or(&l.Bytes, 32<<30)
	if l.Files <= 0 {
		l.Files = 1000
	}
	l.Log = min(l.Log, math.MaxInt64/2)
	return l
}
