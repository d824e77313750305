package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on what may be asked for; each holds before memory is used.
const (
	MaxName     = 128     // bytes of a name, channel, kind, system, feature, pin or group
	MaxKey      = 1024    // bytes of a key or concurrency key
	MaxFeatures = 64      // a job or worker
	MaxNeeds    = 100_000 // a job
	MaxMessage  = 64 << 10
	MaxArgs     = 16 << 20
	MaxSlots    = 100_000
	// MaxPriority bounds a build's priority and a reference's addition to it, either way.
	MaxPriority = 1 << 30
	// MaxDuration bounds each span of time: a limit, an estimate, a delay.
	MaxDuration = 10 * 365 * 24 * time.Hour
)

func checkWord(field, s string, limit int, must bool) error {
	switch {
	case must && s == "":
		return &InvalidError{field, "must not be empty"}
	case len(s) > limit:
		return &InvalidError{field, fmt.Sprintf("has %d bytes, want at most %d", len(s), limit)}
	case !utf8.ValidString(s):
		return &InvalidError{field, "is not valid UTF-8"}
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return &InvalidError{field, "has a control character"}
	}
	return nil
}

// checkToken is for words that stand in lists joined by blanks.
func checkToken(field, s string) error {
	if strings.ContainsAny(s, " \t") {
		return &InvalidError{field, "has a blank"}
	}
	return checkWord(field, s, MaxName, true)
}

func checkTokens(field string, list []string, limit int) error {
	if len(list) > limit {
		return &InvalidError{field, fmt.Sprintf("has %d entries, want at most %d", len(list), limit)}
	}
	for i, s := range list {
		if err := checkToken(fmt.Sprintf("%s[%d]", field, i), s); err != nil {
			return err
		}
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkDuration(field string, d time.Duration) error {
	if d < 0 {
		return &InvalidError{field, "must not be negative"}
	}
	if d > MaxDuration {
		return &InvalidError{field, fmt.Sprintf("is %s, want at most %s", d, time.Duration(MaxDuration))}
	}
	return nil
}

func (s *Spec) validate(field string) error {
	if s.ID.IsZero() {
		return &InvalidError{field + ".id", "must not be zero"}
	}
	if len(s.Needs) > MaxNeeds {
		return &InvalidError{field + ".needs", fmt.Sprintf("has %d entries, want at most %d", len(s.Needs), MaxNeeds)}
	}
	for i, n := range s.Needs {
		if n.Policy > Order {
			return &InvalidError{fmt.Sprintf("%s.needs[%d]", field, i), "want policy success, finish or order"}
		}
	}
	if len(s.Args) > MaxArgs {
		return &InvalidError{field + ".args", fmt.Sprintf("has %d bytes, want at most %d", len(s.Args), MaxArgs)}
	}
	if !slices.IsSorted(s.Features) || len(slices.Compact(slices.Clone(s.Features))) != len(s.Features) {
		return &InvalidError{field + ".features", "must be sorted, without repeats"}
	}
	return first(
		checkWord(field+".name", s.Name, MaxName, false),
		checkWord(field+".channel", s.Channel, MaxName, false),
		checkWord(field+".kind", s.Kind, MaxName, true),
		checkWord(field+".key", s.Key, MaxKey, false),
		checkWord(field+".system", s.System, MaxName, false),
		checkWord(field+".pin", s.Pin, MaxName, false),
		checkTokens(field+".features", s.Features, MaxFeatures),
		checkWord(field+".gate.key", s.Gate.Key, MaxKey, false),
		checkDuration(field+".estimate", s.Estimate),
		checkDuration(field+".retry.delay", s.Retry.Delay),
	)
}

func checkLimits(field string, l Limits) error {
	return first(checkDuration(field+".timeout", l.Timeout), checkDuration(field+".silence", l.Silence))
}

func checkPriority(field string, p int32) error {
	if p > MaxPriority || p < -MaxPriority {
		return &InvalidError{field, fmt.Sprintf("is %d, want at most %d either way", p, MaxPriority)}
	}
	return nil
}

func (b *Build) validate(field string) error {
	if b.ID.IsZero() {
		return &InvalidError{field + ".id", "must not be zero"}
	}
	return first(
		checkWord(field+".name", b.Name, MaxName, false),
		checkWord(field+".group", b.Group, MaxName, false),
		checkWord(field+".gate.key", b.Gate.Key, MaxKey, false),
		checkPriority(field+".priority", b.Priority),
		checkLimits(field+".limits", b.Limits),
	)
}

func (w *Worker) validate() error {
	if w.Slots < 1 || w.Slots > MaxSlots {
		return &InvalidError{"slots", fmt.Sprintf("is %d, want 1 to %d", w.Slots, MaxSlots)}
	}
	if w.Session.IsZero() {
		return &InvalidError{"session", "must not be zero"}
	}
	for i, f := range w.Mandatory {
		if !slices.Contains(w.Features, f) {
			return &InvalidError{fmt.Sprintf("mandatory[%d]", i), fmt.Sprintf("%q is not among the supported features", f)}
		}
	}
	for i, c := range w.Channels {
		if err := checkWord(fmt.Sprintf("channels[%d]", i), c, MaxName, false); err != nil {
			return err
		}
	}
	return first(
		checkWord("name", w.Name, MaxName, true),
		checkTokens("kinds", w.Kinds, MaxFeatures),
		checkTokens("systems", w.Systems, MaxFeatures),
		checkTokens("features", w.Features, 4*MaxFeatures),
	)
}

func (c *Channel) validate() error {
	if c.TTL < time.Second {
		return &InvalidError{"ttl", "want at least 1s"}
	}
	if c.Shares < 0 {
		return &InvalidError{"shares", "must not be negative"}
	}
	for g, n := range c.GroupShares {
		if n < 0 {
			return &InvalidError{"group_shares." + g, "must not be negative"}
		}
	}
	return first(
		checkWord("name", c.Name, MaxName, false),
		checkDuration("failure_ttl", c.FailureTTL),
		checkDuration("retry.delay", c.Retry.Delay),
	)
}
