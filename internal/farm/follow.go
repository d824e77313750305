package farm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Member is a job of a graph that somebody follows.
type Member struct {
	Name     string
	Optional bool
	// Needs has the places, in the graph, of the jobs whose success it needs.
	Needs []int
}

// Follow tells how a build goes on, until it has ended.
type Follow struct {
	Client *api.Client
	Build  job.ID
	// Members are the jobs of the graph, and Receipt says which job stands for each.
	Members []Member
	Receipt []api.Submitted
	// Round is the cursor of the events that tell of them.
	Round uint64
	// Tell gets the events, in order.
	Tell func(progress.Event)
	// OnFailure is called at the first job that counts and did not succeed; nil: nothing is to be done then.
	OnFailure func(name string)
	// Linger: what runs when the build ends is waited for. It may be set by OnFailure.
	Linger bool
	// See says how to see the whole log of a job that did not succeed; nil: it is not told.
	See func(id job.ID) string
	// GiveUp is for how long the server may be away; 0: ten minutes.
	GiveUp time.Duration

	last   []glimpse
	roots  []job.ID
	places map[job.ID][]int
	failed bool
	left   int
	moved  time.Time // when there was news
	told   string    // why nothing runs, as it was told last
	tails  int       // how many logs were looked at
}

// glimpse is what was last seen of a job.
type glimpse struct {
	attempt int32 // that has begun, and
	retried int32 // that another is to follow, as was told
	start   time.Time
	running bool
	done    bool
}

// Counts gives how many jobs have ended how, how many were found done, and how many have not ended.
type Counts struct {
	Ends   map[string]int
	Reused int
	Left   int
	// Failed: one that counts did not succeed.
	Failed bool
}

const (
	lookEvery = 500 * time.Millisecond
	// stall is after how long without news somebody is told why nothing runs.
	stall = 10 * time.Second
)

// Run follows the build. It reports *queue.RetryError if the server was away for too long, and the context's error.
func (f *Follow) Run(ctx context.Context) (api.Build, Counts, error) {
	f.last, f.roots, f.left = make([]glimpse, len(f.Members)), make([]job.ID, len(f.Members)), len(f.Members)
	f.places = make(map[job.ID][]int, len(f.Members))
	counts := Counts{Ends: map[string]int{}}
	for i, r := range f.Receipt {
		f.places[r.ID] = append(f.places[r.ID], i)
		if r.How == "reused" {
			f.last[i].done = true
			f.left--
			counts.Reused++
			counts.Ends[job.Succeeded.String()]++
			f.Tell(progress.JobReused{Job: f.named(i, r.ID)})
		}
	}
	patient := *f.Client
	patient.Patience = -1 // It is for us to say that the server is away.
	f.Client = &patient
	f.moved = time.Now()
	build, err := f.watch(ctx, &counts)
	counts.Left, counts.Failed = f.left, f.failed
	return build, counts, err
}

// errEnded ends a stream of events: the build has.
var errEnded = errors.New("the build has ended")

// watch sees where the jobs are, then goes by events, until the build has ended. Whatever breaks a stream, a look heals it.
func (f *Follow) watch(ctx context.Context, counts *Counts) (api.Build, error) {
	heard, away := time.Now(), false
	for {
		build, err := f.Client.Build(ctx, f.Build)
		if err == nil && build.Ended != nil {
			return build, f.linger(ctx, counts)
		}
		if err == nil {
			err = f.look(ctx, counts)
		}
		if err == nil {
			heard, away = time.Now(), false
			err = f.events(ctx, counts)
		}
		var retry *queue.RetryError
		switch {
		case ctx.Err() != nil:
			return build, ctx.Err()
		case errors.Is(err, errEnded):
			continue
		case errors.Is(err, queue.ErrFeedTruncated), errors.Is(err, queue.ErrFeedAhead):
			// From now on; what has been is looked at next.
			if place, err := f.Client.Place(ctx); err == nil {
				f.Round = place
			}
		case !errors.As(err, &retry) || time.Since(heard) > cmp.Or(f.GiveUp, 10*time.Minute):
			return build, err
		case !away && time.Since(heard) > lookEvery: // A stream that ends is no news.
			f.Tell(progress.Notice{Text: fmt.Sprintf("the server is away, which does not concern the build: %v; asking on", retry.Cause)})
			away = true
		}
		if err := rest(ctx); err != nil {
			return build, err
		}
	}
}

// events goes by the events of the build, until there are no more; errEnded: as it has ended.
func (f *Follow) events(ctx context.Context, counts *Counts) error {
	ctx, stop := context.WithCancel(ctx)
	news, over := make(chan api.Event), make(chan error, 1)
	go func() {
		over <- f.Client.Events(ctx, api.Watch{Build: f.Build}, f.Round, func(e api.Event) error {
			select {
			case news <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	ended := false
	defer func() {
		stop()
		if !ended {
			<-over
		}
	}()
	quiet := stall
	for {
		timer := time.NewTimer(quiet)
		select {
		case e := <-news:
			quiet = stall
			f.Round = e.Round
			if err := f.heed(ctx, &e, counts); err != nil {
				timer.Stop()
				return err
			}
		case <-timer.C:
			quiet = min(2*quiet, 5*time.Minute)
			if err := f.look(ctx, counts); err != nil {
				return err
			}
		case err := <-over:
			ended = true
			timer.Stop()
			return err
		}
		timer.Stop()
	}
}

// heedMost is how many jobs that did not succeed are looked up one by one.
const heedMost = 20

// heed tells what an event is about.
func (f *Follow) heed(ctx context.Context, e *api.Event, counts *Counts) error {
	var unknown []job.ID // What became of them the event does not tell.
	over := false
	for k := range e.Changes {
		c := &e.Changes[k]
		over = over || c.What == "build-ended" && c.Build != nil && *c.Build == f.Build
		if c.Job == nil {
			continue
		}
		for _, i := range f.places[*c.Job] {
			if f.change(ctx, i, c, e.At, counts) {
				unknown = append(unknown, *c.Job)
			}
		}
	}
	if len(unknown) > heedMost {
		if err := f.look(ctx, counts); err != nil {
			return err
		}
		unknown = nil
	}
	for _, id := range unknown {
		j, err := f.Client.Job(ctx, id)
		if err != nil {
			return err
		}
		for _, i := range f.places[id] {
			if err := f.see(ctx, i, &j, counts); err != nil {
				return err
			}
		}
	}
	if over {
		return errEnded
	}
	return nil
}

// change tells a change of the i-th job; ask: the job has to be looked up for that.
func (f *Follow) change(ctx context.Context, i int, c *api.Change, at time.Time, counts *Counts) (ask bool) {
	g, id := &f.last[i], *c.Job
	if g.done {
		return false
	}
	switch c.What {
	case "job-started":
		if c.Attempt > g.attempt {
			g.attempt, g.running, g.start = c.Attempt, true, at
			f.Tell(progress.JobStarted{Job: f.named(i, id), Attempt: c.Attempt, Start: at})
		}
	case "job-retried":
		if c.Attempt <= g.retried {
			return false
		}
		e := progress.JobRetried{
			Job: f.named(i, id), Attempt: c.Attempt, Outcome: c.Outcome, Detail: c.Detail, Message: c.Message, Until: c.Until,
			Took: progress.Seconds(max(0, at.Sub(g.start))),
		}
		if c.Until != nil {
			e.Wait = progress.Seconds(max(0, c.Until.Sub(at)))
		}
		g.retried, g.running = c.Attempt, false
		f.Tell(e)
	case "job-ended":
		if c.Outcome != job.Succeeded.String() || g.start.IsZero() {
			return true
		}
		f.end(ctx, i, &api.Job{
			ID: id, State: "done", Outcome: c.Outcome, Detail: c.Detail, Message: c.Message, Attempts: c.Attempt, Started: &g.start, Ended: &at,
		}, counts)
	default:
		return false // The others are nothing that a run tells.
	}
	f.moved = time.Now()
	return false
}

// linger sees the end of a build that has ended.
func (f *Follow) linger(ctx context.Context, counts *Counts) error {
	for {
		err := f.look(ctx, counts)
		runs := slices.ContainsFunc(f.last, func(g glimpse) bool { return g.running })
		if err != nil || !runs || !f.Linger {
			return err
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
}

// rest waits before the server is asked again.
func rest(ctx context.Context) error {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look sees where the jobs are.
func (f *Follow) look(ctx context.Context, counts *Counts) error {
	var all []api.Job
	filter := api.JobFilter{Build: f.Build, Limit: pageSize}
	for f.left > 0 {
		page, err := f.Client.Jobs(ctx, filter)
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	running := false
	waits := job.ID{}
	// The oldest first: what others need comes before them.
	for k := len(all) - 1; k >= 0; k-- {
		j := &all[k]
		running = running || j.State == "running"
		if waits.IsZero() && (j.State == "ready" || j.State == "blocked") {
			waits = j.ID
		}
		for _, i := range f.places[j.ID] {
			if err := f.see(ctx, i, j, counts); err != nil {
				return err
			}
		}
	}
	if !running && !waits.IsZero() && time.Since(f.moved) > stall {
		f.explain(ctx, waits)
	}
	return nil
}

// explain tells why nothing runs, once for each reason.
func (f *Follow) explain(ctx context.Context, id job.ID) {
	e, err := f.Client.Why(ctx, id)
	if err != nil || len(e.Reasons) == 0 || e.Reasons[0].Text == f.told {
		return // It may have started; if not, the next look tells.
	}
	f.told = e.Reasons[0].Text
	f.Tell(progress.Notice{Job: e.Name, Text: cmp.Or(e.Name, "a job") + " is " + e.State + ": " + f.told})
}

func (f *Follow) named(i int, id job.ID) progress.Job {
	return progress.Job{Index: i, Name: f.Members[i].Name, ID: id}
}

// see tells what is new of the i-th job.
func (f *Follow) see(ctx context.Context, i int, j *api.Job, counts *Counts) error {
	g := &f.last[i]
	if g.done {
		return nil
	}
	over := j.Attempts // the last attempt after which another follows
	if j.State == "running" || j.State == "done" {
		over--
	}
	if over > g.retried {
		if err := f.retried(ctx, i, j, over); err != nil {
			return err
		}
	}
	if j.Attempts > g.attempt || j.State == "done" {
		f.moved = time.Now()
	}
	if j.Attempts > g.attempt && over < j.Attempts {
		start := time.Now()
		if j.Started != nil {
			start = *j.Started
		}
		g.start = start
		f.Tell(progress.JobStarted{Job: f.named(i, j.ID), Attempt: j.Attempts, Start: start})
	}
	g.attempt, g.running = j.Attempts, j.State == "running"
	if j.State == "done" {
		f.end(ctx, i, j, counts)
	}
	return nil
}

// end tells the end of the i-th job.
func (f *Follow) end(ctx context.Context, i int, j *api.Job, counts *Counts) {
	f.last[i].done, f.last[i].running = true, false
	f.left--
	counts.Ends[j.Outcome]++
	e := f.ended(i, j)
	f.tail(ctx, j, &e)
	f.Tell(e)
	if e.Outcome != job.Succeeded && e.Outcome != job.Cancelled && !e.Optional && !f.failed {
		f.failed = true
		if f.OnFailure != nil {
			f.OnFailure(e.Name)
		}
	}
}

// retried tells of attempts after which another follows.
func (f *Follow) retried(ctx context.Context, i int, j *api.Job, over int32) error {
	all, err := f.Client.Attempts(ctx, j.ID)
	if err != nil {
		return err
	}
	g := &f.last[i]
	for k := range all {
		a := &all[k]
		if a.Number <= g.retried || a.Number > over || a.Ended == nil {
			continue
		}
		e := progress.JobRetried{
			Job: f.named(i, j.ID), Attempt: a.Number, Outcome: a.Outcome, Detail: a.Detail, Message: a.Message,
			Took: progress.Seconds(max(0, a.Ended.Sub(a.Started))),
		}
		if a.Number == j.Attempts && j.NotBefore != nil {
			e.Until, e.Wait = j.NotBefore, progress.Seconds(max(0, j.NotBefore.Sub(*a.Ended)))
		}
		f.Tell(e)
	}
	g.retried = over
	return nil
}

// ended gives the event of an end.
func (f *Follow) ended(i int, j *api.Job) progress.JobEnded {
	outcome, _ := job.ParseOutcome(j.Outcome)
	e := progress.JobEnded{
		Job: f.named(i, j.ID), Outcome: outcome, Word: j.Outcome, Detail: j.Detail, Message: j.Message, Attempts: j.Attempts,
		Optional: f.Members[i].Optional,
	}
	if j.Started != nil && j.Ended != nil {
		e.Took = progress.Seconds(max(0, j.Ended.Sub(*j.Started)))
	}
	if j.Cached {
		e.Message = "it failed before, which is remembered; headrace cached-failures clear " + short(j.ID) + " has it run again"
	}
	if j.Root != nil {
		e.RootOutcome, e.Root = j.RootEnd, "a job of another build"
		f.roots[i] = *j.Root
		if at := f.places[*j.Root]; len(at) > 0 {
			e.Root, e.Through = f.Members[at[0]].Name, f.through(i, at[0], *j.Root)
		}
	}
	return e
}

// through names the need of the i-th job that did not run because of the root, if the root is no need itself.
func (f *Follow) through(i, root int, id job.ID) string {
	name := ""
	for _, n := range f.Members[i].Needs {
		if n == root {
			return ""
		}
		if name == "" && f.roots[n] == id {
			name = f.Members[n].Name
		}
	}
	return name
}
