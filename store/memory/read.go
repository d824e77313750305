package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// snapshot is the unfinished state. Rows are never changed in place, so it is read without the lock.
type snapshot struct {
	sealed   map[job.ID]bool // of the builds that live jobs were made for
	head     queue.Head
	settings []job.Change // channels, classes, workers, settings, usage
	builds   []*build
	refs     [][]job.Ref
	jobs     []*row
}

// Load implements queue.Store.
func (s *Store) Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error) {
	snap, err := s.snapshot(ctx)
	if err != nil {
		return queue.Head{}, fmt.Errorf("load: %w", err)
	}
	for _, c := range snap.settings {
		if err := fn(c); err != nil {
			return queue.Head{}, err
		}
	}
	for _, b := range snap.builds {
		if err := fn(job.BuildAdded{BuildRecord: snap.build(b)}); err != nil {
			return queue.Head{}, err
		}
	}
	for _, r := range snap.jobs {
		if err := ctx.Err(); err != nil {
			return queue.Head{}, fmt.Errorf("load: %w", err)
		}
		rec := snap.job(r)
		if rec.LastEnd != nil {
			rec.LastEnd.Result = nil
		}
		if err := fn(job.JobAdded{Record: *rec}); err != nil {
			return queue.Head{}, err
		}
	}
	for i, b := range snap.builds {
		if len(snap.refs[i]) == 0 {
			continue
		}
		if err := fn(job.BuildReferred{Build: b.Build.ID, Refs: snap.refs[i]}); err != nil {
			return queue.Head{}, err
		}
	}
	return snap.head, nil
}

func (s *Store) snapshot(ctx context.Context) (*snapshot, error) {
	d := s.disk
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	snap := &snapshot{sealed: map[job.ID]bool{}, head: queue.Head{Number: d.number, Seq: d.seq}}
	snap.set(d)
	for _, b := range d.builds.rows {
		if b.Outcome == 0 {
			snap.builds = append(snap.builds, b)
		}
	}
	slices.SortFunc(snap.builds, func(a, b *build) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, b := range snap.builds {
		snap.refs = append(snap.refs, d.refs(b))
	}
	for _, r := range d.jobs.rows {
		if r.live() {
			snap.jobs = append(snap.jobs, r)
			if !r.staging.IsZero() && d.sealed(r.staging) {
				snap.sealed[r.staging] = true
			}
		}
	}
	slices.SortFunc(snap.jobs, func(a, b *row) int { return cmp.Compare(a.seq, b.seq) })
	return snap, nil
}

func (snap *snapshot) set(d *Disk) {
	for _, name := range sorted(d.channels.rows, cmp.Compare[string]) {
		c, err := codec.DecodeChannel(d.channels.rows[name])
		if err != nil {
			snap.corrupt("channel", name, err)
			continue
		}
		snap.settings = append(snap.settings, job.ChannelPut{Channel: c})
	}
	for _, k := range sorted(d.classes.rows, compareClasses) {
		snap.settings = append(snap.settings, job.ClassMarked{Class: k, Since: d.classes.rows[k]})
	}
	for _, name := range sorted(d.workers.rows, cmp.Compare[string]) {
		w, err := codec.DecodeWorker(d.workers.rows[name])
		if err != nil {
			snap.corrupt("worker", name, err)
			continue
		}
		snap.settings = append(snap.settings, job.WorkerPut{Worker: w})
	}
	for _, k := range sorted(d.settings.rows, compareSettings) {
		s, err := codec.DecodeSetting(d.settings.rows[k])
		if err != nil {
			snap.corrupt("setting", k.space+"/"+k.name, err)
			continue
		}
		snap.settings = append(snap.settings, job.SettingPut{Setting: s})
	}
	for _, k := range sorted(d.usage.rows, compareSlices) {
		if k.number < queue.FirstSlice(d.at) {
			continue
		}
		snap.settings = append(snap.settings, d.usage.rows[k])
	}
}

func (snap *snapshot) corrupt(table, key string, err error) {
	snap.head.Corrupt = append(snap.head.Corrupt, queue.Corrupt{Table: table, Key: key, Err: err})
}

// build gives a live build, or what stands for it.
func (snap *snapshot) build(b *build) job.BuildRecord {
	if !b.bad {
		return copyBuild(&b.BuildRecord)
	}
	id := b.Build.ID
	snap.head.Corrupt = append(snap.head.Corrupt, queue.Corrupt{Table: "build", Key: id.String(), Build: id, Seq: b.Seq, Err: errDamaged})
	return job.BuildRecord{Seq: b.Seq, At: b.At, Active: b.Active, Staged: b.Staged, Build: job.Build{ID: id}}
}

// job gives a live job, or what stands for it.
func (snap *snapshot) job(r *row) *job.Record {
	rec, lost, err := r.record(func(b job.ID) bool { return snap.sealed[b] })
	if lost != nil {
		snap.corrupt("attempt", r.id.String(), lost)
	}
	if err != nil {
		v := queue.Corrupt{Table: "job", Key: r.id.String(), Job: r.id, Seq: r.seq, Err: err}
		if rec = r.standIn(); rec.End != nil {
			v.Job = job.ID{}
		}
		snap.head.Corrupt = append(snap.head.Corrupt, v)
	}
	return rec
}

func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}

func compareClasses(a, b job.Class) int {
	return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.System, b.System),
		cmp.Compare(a.Features, b.Features), cmp.Compare(a.Pin, b.Pin))
}

func compareSettings(a, b settingKey) int {
	return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.name, b.name))
}

func compareSlices(a, b slice) int {
	return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.channel, b.channel), cmp.Compare(a.group, b.group))
}

// standIn gives what the engine needs of a live job whose record cannot be read.
func (r *row) standIn() *job.Record {
	rec := &job.Record{Spec: job.Spec{ID: r.id}, Seq: r.seq}
	if r.end != nil {
		rec.End, rec.Held, rec.Open = clone(r.end), r.held, r.open
		if r.badEnd {
			rec.End = &job.End{Outcome: r.end.Outcome}
		}
		_ = r.attempts(rec) // The caller knows.
	}
	return rec
}

// sealed reports whether the build is there and complete.
func (d *Disk) sealed(id job.ID) bool {
	b, ok := d.builds.get(id)
	return ok && !b.Staged
}

// record gives a job without its Args. What it gives is the caller's. Of one whose newest ended attempt alone cannot be
// read, lost says so.
func (r *row) record(sealed func(build job.ID) bool) (rec *job.Record, lost, err error) {
	spec, err := codec.DecodeSpec(r.spec)
	if r.badLive || r.badEnd {
		err = errDamaged
	}
	rec = &job.Record{
		Spec: spec, Seq: r.seq, At: r.at, Own: clone(r.own), Tally: r.tally, Wake: r.wake, Delay: time.Duration(r.delay),
		Running: r.state == running, Ready: r.state == ready, End: clone(r.end), Held: r.held, Open: r.open,
	}
	if !r.staging.IsZero() && !sealed(r.staging) {
		rec.Staging = r.staging
	}
	return rec, r.attempts(rec), err
}

// attempts fills in the newest attempt, unless it cannot be read.
func (r *row) attempts(rec *job.Record) error {
	switch n := len(r.ended); {
	case r.run != nil:
		rec.Last = copyAttempt(r.run)
	case n > 0 && r.ended[n-1].bad:
		return errDamaged
	case n > 0:
		e := copyAttemptEnd(&r.ended[n-1].AttemptEnd)
		rec.LastEnd, rec.Last = &e, copyAttempt(&e.Attempt)
	}
	return nil
}

// Lookup implements queue.Store.
func (s *Store) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	d := s.disk
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("look up: %w", err)
	}
	f := &queue.Found{
		Facts: job.Facts{
			Jobs: map[job.ID]*job.Record{}, Ended: map[job.Lease]*job.AttemptEnd{}, Kept: map[job.Likeness]job.ID{}, Cached: map[job.Identity]*job.FailureCached{},
			Took: map[job.Series]time.Duration{}, Builds: map[job.ID]*job.BuildRecord{},
		},
		Answers: map[job.ID][]byte{},
	}
	for _, id := range q.Jobs {
		if r := d.job(id); r != nil && !r.live() {
			if rec, _, err := r.record(d.sealed); err == nil {
				f.Jobs[id] = rec
			}
		}
	}
	for _, l := range q.Leases {
		if r := d.job(l.Job); r != nil {
			for i := range r.ended {
				if e := &r.ended[i]; !e.bad && e.Number == l.Attempt && e.Token == l.Token {
					end := copyAttemptEnd(&e.AttemptEnd)
					end.Result = nil
					f.Ended[l] = &end
				}
			}
		}
	}
	for _, k := range q.Kept {
		if r := d.keptLike(k); r != nil {
			f.Kept[k] = r.id
		}
	}
	for _, k := range q.Cached {
		if b, ok := d.cached.get(k); ok {
			if c, err := codec.DecodeFailure(b); err == nil {
				f.Cached[k] = &c
			}
		}
	}
	for _, k := range q.Took {
		if t, ok := d.took.get(k); ok {
			f.Took[k] = time.Duration(t.took)
		}
	}
	for _, id := range q.Builds {
		if b, ok := d.builds.get(id); ok && b.Outcome != 0 && !b.bad {
			r := copyBuild(&b.BuildRecord)
			f.Builds[id] = &r
		}
	}
	for _, id := range q.Requests {
		if a, ok := d.answers[id]; ok {
			f.Answers[id] = slices.Clone(a)
		}
	}
	return f, nil
}

// keptLike gives the newest success of the likeness; nil: there is none.
func (d *Disk) keptLike(k job.Likeness) *row {
	seqs, _ := d.kept.get(k.Identity())
	for _, seq := range slices.Backward(seqs[max(0, len(seqs)-queue.KeptMost):]) {
		r := d.jobs.rows[seq]
		if s, err := codec.DecodeSpec(r.spec); err == nil && s.Class() == k.Class {
			return r
		}
	}
	return nil
}

// job gives a job's row; nil if there is no such job.
func (d *Disk) job(id job.ID) *row {
	seq, ok := d.jobSeq.get(id)
	if !ok {
		return nil
	}
	return d.jobs.rows[seq]
}

// Feed implements queue.Store.
func (s *Store) Feed(ctx context.Context, after uint64, limit int) ([]queue.Round, error) {
	d := s.disk
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	page := queue.NewFeedPage(after, d.dropped, d.number, limit)
	for n := after; n < d.number && page.More(); n++ {
		r := d.feed[n-d.dropped]
		changes, err := codec.DecodeChanges(r.changes)
		page.Add(queue.Round{Number: n + 1, At: r.at, Changes: changes}, err)
	}
	rounds, err := page.End()
	if err != nil {
		return nil, fmt.Errorf("read feed after %d: %w", after, err)
	}
	return rounds, nil
}
