package main

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// remains is what outlives the server elsewhere than in the store: what its users know, and what a worker has in its hands.
type remains struct {
	First, Second uuid.UUID // the last job of each compose
	Iso           task
}

// firstLife is what happens until the server is stopped.
func firstLife(ctx context.Context, s *server) (left remains, err error) {
	if left.First, err = s.compose("org-1", "ami", "qcow2", "vhd", "iso"); err != nil {
		return left, err
	}
	if left.Second, err = s.compose("org-2", "container"); err != nil {
		return left, err
	}

	// Anna dies in the middle of an image. Nobody tells the server.
	anna := s.hire("anna", "org-1")
	anna.do = func(t *task, inputs []result) (result, error) {
		if t.Name == "qcow2" {
			anna.say("%s: dies", t.Name)
			return result{}, errGone
		}
		return anna.build(t, inputs)
	}
	if err := anna.work(ctx); err != nil {
		return left, err
	}
	if err := s.untilLost(ctx, 200*time.Millisecond); err != nil {
		return left, err
	}

	if err := cancelled(ctx, s, left.Second); err != nil {
		return left, err
	}

	// Bert cannot build one image, and builds another while the server stops.
	bert := s.hire("bert", "org-1")
	bert.do = func(t *task, inputs []result) (result, error) {
		switch t.Name {
		case "vhd":
			bert.say("%s: no space left", t.Name)
			return result{JobError: &jobError{10, "no space left for vhd"}}, nil
		case "iso":
			left.Iso = *t
			bert.say("%s: half of it is built", t.Name)
			if err := bert.door.UpdateJobResult(t.ID, result{Percent: 50}); err != nil {
				return result{}, err
			}
			return result{}, errGone // for now
		}
		return bert.build(t, inputs)
	}
	if err := bert.work(ctx); err != nil {
		return left, err
	}
	s.say("ends")
	return left, nil
}

// cancelled has a compose cancelled while a worker is at it, which learns of that when it next asks.
func cancelled(ctx context.Context, s *server, last uuid.UUID) error {
	ctx, goHome := context.WithCancel(ctx)
	defer goHome()
	began := make(chan struct{})
	carl := s.hire("carl", "org-2")
	carl.do = func(t *task, _ []result) (result, error) {
		defer goHome() // he takes no other job
		carl.say("%s: begins", t.Name)
		close(began)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			wanted, err := carl.beat(t)
			if err != nil || !wanted {
				return result{}, err
			}
			select {
			case <-ctx.Done():
				return result{}, ctx.Err()
			case <-tick.C:
			}
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- carl.work(ctx) }()

	select {
	case err := <-ended:
		return err // he has not begun
	case <-began:
	}
	s.say("the compose of org-2 is cancelled")
	if err := s.cancel(last); err != nil {
		goHome()
		<-ended
		return err
	}
	return <-ended
}

// secondLife is what happens when the server is there again.
func secondLife(ctx context.Context, s *server, left remains) error {
	s.say("is there again")
	r, err := resultOf(s.composes, left.Iso.ID)
	if err != nil {
		return err
	}
	s.say("%s is at %d %%", left.Iso.Name, r.Percent)
	for _, last := range []uuid.UUID{left.First, left.Second} {
		if err := s.report(last); err != nil {
			return err
		}
	}

	// Bert has built on. His token is as good as it was.
	ctx, goHome := context.WithCancel(ctx)
	defer goHome()
	bert := s.hire("bert", "org-1")
	bert.do = func(t *task, inputs []result) (result, error) {
		if t.Type == upload {
			defer goHome()
		}
		return bert.build(t, inputs)
	}
	bert.say("%s: the other half is built, too", left.Iso.Name)
	if err := bert.finish(&left.Iso, result{Image: left.Iso.Name}); err != nil {
		return err
	}
	if err := bert.work(ctx); err != nil {
		return err
	}
	return s.report(left.First)
}

// hire gives a worker who knows how to build.
func (s *server) hire(name, channel string) *worker {
	w := &worker{name: name, channel: channel, door: s.workers, out: s.out}
	w.do = w.build
	return w
}

// untilLost has the watchdog look until it finds somebody silent.
func (s *server) untilLost(ctx context.Context, silent time.Duration) error {
	tick := time.NewTicker(silent)
	defer tick.Stop()
	for {
		if n, err := s.watch(silent); n > 0 || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
