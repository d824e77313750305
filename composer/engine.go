package composer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// engine is what a JobQueue stands on: a *queue.Queue, in each of its parts, or whatever speaks for one that runs elsewhere.
type engine struct {
	submitter
	giver
	workings
	registrar
}

// submitter takes jobs in, and takes them away.
type submitter interface {
	Submit(ctx context.Context, s queue.Submission) (queue.Receipt, error)
	CancelJob(ctx context.Context, id, of job.ID, force bool, why string) error
	FailJob(ctx context.Context, id job.ID, why string, result []byte) error
	DeleteUnder(ctx context.Context, above []job.ID, ids ...job.ID) error
	Channel(ctx context.Context, name string) (job.Channel, error)
	SetChannel(ctx context.Context, c job.Channel) error
}

// giver hands jobs out, and knows who has them.
type giver interface {
	Lease(ctx context.Context, name string, session job.ID, want int, load float64) ([]queue.Assignment, error)
	Take(ctx context.Context, name string, session, id job.ID) (queue.Assignment, error)
	LeaseOf(ctx context.Context, id job.ID) (queue.Held, error)
	LeaseBy(ctx context.Context, token job.Token) (queue.Held, error)
	Standing(name string, wake func()) (standing queue.Standing, forget func(), err error)
	Resume(ctx context.Context, leases ...job.Lease) ([]queue.Assignment, error)
}

// workings are what becomes of a job that was handed out.
type workings interface {
	Heartbeat(ctx context.Context, beats ...queue.Beat) ([]error, error)
	Lost(ctx context.Context, channel string, silent time.Duration) ([]job.Lease, error)
	Progress(ctx context.Context, l job.Lease, result []byte) error
	Finish(ctx context.Context, f job.Report) error
}

// registrar keeps the workers.
type registrar interface {
	Register(ctx context.Context, w job.Worker, running ...job.Lease) error
	RemoveWorker(ctx context.Context, name string, force bool) error
	Workers(ctx context.Context) ([]queue.WorkerView, error)
}

// Patience is how long a call is repeated that the engine could not store, or that met it while it loaded its state anew: the store is
// gone, full, or restarted. Then the caller is told. Dequeue has its ctx, and goes on until that ends.
const Patience = 30 * time.Second

// The pauses between repeats.
const (
	firstPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// steadily calls f until it reports anything but that it may be tried again, for as long as Patience. What f changes happens once:
// it is given a context with a request id.
func steadily(ctx context.Context, f func(context.Context) error) error {
	return repeatedly(queue.WithRequest(ctx, job.ID(uuid.New())), f)
}

// repeatedly is steadily for what changes nothing, or nothing more when it is repeated: the engine keeps no answer to it, which
// would cost a row of the store, and to look for one each time.
func repeatedly(ctx context.Context, f func(context.Context) error) error {
	patient, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	err := untilDone(patient, f)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return &queue.RetryError{Cause: errPatience}
	}
	return err
}

// turn is a caller without a context who waits for others, for as long as Patience in all, however many there are.
type turn struct{ over <-chan time.Time }

// behind waits for somebody else to end. Error: *queue.RetryError.
func (t *turn) behind(other <-chan struct{}) error {
	if t.over == nil {
		t.over = time.After(Patience)
	}
	select {
	case <-other:
		return nil
	case <-t.over:
		return &queue.RetryError{Cause: errPatience}
	}
}

var errPatience = errors.New("the engine does not answer")

// untilDone does so for as long as ctx lasts, and then gives the last reason to try again, if there was one.
func untilDone(ctx context.Context, f func(context.Context) error) error {
	var last *queue.RetryError
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := f(ctx)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) && last != nil {
			return last
		}
		if !errors.As(err, &last) || errors.Is(err, queue.ErrClosed) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// look reads the history, and again for as long as Patience if that fails while the engine goes on: once it has ended, whoever owns both
// has closed the store.
func look[T any](ctx context.Context, e giver, f func(context.Context) (T, error)) (T, error) {
	return read(ctx, func(ctx context.Context) (T, error) {
		v, err := f(ctx)
		if err == nil || errors.Is(err, queue.ErrNotFound) {
			return v, err
		}
		if _, gone := e.LeaseBy(ctx, job.Token{}); errors.Is(gone, queue.ErrClosed) {
			return v, gone
		}
		return v, &queue.RetryError{Cause: err}
	})
}

// read is repeatedly for what gives a value.
func read[T any](ctx context.Context, f func(context.Context) (T, error)) (v T, err error) {
	err = repeatedly(ctx, func(ctx context.Context) error {
		v, err = f(ctx)
		return err
	})
	return v, err
}
