package queue_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func token(name, body string) job.Setting {
	return job.Setting{Space: "token", Name: name, Body: []byte(body)}
}

// settingsOf gives a space as text.
func (l *lab) settingsOf(space string) string {
	l.t.Helper()
	list, err := l.Settings(l.t.Context(), space)
	l.must(err)
	return fmt.Sprintf("%s", list)
}

func TestSettingsOutliveTheirOwner(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.must(l.PutSetting(t.Context(), token("b", "1"), job.IfAbsent))
		l.must(l.PutSetting(t.Context(), token("a", "1"), job.Always))
		l.must(l.PutSetting(t.Context(), job.Setting{Space: "schedule", Name: "a"}, job.Always))
		l.must(l.PutSetting(t.Context(), token("a", "2"), job.IfPresent))
		if err := l.PutSetting(t.Context(), token("a", "3"), job.IfAbsent); !errors.Is(err, job.ErrExists) {
			t.Errorf("put what is there: %v, want ErrExists", err)
		}
		if err := l.RemoveSetting(t.Context(), "schedule", "b"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("remove what is not there: %v, want ErrNotFound", err)
		}
		l.must(l.RemoveSetting(t.Context(), "schedule", "a"))
		for range 2 {
			if have, want := l.settingsOf("token"), "[{token a 2} {token b 1}]"; have != want {
				t.Errorf("the tokens are %s, want %s", have, want)
			}
			if have := l.settingsOf("schedule"); have != "[]" {
				t.Errorf("the schedules are %s, want none", have)
			}
			if s, err := l.Setting(t.Context(), "token", "a"); err != nil || string(s.Body) != "2" || s.Name != "a" || s.Space != "token" {
				t.Errorf("one token: %+v, %v", s, err)
			}
			if _, err := l.Setting(t.Context(), "token", "c"); !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("a token that is not there: %v, want ErrNotFound", err)
			}
			l.restart()
			l.must(l.PutSetting(t.Context(), token("b", "1"), job.Always)) // the state is loaded
		}
	})
}

// What a caller gave, or was given, it may change: nobody else sees that.
func TestSettingsShareNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		s := token("a", "body")
		l.must(l.PutSetting(t.Context(), s, job.Always))
		s.Body[0] = 'X'
		one, err := l.Setting(t.Context(), "token", "a")
		l.must(err)
		one.Body[1] = 'X'
		list, err := l.Settings(t.Context(), "token")
		l.must(err)
		list[0].Body[2] = 'X'
		if have := l.settingsOf("token"); have != "[{token a body}]" {
			t.Errorf("the tokens are %s", have)
		}
		l.must(l.PutSetting(t.Context(), token("b", ""), job.Always))
		if have := l.settingsOf("token"); have != "[{token a body} {token b }]" {
			t.Errorf("the tokens are %s", have)
		}
	})
}

// A repeat under the same request id gets the first answer, though the setting is there by then, or gone.
func TestSettingOfOneRequestIsPutOnce(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		put, remove := queue.WithRequest(t.Context(), l.NewID()), queue.WithRequest(t.Context(), l.NewID())
		for range 2 {
			l.must(l.PutSetting(put, token("a", "1"), job.IfAbsent))
			l.must(l.PutSetting(t.Context(), token("a", "2"), job.Always))
		}
		if have := l.settingsOf("token"); have != "[{token a 2}]" {
			t.Errorf("the tokens are %s", have)
		}
		for range 2 {
			l.must(l.RemoveSetting(remove, "token", "a"))
		}
		if err := l.RemoveSetting(put, "token", "a"); !errors.Is(err, queue.ErrRequest) {
			t.Errorf("another command under the id: %v, want ErrRequest", err)
		}
	})
}

// Nobody reads what is not stored yet; who was told that it is reads it. The same again is stored no second time.
func TestSettingIsReadOnceItIsStored(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		stored := 0
		l.commit = func(b *queue.Batch) error {
			stored++
			if have := l.settingsOf("token"); have != "[]" {
				t.Errorf("before they are stored, the tokens are %s", have)
			}
			return nil
		}
		l.must(l.PutSetting(t.Context(), token("a", "1"), job.Always))
		if have := l.settingsOf("token"); have != "[{token a 1}]" {
			t.Errorf("the tokens are %s", have)
		}
		l.must(l.PutSetting(t.Context(), token("a", "1"), job.Always))
		if stored != 1 {
			t.Errorf("%d rounds were stored, want 1", stored)
		}
	})
}

func TestSettingsWithoutAnOwner(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.must(l.PutSetting(t.Context(), token("a", "1"), job.Always))
		l.stop()
		if _, err := l.Setting(t.Context(), "token", "a"); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("a queue that was closed: %v, want ErrClosed", err)
		}
		l.open()
		var retry *queue.RetryError
		if _, err := l.Settings(t.Context(), "token"); !errors.As(err, &retry) {
			t.Errorf("a queue that does not run yet: %v, want a RetryError", err)
		}
		l.start()
	})
}
