package job

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSettingIsPutOnItsCondition(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := func(name, body string) Setting { return Setting{Space: "token", Name: name, Body: []byte(body)} }
	for _, c := range []struct {
		s       Setting
		only    Condition
		want    error
		changes int
	}{
		{s("a", "1"), IfPresent, ErrNotFound, 0},
		{s("a", "1"), IfAbsent, nil, 1},
		{s("a", "1"), IfAbsent, ErrExists, 0},
		{s("a", "2"), IfAbsent, ErrExists, 0},
		{s("a", "1"), Always, nil, 0},
		{s("a", "1"), IfPresent, nil, 0},
		{s("a", "2"), IfPresent, nil, 1},
		{s("a", "3"), Always, nil, 1},
		{s("b", ""), Always, nil, 1},
		{s("b", ""), Always, nil, 0},
		{Setting{Space: "schedule", Name: "a"}, IfAbsent, nil, 1},
	} {
		changes, err := l.m.PutSetting(c.s, c.only)
		if !errors.Is(err, c.want) || len(changes) != c.changes {
			t.Errorf("%+v, %d: %d changes, %v; want %d, %v", c.s, c.only, len(changes), err, c.changes, c.want)
		}
		_ = l.do(changes, err)
	}
	all := func(m *Machine) string { return fmt.Sprintf("%s", m.Settings()) }
	if have, want := all(l.m), "[{schedule a } {token a 3} {token b }]"; have != want {
		t.Errorf("the settings are %s, want %s", have, want)
	}
	// What was stored gives them back.
	again := New(l.now)
	for _, c := range l.list {
		if err := again.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	again.Loaded(l.now)
	if all(again) != all(l.m) {
		t.Errorf("loaded: %s, want %s", all(again), all(l.m))
	}
	if _, err := l.m.RemoveSetting("schedule", "b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("to remove what is not there: %v, want ErrNotFound", err)
	}
	l.must(l.m.RemoveSetting("schedule", "a"))
	l.must(l.m.RemoveSetting("token", "a"))
	if have, want := all(l.m), "[{token b }]"; have != want {
		t.Errorf("the settings are %s, want %s", have, want)
	}
	if len(l.m.settings) != 1 {
		t.Errorf("%d spaces are left, want 1", len(l.m.settings))
	}
}

func TestSettingIsBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		s     Setting
		only  Condition
		field string
	}{
		{Setting{Space: "", Name: "n"}, Always, "space"},
		{Setting{Space: "two words", Name: "n"}, Always, "space"},
		{Setting{Space: long(MaxSpace + 1), Name: "n"}, Always, "space"},
		{Setting{Space: "s\x00", Name: "n"}, Always, "space"},
		{Setting{Space: "s", Name: ""}, Always, "name"},
		{Setting{Space: "s", Name: "\xff"}, Always, "name"},
		{Setting{Space: "s", Name: long(MaxName + 1)}, Always, "name"},
		{Setting{Space: "s", Name: "n", Body: make([]byte, MaxSettingBody+1)}, Always, "body"},
		{Setting{Space: "s", Name: "n"}, IfPresent + 1, "condition"},
		{Setting{Space: long(MaxSpace), Name: long(MaxName), Body: make([]byte, MaxSettingBody)}, IfAbsent, ""},
		{Setting{Space: "s", Name: "two words"}, IfAbsent, ""},
	} {
		changes, err := l.m.PutSetting(c.s, c.only)
		var invalid *InvalidError
		if errors.As(err, &invalid) != (c.field != "") || c.field != "" && (invalid.Field != c.field || len(changes) > 0) {
			t.Errorf("space %.20q, name %.20q: %v, want field %q", c.s.Space, c.s.Name, err, c.field)
		}
	}
}

// A space that is full takes nothing new, but what is there can be replaced, and others have room.
func TestSpaceIsBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := func(i int) string { return fmt.Sprint("n", i) }
	for i := range MaxSettings {
		l.must(l.m.PutSetting(Setting{Space: "s", Name: name(i)}, IfAbsent))
	}
	_, err := l.m.PutSetting(Setting{Space: "s", Name: "more"}, Always)
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "space" {
		t.Errorf("one more: %v, want an InvalidError of the space", err)
	}
	l.must(l.m.PutSetting(Setting{Space: "s", Name: name(7), Body: []byte("new")}, Always))
	l.must(l.m.PutSetting(Setting{Space: "other", Name: "more"}, Always))
	l.must(l.m.RemoveSetting("s", name(0)))
	l.must(l.m.PutSetting(Setting{Space: "s", Name: "more"}, Always))
	all := l.m.Settings()
	if i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name(7) }); i < 0 || !bytes.Equal(all[i].Body, []byte("new")) {
		t.Error("what was there is not replaced")
	}
}
