package codec

import "github.com/headrace/headrace/job"

func (c *coder) retry(r *job.Retry) {
	integer(c, &r.Failures)
	integer(c, &r.Aborts)
	integer(c, &r.Losses)
	integer(c, &r.Crashes)
	integer(c, &r.Delay)
	integer(c, &r.Factor)
}

func (c *coder) gate(g *job.Gate) {
	c.string(&g.Key)
	integer(c, &g.Limit)
}

func (c *coder) limits(l *job.Limits) {
	integer(c, &l.Timeout)
	integer(c, &l.Silence)
}

func (c *coder) identity(i *job.Identity) {
	c.string(&i.Channel)
	c.string(&i.Kind)
	c.string(&i.Key)
}

func (c *coder) series(s *job.Series) {
	c.string(&s.Channel)
	c.string(&s.Kind)
	c.string(&s.Name)
}

func (c *coder) class(k *job.Class) {
	c.string(&k.Channel)
	c.string(&k.Kind)
	c.string(&k.System)
	c.string(&k.Features)
	c.string(&k.Pin)
}

func (c *coder) need(n *job.Need) {
	c.id(&n.Job)
	word(c, &n.Policy)
	c.bool(&n.Loose)
}

// needSize is what a Need takes at least.
const needSize = 3

// spec carries all but Args.
func (c *coder) spec(s *job.Spec) {
	c.id(&s.ID)
	c.string(&s.Name)
	c.string(&s.Channel)
	c.string(&s.Kind)
	c.string(&s.Key)
	c.string(&s.System)
	c.strings(&s.Features)
	c.string(&s.Pin)
	list(c, &s.Needs, needSize, (*coder).need)
	c.bool(&s.Exclusive)
	integer(c, &s.NotBefore)
	c.gate(&s.Gate)
	c.retry(&s.Retry)
	c.bool(&s.CacheFailure)
	c.bool(&s.Reuse)
	integer(c, &s.Estimate)
}

func (c *coder) own(o *job.Own) {
	integer(c, &o.Priority)
	c.string(&o.Group)
	c.limits(&o.Limits)
}

func (c *coder) tally(t *job.Tally) {
	integer(c, &t.Attempts)
	integer(c, &t.Failures)
	integer(c, &t.Aborts)
	integer(c, &t.Losses)
	integer(c, &t.Crashes)
	if !c.reading || c.from >= 3 {
		integer(c, &t.HandBacks)
	}
	if !c.reading || c.from >= 4 {
		integer(c, &t.Turn)
	}
	c.string(&t.Fault)
}

func (c *coder) attempt(a *job.Attempt) {
	integer(c, &a.Number)
	c.token(&a.Token)
	c.string(&a.Worker)
	integer(c, &a.Start)
	c.strings(&a.Groups)
	if !c.reading || c.from >= 2 {
		c.limits(&a.Limits)
	}
}

func (c *coder) attemptEnd(a *job.AttemptEnd) {
	c.attempt(&a.Attempt)
	integer(c, &a.At)
	word(c, &a.Outcome)
	word(c, &a.Detail)
	c.string(&a.Message)
	c.payload(&a.Result)
}

func (c *coder) end(e *job.End) {
	integer(c, &e.At)
	word(c, &e.Outcome)
	word(c, &e.Detail)
	c.bool(&e.Cached)
	c.id(&e.Root)
	word(c, &e.RootOutcome)
	c.string(&e.Message)
}

// record leaves out Ready: a change makes no job that is.
func (c *coder) record(r *job.Record) {
	c.spec(&r.Spec)
	integer(c, &r.Seq)
	integer(c, &r.At)
	pointer(c, &r.Own, (*coder).own)
	c.tally(&r.Tally)
	integer(c, &r.Wake)
	integer(c, &r.Delay)
	pointer(c, &r.Last, (*coder).attempt)
	c.bool(&r.Running)
	pointer(c, &r.LastEnd, (*coder).attemptEnd)
	pointer(c, &r.End, (*coder).end)
	c.bool(&r.Held)
	c.bool(&r.Open)
}

func (c *coder) build(b *job.Build) {
	c.id(&b.ID)
	c.string(&b.Name)
	c.string(&b.Group)
	integer(c, &b.Priority)
	c.limits(&b.Limits)
	c.gate(&b.Gate)
	table(c, &b.Labels, (*coder).string)
}

func (c *coder) buildRecord(r *job.BuildRecord) {
	c.build(&r.Build)
	integer(c, &r.Seq)
	integer(c, &r.At)
	c.bool(&r.Active)
	c.bool(&r.Staged)
	word(c, &r.Outcome)
	integer(c, &r.Ended)
}

func (c *coder) ref(r *job.Ref) {
	c.id(&r.Job)
	c.bool(&r.Awaited)
	c.bool(&r.Optional)
	integer(c, &r.Priority)
	c.limits(&r.Limits)
	word(c, &r.Ended)
}

// refSize is what a Ref takes at least.
const refSize = 7

func (c *coder) worker(w *job.Worker) {
	c.string(&w.Name)
	c.strings(&w.Channels)
	c.strings(&w.Kinds)
	c.strings(&w.Systems)
	c.strings(&w.Features)
	c.strings(&w.Mandatory)
	integer(c, &w.Slots)
	c.float(&w.Speed)
	c.id(&w.Session)
	c.bool(&w.Drained)
	integer(c, &w.Faults)
	integer(c, &w.Until)
	integer(c, &w.Delay)
}

func (c *coder) channel(h *job.Channel) {
	c.string(&h.Name)
	word(c, &h.Discipline)
	c.bool(&h.CallerJudges)
	integer(c, &h.Grace)
	integer(c, &h.TTL)
	c.retry(&h.Retry)
	integer(c, &h.Shares)
	table(c, &h.GroupShares, integer[int32])
	integer(c, &h.FailureTTL)
	c.bool(&h.Paused)
	c.strings(&h.PausedKinds)
}

func (c *coder) setting(s *job.Setting) {
	c.string(&s.Space)
	c.string(&s.Name)
	c.payload(&s.Body)
}

func (c *coder) failure(f *job.FailureCached) {
	c.identity(&f.Identity)
	if !c.reading || c.from >= 3 {
		c.class(&f.Class)
	}
	c.id(&f.Job)
	word(c, &f.Outcome)
	integer(c, &f.At)
	integer(c, &f.Until)
	c.string(&f.Message)
}
