package queue_test

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// options are the words of a command after its subject: flags and key=value pairs. Each must be asked for once;
// end reports those that nobody asked for.
type options struct {
	w     *world
	step  step
	pairs map[string]string
	flags map[string]bool
}

func (w *world) options(s step, words []string) *options {
	o := &options{w: w, step: s, pairs: map[string]string{}, flags: map[string]bool{}}
	for _, word := range words {
		if k, v, ok := strings.Cut(word, "="); ok {
			o.pairs[k] = v
		} else {
			o.flags[word] = true
		}
	}
	return o
}

func (o *options) end() {
	for k := range o.pairs {
		o.bad("no option %q here", k)
	}
	for k := range o.flags {
		o.bad("no flag %q here", k)
	}
}

func (o *options) bad(format string, args ...any) {
	o.w.t.Helper()
	o.w.t.Fatalf(o.step.place+": "+format, args...)
}

func (o *options) has(key string) bool {
	_, ok := o.pairs[key]
	return ok
}

func (o *options) text(key, otherwise string) string {
	v, ok := o.pairs[key]
	if !ok {
		return otherwise
	}
	delete(o.pairs, key)
	return v
}

// list splits at commas.
func (o *options) list(key string, otherwise ...string) []string {
	v := o.text(key, "")
	if v == "" {
		return otherwise
	}
	return strings.Split(v, ",")
}

func (o *options) flag(key string) bool {
	has := o.flags[key]
	delete(o.flags, key)
	return has
}

func (o *options) number(key string) int32 {
	v := o.text(key, "0")
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		o.bad("%s: %v", key, err)
	}
	return int32(n)
}

func (o *options) real(key string) float64 {
	n, err := strconv.ParseFloat(o.text(key, "0"), 64)
	if err != nil {
		o.bad("%s: %v", key, err)
	}
	return n
}

func (o *options) duration(key string) time.Duration { return o.wordDuration(o.text(key, "0s")) }

func (o *options) wordDuration(v string) time.Duration {
	if v == "never" {
		return math.MinInt64
	}
	if days, ok := strings.CutSuffix(v, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			return time.Duration(n) * 24 * time.Hour
		}
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		o.bad("%v", err)
	}
	return d
}

// gate reads key/limit.
func (o *options) gate(key string) job.Gate {
	name, limit, ok := cutLast(o.text(key, ""), "/")
	if !ok {
		return job.Gate{}
	}
	n, err := strconv.Atoi(limit)
	if err != nil {
		o.bad("%s: %v", key, err)
	}
	return job.Gate{Key: name, Limit: int32(n)}
}

func (o *options) retry() job.Retry {
	return job.Retry{
		Failures: o.number("failures"), Aborts: o.number("aborts"), Losses: o.number("losses"),
		Crashes: o.number("crashes"), Delay: o.duration("delay"), Factor: o.number("factor"),
	}
}

func (o *options) limits() job.Limits {
	return job.Limits{Timeout: o.duration("timeout"), Silence: o.duration("silence")}
}

// channel reads the name of a channel; the unnamed one is written as default.
func channelName(s string) string {
	if s == "default" {
		return ""
	}
	return s
}
