package sim

import (
	"github.com/headrace/headrace/job"
)

// Commands that come while the engine is still at others: in one round with them, or in the rounds that their consequences
// take. The store holds each commit back until the world lets it go, so that all commands have a place that the seed gives.

// overlap gives several commands before the first is done with.
func (w *world) overlap() {
	w.note("together:")
	w.arm()
	w.store.gate = make(chan struct{})
	w.store.turns.Add(1)
	w.together = []*command{}
	pick(w, w.cancelLarge, w.cancelLarge, w.bumpLarge, w.submitWide, w.tellLarge, w.register, w.failJob, w.setChannel)()
	for range 3 + w.rng.IntN(8) {
		if w.chance(2) {
			w.let()
		} else {
			pick(w, w.ask, w.ask, w.ask, w.tell, w.tell, w.submit, w.submitWide, w.cancelJob, w.cancelBuild, w.bump, w.register, w.drain,
				w.pause, w.setChannel, w.removeWorker, w.failJob, w.deleteBuild, w.progress, w.tellOld, w.clearFailures,
				w.putSetting, w.removeSetting)()
		}
	}
	commands := w.together
	w.together = nil
	close(w.store.gate)
	w.settle()
	met := w.met(w.m.round)
	w.store.gate = nil
	for _, c := range commands {
		switch kind := kindOf(c.err); {
		case !c.over():
			w.fail("%s was not answered", c.op)
		case (fatal(met) || met == lookupFails) && (kind == again || !c.predicted):
			if c.call != nil {
				c.predicted = c.predicted && c.kept()
				w.carry(c)
			}
			continue
		case !c.predicted: // it never came to the owner
			c.want, c.predicted = c.predict(), true
			w.m.round()
		}
		if c.call != nil {
			w.answered(c, c.err)
		}
	}
}

// let lets the owner store what it did, and go on to where it stores again.
func (w *world) let() {
	select {
	case w.store.gate <- struct{}{}:
		w.note("    a round is stored")
	default:
	}
	w.settle()
	if s := w.store; s.held.Load() && s.machine != nil {
		w.invariants(s.machine)
	}
}

// launch gives a command, and does not wait for the answer.
func (w *world) launch(c *command) {
	w.note("%s", c.op)
	ctx := w.placed(c)
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		c.err = c.call(ctx)
	}()
	w.together = append(w.together, c)
	w.settle()
}

// over reports whether the command was answered, which may be long after it happened.
func (c *command) over() bool {
	if c.ended == nil {
		return true
	}
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// largest picks the live build that waits for most jobs, mostly.
func (w *world) largest() job.ID {
	var best *mBuild
	most := 0
	for _, b := range w.m.builds {
		n := 0
		for _, r := range b.refs {
			if r.to.end == nil && b.live() {
				n++
			}
		}
		if n > most {
			best, most = b, n
		}
	}
	if best == nil || w.chance(4) {
		return w.anyBuild()
	}
	return best.ID
}

func (w *world) cancelLarge() { w.cancelOf(w.largest()) }
func (w *world) bumpLarge()   { w.bumpOf(w.largest()) }

// tellLarge ends the attempt that most jobs wait for, mostly without success.
func (w *world) tellLarge() {
	var best *work
	most := 0
	for _, k := range w.work {
		n := 0
		for _, j := range w.m.jobs {
			if _, needs := j.needs[w.m.job(k.Lease.Job)]; needs && j.waiting() {
				n++
			}
		}
		if !k.over && n > most {
			best, most = k, n
		}
	}
	if best == nil {
		w.tell()
		return
	}
	best.over, best.reported = true, w.report(best.Lease)
	w.finish("finish", best.reported)
}
