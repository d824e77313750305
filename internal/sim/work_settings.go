package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/headrace/headrace/job"
)

// What doors keep in the engine's store beside jobs.

// settingKey is the space and the name of a setting.
type settingKey struct{ space, name string }

var spaces = []string{"schedule", "token"}

func (w *world) putSetting() {
	s := job.Setting{Space: pick(w, spaces...), Name: pick(w, "a", "b", "c"), Body: []byte(pick(w, "", "x", "y"))}
	if w.chance(12) {
		s.Space = pick(w, "", "two words")
	}
	only := pick(w, job.Always, job.IfAbsent, job.IfPresent)
	w.do(fmt.Sprintf("put-setting %q %s %q only %d", s.Space, s.Name, s.Body, only), func(ctx context.Context) error {
		return w.q.PutSetting(ctx, s, only)
	}, func() string { return w.m.putSetting(s, only) })
}

func (w *world) removeSetting() {
	k := settingKey{pick(w, spaces...), pick(w, "a", "b", "c")}
	w.do(fmt.Sprintf("remove-setting %s %s", k.space, k.name), func(ctx context.Context) error {
		return w.q.RemoveSetting(ctx, k.space, k.name)
	}, func() string { return w.m.removeSetting(k) })
}

// putSetting puts one, unless the like of it is there, or is not. The same again is no change.
func (m *model) putSetting(s job.Setting, only job.Condition) string {
	k := settingKey{s.Space, s.Name}
	old, there := m.settings[k]
	return refusals{
		{!slices.Contains(spaces, s.Space), invalid},
		{there && only == job.IfAbsent, exists},
		{!there && only == job.IfPresent, notFound},
	}.or(func() {
		if !there || old != string(s.Body) {
			m.settings[k] = string(s.Body)
			m.put = append(m.put, fmt.Sprintf("%d %s", m.now, tellSetting(job.SettingPut{Setting: s})))
		}
	})
}

func (m *model) removeSetting(k settingKey) string {
	_, there := m.settings[k]
	return refusals{{!there, notFound}}.or(func() {
		delete(m.settings, k)
		m.put = append(m.put, fmt.Sprintf("%d %s", m.now, tellSetting(job.SettingRemoved{Space: k.space, Name: k.name})))
	})
}

// tellSetting says what a change makes of a setting; "" if it is about none.
func tellSetting(c job.Change) string {
	switch c := c.(type) {
	case job.SettingPut:
		return fmt.Sprintf("put %s %s %q", c.Space, c.Name, c.Body)
	case job.SettingRemoved:
		return fmt.Sprintf("remove %s %s", c.Space, c.Name)
	default:
		return ""
	}
}

// compareSettings: what is read without asking the owner is what the model has.
func (w *world) compareSettings() {
	left := maps.Clone(w.m.settings)
	for _, space := range spaces {
		list, err := w.q.Settings(context.Background(), space)
		if err != nil {
			w.fail("settings: %v", err)
		}
		for _, s := range list {
			k := settingKey{s.Space, s.Name}
			want, there := left[k]
			one, err := w.q.Setting(context.Background(), s.Space, s.Name)
			if !there || s.Space != space || want != string(s.Body) || err != nil || want != string(one.Body) {
				w.fail("setting %v is %q, and %q (%v), want %q (%t)", k, s.Body, one.Body, err, want, there)
			}
			delete(left, k)
		}
	}
	if len(left) > 0 {
		w.fail("the engine lacks the settings %v", left)
	}
}
