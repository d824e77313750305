package job

import (
	"fmt"
	"maps"
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
	MaxResult   = 16 << 20 // of a job, an attempt or its progress
	MaxLabels   = 256      // a build; each a name and at most MaxKey bytes
	MaxKinds    = 1000     // paused kinds of a channel
	MaxGroups   = 10_000   // groups of a channel with shares of their own
	MaxSlots    = 100_000
	// MaxSpace bounds the bytes of a setting's space, MaxSettingBody those of its body, and MaxSettings how many a space has.
	MaxSpace       = 64
	MaxSettingBody = 1 << 20
	MaxSettings    = 10_000
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

func checkChannel(field, s string) error {
	if s == AnyChannel {
		return &InvalidError{field, fmt.Sprintf("must not be %q, which stands for all channels", s)}
	}
	return checkWord(field, s, MaxName, false)
}

// checkToken is for words that stand in lists joined by blanks.
func checkToken(field, s string) error {
	if strings.ContainsAny(s, " \t") {
		return &InvalidError{field, "has a blank"}
	}
	return checkWord(field, s, MaxName, true)
}

func checkTokens(field string, list []string, limit int) error {
	if err := checkCount(field, len(list), limit); err != nil {
		return err
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
	if err := checkCount(field+".needs", len(s.Needs), MaxNeeds); err != nil {
		return err
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
		checkChannel(field+".channel", s.Channel),
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

// checkText is for what people read: any text.
func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return &InvalidError{field, fmt.Sprintf("has %d bytes, want at most %d", len(s), limit)}
	case !utf8.ValidString(s):
		return &InvalidError{field, "is not valid UTF-8"}
	}
	return nil
}

func checkResult(b []byte) error {
	if len(b) > MaxResult {
		return &InvalidError{"result", fmt.Sprintf("has %d bytes, want at most %d", len(b), MaxResult)}
	}
	return nil
}

func checkCount(field string, n, limit int) error {
	if n > limit {
		return &InvalidError{field, fmt.Sprintf("has %d entries, want at most %d", n, limit)}
	}
	return nil
}

func (b *Build) validate(field string) error {
	if b.ID.IsZero() {
		return &InvalidError{field + ".id", "must not be zero"}
	}
	if err := checkCount(field+".labels", len(b.Labels), MaxLabels); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.Labels)) {
		err := first(checkWord(field+".labels", name, MaxName, true), checkText(field+".labels."+name, b.Labels[name], MaxKey))
		if err != nil {
			return err
		}
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

func (s *Setting) validate() error {
	if len(s.Body) > MaxSettingBody {
		return &InvalidError{"body", fmt.Sprintf("has %d bytes, want at most %d", len(s.Body), MaxSettingBody)}
	}
	return first(
		checkWord("space", s.Space, MaxSpace, true),
		checkToken("space", s.Space),
		checkWord("name", s.Name, MaxName, true),
	)
}

func (c *Channel) validate() error {
	if c.TTL < time.Second {
		return &InvalidError{"ttl", "want at least 1s"}
	}
	if c.Shares < 0 {
		return &InvalidError{"shares", "must not be negative"}
	}
	if c.Grace > MaxDuration {
		return &InvalidError{"grace", fmt.Sprintf("is %s, want at most %s", c.Grace, time.Duration(MaxDuration))}
	}
	err := first(
		checkCount("group_shares", len(c.GroupShares), MaxGroups), checkCount("paused_kinds", len(c.PausedKinds), MaxKinds),
	)
	if err != nil {
		return err
	}
	for _, g := range slices.Sorted(maps.Keys(c.GroupShares)) {
		if err := checkWord("group_shares", g, MaxName, false); err != nil {
			return err
		}
		if c.GroupShares[g] < 0 {
			return &InvalidError{"group_shares." + g, "must not be negative"}
		}
	}
	for i, k := range c.PausedKinds {
		if err := checkWord(fmt.Sprintf("paused_kinds[%d]", i), k, MaxName, true); err != nil {
			return err
		}
	}
	return first(
		checkDuration("ttl", c.TTL),
		checkChannel("name", c.Name),
		checkDuration("failure_ttl", c.FailureTTL),
		checkDuration("retry.delay", c.Retry.Delay),
	)
}
