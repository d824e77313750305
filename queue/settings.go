package queue

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/headrace/headrace/job"
)

// settings are those of the last commit, by space and name: they are read for each call that a door serves, so nobody waits
// for the owner, or for another reader. What is published is never changed again; nil: nobody owns the store.
type settings struct {
	published atomic.Pointer[map[string]map[string][]byte]
}

// PutSetting stores a setting; see job.Machine.PutSetting for what only says, and for the errors.
func (q *Queue) PutSetting(ctx context.Context, s job.Setting, only job.Condition) error {
	s.Body = bytes.Clone(s.Body)
	return change(ctx, q, command{name: "put a setting"}, func(*round) ([]job.Change, error) {
		return q.machine.PutSetting(s, only)
	})
}

// RemoveSetting takes a setting away; ErrNotFound: there is none.
func (q *Queue) RemoveSetting(ctx context.Context, space, name string) error {
	return change(ctx, q, command{name: "remove a setting"}, func(*round) ([]job.Change, error) {
		return q.machine.RemoveSetting(space, name)
	})
}

// Setting gives a setting as of the last commit, without asking the owner. ErrNotFound: there is none; *RetryError: the owner has just
// stepped down, or it is not sure that this process is still the owner.
func (q *Queue) Setting(_ context.Context, space, name string) (job.Setting, error) {
	spaces, err := q.spaces()
	if err != nil {
		return job.Setting{}, err
	}
	body, ok := spaces[space][name]
	if !ok {
		return job.Setting{}, ErrNotFound
	}
	return job.Setting{Space: space, Name: name, Body: bytes.Clone(body)}, nil
}

// Settings gives the settings of a space by name, with the errors of Setting, but none if there are none.
func (q *Queue) Settings(_ context.Context, space string) ([]job.Setting, error) {
	spaces, err := q.spaces()
	if err != nil {
		return nil, err
	}
	var list []job.Setting
	for _, name := range slices.Sorted(maps.Keys(spaces[space])) {
		list = append(list, job.Setting{Space: space, Name: name, Body: bytes.Clone(spaces[space][name])})
	}
	return list, nil
}

func (q *Queue) spaces() (map[string]map[string][]byte, error) {
	select {
	case <-q.done:
		return nil, q.end
	default:
	}
	// It must be true of the store, not only of what this process remembers of it: a token may have been revoked.
	if err := q.owned(); err != nil {
		return nil, err
	}
	spaces := q.settings.published.Load()
	if spaces == nil {
		return nil, &RetryError{Cause: errNoOwner}
	}
	return *spaces, nil
}

// reset begins anew with what the machine has; nil: with nothing, until there is an owner.
func (s *settings) reset(m *job.Machine) {
	if m == nil {
		s.published.Store(nil)
		return
	}
	spaces := map[string]map[string][]byte{}
	for _, v := range m.Settings() {
		if spaces[v.Space] == nil {
			spaces[v.Space] = map[string][]byte{}
		}
		spaces[v.Space][v.Name] = v.Body
	}
	s.published.Store(&spaces)
}

// follow publishes what a round has changed, once it is stored.
func (s *settings) follow(changes []job.Change) {
	var spaces map[string]map[string][]byte // nil: as before
	var copied map[string]bool
	touch := func(space string) map[string][]byte {
		if spaces == nil {
			spaces, copied = maps.Clone(*s.published.Load()), map[string]bool{}
		}
		if !copied[space] {
			copied[space] = true
			if spaces[space] = maps.Clone(spaces[space]); spaces[space] == nil {
				spaces[space] = map[string][]byte{}
			}
		}
		return spaces[space]
	}
	for _, c := range changes {
		switch c := c.(type) {
		case job.SettingPut:
			touch(c.Space)[c.Name] = c.Body
		case job.SettingRemoved:
			delete(touch(c.Space), c.Name)
		default:
			// The others change no setting.
		}
	}
	if spaces != nil {
		s.published.Store(&spaces)
	}
}
