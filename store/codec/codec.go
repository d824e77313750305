package codec

import (
	"fmt"

	"github.com/headrace/headrace/job"
)

// version is the leading byte of every form. A reader that meets a greater one refuses it. Version 2 added the limits
// of an attempt, version 3 the hand-backs of a tally and the class of a cached failure, version 4 the turn of a tally.
const version = 4

// AppendChanges appends the feed's form of a round's changes to dst: Args, Result, Token and the Body of a setting are left out,
// since whoever watches the feed need not be trusted with them.
func AppendChanges(dst []byte, changes []job.Change) ([]byte, error) {
	c := coder{b: append(dst, version), feed: true}
	for _, v := range changes {
		c.write(v)
		if c.err != nil {
			return dst, fmt.Errorf("encode %T: %v", v, c.err)
		}
	}
	return c.b, nil
}

// DecodeChanges is the inverse of AppendChanges.
func DecodeChanges(b []byte) ([]job.Change, error) {
	c := coder{b: b, reading: true, feed: true}
	c.version()
	var changes []job.Change
	for len(c.b) > 0 {
		changes = append(changes, c.read())
	}
	if c.err != nil {
		return nil, fmt.Errorf("decode change %d: %v", len(changes), c.err)
	}
	return changes, nil
}

// AppendSpec appends the form of a job's Spec to dst, without its Args.
func AppendSpec(dst []byte, s *job.Spec) []byte {
	c := begin(dst)
	c.spec(s)
	return c.b
}

// DecodeSpec is the inverse of AppendSpec.
func DecodeSpec(b []byte) (job.Spec, error) { return read(b, "spec", (*coder).spec) }

// AppendOwn appends the form of a job's own wish to dst.
func AppendOwn(dst []byte, o *job.Own) []byte {
	c := begin(dst)
	c.own(o)
	return c.b
}

// DecodeOwn is the inverse of AppendOwn.
func DecodeOwn(b []byte) (job.Own, error) { return read(b, "own wish", (*coder).own) }

// AppendTally appends the form of a Tally to dst.
func AppendTally(dst []byte, t *job.Tally) []byte {
	c := begin(dst)
	c.tally(t)
	return c.b
}

// DecodeTally is the inverse of AppendTally.
func DecodeTally(b []byte) (job.Tally, error) { return read(b, "tally", (*coder).tally) }

// AppendAttempt appends the form of an Attempt to dst, with its token.
func AppendAttempt(dst []byte, a *job.Attempt) []byte {
	c := begin(dst)
	c.attempt(a)
	return c.b
}

// DecodeAttempt is the inverse of AppendAttempt.
func DecodeAttempt(b []byte) (job.Attempt, error) { return read(b, "attempt", (*coder).attempt) }

// AppendAttemptEnd appends the form of an AttemptEnd to dst, with its token and its Result.
func AppendAttemptEnd(dst []byte, a *job.AttemptEnd) []byte {
	c := begin(dst)
	c.attemptEnd(a)
	return c.b
}

// DecodeAttemptEnd is the inverse of AppendAttemptEnd.
func DecodeAttemptEnd(b []byte) (job.AttemptEnd, error) {
	return read(b, "attempt's end", (*coder).attemptEnd)
}

// AppendEnd appends the form of an End to dst.
func AppendEnd(dst []byte, e *job.End) []byte {
	c := begin(dst)
	c.end(e)
	return c.b
}

// DecodeEnd is the inverse of AppendEnd.
func DecodeEnd(b []byte) (job.End, error) { return read(b, "end", (*coder).end) }

// AppendBuild appends the form of a Build to dst.
func AppendBuild(dst []byte, v *job.Build) []byte {
	c := begin(dst)
	c.build(v)
	return c.b
}

// DecodeBuild is the inverse of AppendBuild.
func DecodeBuild(b []byte) (job.Build, error) { return read(b, "build", (*coder).build) }

// AppendWorker appends the form of a Worker to dst.
func AppendWorker(dst []byte, w *job.Worker) []byte {
	c := begin(dst)
	c.worker(w)
	return c.b
}

// DecodeWorker is the inverse of AppendWorker.
func DecodeWorker(b []byte) (job.Worker, error) { return read(b, "worker", (*coder).worker) }

// AppendChannel appends the form of a Channel to dst.
func AppendChannel(dst []byte, h *job.Channel) []byte {
	c := begin(dst)
	c.channel(h)
	return c.b
}

// DecodeChannel is the inverse of AppendChannel.
func DecodeChannel(b []byte) (job.Channel, error) { return read(b, "channel", (*coder).channel) }

// AppendSetting appends the form of a Setting to dst, with its Body.
func AppendSetting(dst []byte, s *job.Setting) []byte {
	c := begin(dst)
	c.setting(s)
	return c.b
}

// DecodeSetting is the inverse of AppendSetting.
func DecodeSetting(b []byte) (job.Setting, error) { return read(b, "setting", (*coder).setting) }

// AppendFailure appends the form of a cached failure to dst.
func AppendFailure(dst []byte, f *job.FailureCached) []byte {
	c := begin(dst)
	c.failure(f)
	return c.b
}

// DecodeFailure is the inverse of AppendFailure.
func DecodeFailure(b []byte) (job.FailureCached, error) {
	return read(b, "cached failure", (*coder).failure)
}

// begin starts an encoding behind dst. It and its callers name the fields' function straight out, so that
// nothing of them goes to the heap.
func begin(dst []byte) coder { return coder{b: append(dst, version)} }

func read[T any](b []byte, what string, fields func(*coder, *T)) (T, error) {
	c := coder{b: b, reading: true}
	c.version()
	var v T
	fields(&c, &v)
	if c.err == nil && len(c.b) > 0 {
		c.err = errTrailing
	}
	if c.err != nil {
		var none T
		return none, fmt.Errorf("decode %s: %v", what, c.err)
	}
	return v, nil
}

func (c *coder) version() {
	if t := c.take(1); t != nil {
		if c.from = t[0]; c.from < 1 || c.from > version {
			c.fail(errVersion)
		}
	}
}
