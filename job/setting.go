package job

import (
	"bytes"
	"maps"
	"slices"
)

// Setting is what a door keeps beside jobs, such as an API token, hashed, or a schedule. To the engine its Body is opaque.
type Setting struct {
	Space string // a word for what it is, such as token
	Name  string // unique in its space
	Body  []byte
}

// Condition says of a setting what must be there already for it to be put.
type Condition uint8

// The conditions.
const (
	// Always puts it whatever is there.
	Always Condition = iota
	// IfAbsent puts only what is new.
	IfAbsent
	// IfPresent puts only what takes the place of another.
	IfPresent
)

// PutSetting puts a setting in the place of that of its space and name, or as a new one. One that is there with the same Body
// makes no change. An *InvalidError names what is not as it must be, also that the space is full; ErrExists: it is there, and only
// a new one was to be put; ErrNotFound: it is not there, and only one that is was to be replaced. The Body must not be
// changed any more.
func (m *Machine) PutSetting(s Setting, only Condition) ([]Change, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	space := m.settings[s.Space]
	old, there := space[s.Name]
	switch {
	case only > IfPresent:
		return nil, &InvalidError{"condition", "want always, if absent or if present"}
	case there && only == IfAbsent:
		return nil, ErrExists
	case !there && only == IfPresent:
		return nil, ErrNotFound
	case there && bytes.Equal(old, s.Body):
		return nil, nil
	case !there:
		if err := checkCount("space", len(space)+1, MaxSettings); err != nil {
			return nil, err
		}
	}
	return []Change{SettingPut{s}}, nil
}

// RemoveSetting takes a setting away; ErrNotFound: it is not there.
func (m *Machine) RemoveSetting(space, name string) ([]Change, error) {
	if _, ok := m.settings[space][name]; !ok {
		return nil, ErrNotFound
	}
	return []Change{SettingRemoved{Space: space, Name: name}}, nil
}

// Settings gives all settings, sorted by space and name. Their Bodies are the machine's.
func (m *Machine) Settings() []Setting {
	var all []Setting
	for _, space := range slices.Sorted(maps.Keys(m.settings)) {
		for _, name := range slices.Sorted(maps.Keys(m.settings[space])) {
			all = append(all, Setting{space, name, m.settings[space][name]})
		}
	}
	return all
}

func (m *Machine) applySetting(s Setting) {
	space := m.settings[s.Space]
	if space == nil {
		space = map[string][]byte{}
		m.settings[s.Space] = space
	}
	space[s.Name] = s.Body
}

func (m *Machine) applySettingRemoved(space, name string) {
	delete(m.settings[space], name)
	if len(m.settings[space]) == 0 {
		delete(m.settings, space)
	}
}
