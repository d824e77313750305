package job

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzMachine plays bytes as commands. The machine must neither panic nor refuse its own changes, and what check
// holds must be true after each.
func FuzzMachine(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		seed := make([]byte, 1500)
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const longest = 4000 // bytes; a longer history tests the patience of the fuzzer
		p := &player{lab: newLab(t), data: data[:min(len(data), longest)]}
		for _, n := range []string{"w0", "w1", "w2"} {
			p.worker(n, 2)
		}
		for len(p.data) > 0 && !t.Failed() {
			p.command()
			p.check()
		}
		if t.Failed() {
			t.Logf("after %d changes, the last:\n%+v", len(p.list), p.list[max(0, len(p.list)-20):])
		}
	})
}

// player makes commands of bytes.
type player struct {
	*lab
	data   []byte
	jobs   []ID
	builds []ID
	leases []Lease
}

func (p *player) next() int {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return int(b)
}

func (p *player) pick(n int) int { return p.next() % max(n, 1) }

func pickOf[T any](p *player, list []T) (v T) {
	if len(list) == 0 {
		return v
	}
	return list[p.pick(len(list))]
}

func (p *player) name() string { return fmt.Sprintf("w%d", p.pick(3)) }

// lease picks one of the newest.
func (p *player) lease() Lease { return pickOf(p, p.leases[max(0, len(p.leases)-6):]) }

func (p *player) command() {
	switch p.pick(17) {
	case 0, 1, 2:
		p.submission()
	case 3:
		w := Worker{
			Name: p.name(), Channels: []string{"", "fifo"}, Kinds: []string{"k"}, Systems: []string{"x", "y"}[:p.pick(3)],
			Slots: int32(1 + p.pick(3)), Session: ID{byte(1 + p.pick(3))},
		}
		var running []Lease
		if p.pick(2) == 0 {
			running = p.leases
		}
		// Whoever comes back with fewer slots than it has attempts keeps them; the check allows it to drained ones only.
		if p.m.Used(w.Name) > int(w.Slots) {
			return
		}
		_ = p.do(p.m.Register(p.at(), w, running))
	case 4, 5, 6:
		p.work()
	case 7, 8, 9:
		f := Report{Lease: p.lease(), Outcome: Outcome(1 + p.pick(7)), Detail: Detail(p.pick(13)), NoRetry: p.pick(8) == 0}
		_, _ = p.finish(f)
	case 10:
		_ = p.m.Renew(p.now, p.lease(), p.now)
	case 11:
		_ = p.do(p.m.CancelJob(p.now, pickOf(p, p.jobs[max(0, len(p.jobs)-20):]), pickOf(p, p.builds), p.pick(2) == 0, ""))
	case 12:
		_ = p.do(p.m.CancelBuild(p.now, pickOf(p, p.builds[max(0, len(p.builds)-10):]), p.pick(2) == 0))
	case 13:
		_ = p.do(p.m.Bump(pickOf(p, p.builds), int32(p.pick(5))-2))
	case 14:
		p.pass([]time.Duration{0, time.Second, 30 * time.Second, 90 * time.Second, time.Hour, 25 * time.Hour}[p.pick(6)])
	case 15:
		p.settings()
	case 16:
		_ = p.do(p.m.FailJob(p.now, pickOf(p, p.jobs), "", nil))
	}
}

func (p *player) settings() {
	switch p.pick(8) {
	case 0:
		_ = p.do(p.m.Drain(p.name(), p.pick(2) == 0))
	case 1:
		_ = p.do(p.m.Pardon(p.name()))
	case 2:
		_ = p.do(p.m.RemoveWorker(p.at(), p.name(), p.pick(2) == 0))
	case 3:
		c := DefaultChannel([]string{"", "fifo"}[p.pick(2)])
		c.Grace = []time.Duration{-1, 0, time.Minute}[p.pick(3)]
		c.Paused, c.CallerJudges = p.pick(2) == 0, p.pick(4) == 0
		p.must(p.m.SetChannel(c))
	case 4:
		_ = p.do(p.m.Seal(pickOf(p, p.builds[max(0, len(p.builds)-4):])))
	case 5:
		_ = p.do(p.m.Progress(p.now, pickOf(p, p.leases), nil))
	case 6:
		s := Setting{Space: "s", Name: p.name(), Body: []byte{byte(p.pick(2))}}
		_ = p.do(p.m.PutSetting(s, Condition(p.pick(4))))
	case 7:
		_ = p.do(p.m.RemoveSetting("s", p.name()))
	}
}

// work starts a job that is ready, if a worker can take it.
func (p *player) work() {
	var ready []*Job
	for _, j := range p.m.Jobs() {
		if _, ok := j.state.(Ready); ok {
			ready = append(ready, j)
		}
	}
	if len(ready) == 0 {
		return
	}
	j, token := pickOf(p, ready), Token(p.id())
	for _, n := range p.m.Workers() {
		if err := p.do(p.m.Start(p.at(), j.id, n, token)); err == nil {
			p.leases = append(p.leases, Lease{j.id, j.last.Number, token})
			return
		}
	}
}

// submission asks for some jobs that need earlier ones, now and then under a key that is in use.
func (p *player) submission() {
	s := Submission{}
	switch p.pick(4) {
	case 0:
		s.Own = Own{Priority: int32(p.pick(3)), Group: "own"}
	case 1:
		s.Build = &Build{ID: pickOf(p, append(p.builds, p.id()))}
		s.Staged = p.pick(3) == 0
	default:
		s.Build = &Build{ID: p.id(), Group: []string{"red", "blue"}[p.pick(2)], Priority: int32(p.pick(5))}
		s.Staged = p.pick(4) == 0
		if p.pick(4) == 0 {
			s.Build.Limits = Limits{Timeout: 40 * time.Second, Silence: 20 * time.Second}
		}
		if p.pick(3) == 0 {
			s.Build.Gate = Gate{"g", int32(1 + p.pick(2))}
		}
	}
	for range 1 + p.pick(5) {
		j := Spec{ID: p.id(), Name: fmt.Sprintf("j%d", p.ids), Kind: "k", Channel: []string{"", "", "fifo"}[p.pick(3)]}
		j.System = []string{"", "x", "y"}[p.pick(3)]
		if p.pick(3) == 0 {
			j.Key = fmt.Sprintf("key%d", p.pick(4))
		}
		if p.pick(6) == 0 {
			j.NotBefore = p.now.Add(time.Minute)
		}
		for range p.pick(4) {
			if len(p.jobs)+len(s.Jobs) > 0 {
				j.Needs = append(j.Needs, Need{Job: p.need(s.Jobs), Policy: Policy(p.pick(3))})
			}
		}
		s.Jobs = append(s.Jobs, j)
	}
	if s.Build != nil {
		for range p.pick(4) {
			s.Refs = append(s.Refs, Ref{
				Job: p.need(s.Jobs), Optional: p.pick(4) == 0, Awaited: p.pick(4) == 0, Priority: int32(p.pick(3)),
			})
		}
	}
	changes, reply, err := p.m.Submit(p.now, &s, nil)
	if p.do(changes, err) != nil {
		return
	}
	for _, r := range reply {
		p.jobs = append(p.jobs, r.ID)
	}
	if s.Build != nil {
		p.builds = append(p.builds, s.Build.ID)
	}
}

// need picks a job of this submission, itself included, or an older one.
func (p *player) need(here []Spec) ID {
	if len(p.jobs) == 0 || p.pick(2) == 0 && len(here) > 0 {
		return pickOf(p, here).ID
	}
	recent := p.jobs[max(0, len(p.jobs)-12):]
	return pickOf(p, recent)
}

// A refused command changes nothing.
func TestRefusedCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	a := l.spec("a")
	if _, err := l.submit(Build{}, []Spec{a}); err != nil {
		t.Fatal(err)
	}
	before := l.m.dump()
	nobody := ID{0xff}
	for what, refused := range map[string]func() ([]Change, error){
		"start":   func() ([]Change, error) { return l.m.Start(l.at(), nobody, "w", Token{1}) },
		"cancel":  func() ([]Change, error) { return l.m.CancelJob(l.now, nobody, ID{}, true, "") },
		"build":   func() ([]Change, error) { return l.m.CancelBuild(l.now, nobody, false) },
		"bump":    func() ([]Change, error) { return l.m.Bump(nobody, 1) },
		"fail":    func() ([]Change, error) { return l.m.FailJob(l.now, nobody, "", nil) },
		"seal":    func() ([]Change, error) { return l.m.Seal(nobody) },
		"drain":   func() ([]Change, error) { return l.m.Drain("nobody", true) },
		"remove":  func() ([]Change, error) { return l.m.RemoveWorker(l.at(), "nobody", true) },
		"pardon":  func() ([]Change, error) { return l.m.Pardon("nobody") },
		"channel": func() ([]Change, error) { return l.m.SetChannel(Channel{}) },
		"put":     func() ([]Change, error) { return l.m.PutSetting(Setting{Space: "s", Name: "n"}, IfPresent) },
		"forget":  func() ([]Change, error) { return l.m.RemoveSetting("s", "n") },
		"delete":  func() ([]Change, error) { return l.m.DeleteJob(a.ID, nil, nil) },
	} {
		changes, err := refused()
		if err == nil || len(changes) > 0 {
			t.Errorf("%s: %v, %d changes, want a refusal", what, err, len(changes))
		}
	}
	_, _, err := l.m.Submit(l.now, &Submission{Jobs: []Spec{l.spec("b", Need{Job: nobody})}}, nil)
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("submit: %v, want ErrNotFound", err)
	}
	if after := l.m.dump(); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}
