package job

import (
	"testing"
	"time"
)

// Each legal transition is a method of the state that it leaves; what it carries arrives.
func TestTransitionsCarryWhatTheyGet(t *testing.T) {
	t.Parallel()
	a, e := &Attempt{Number: 1}, &End{Outcome: Failed}
	for _, c := range []struct {
		got, want State
	}{
		{Blocked{}.Release(), Ready{}},
		{Blocked{}.End(e), Done{e}},
		{Ready{}.Block(), Blocked{}},
		{Ready{}.Start(a), Running{a}},
		{Ready{}.End(e), Done{e}},
		{Running{a}.Again(), Blocked{}},
		{Running{a}.End(e), Done{e}},
	} {
		if c.got != c.want {
			t.Errorf("got %#v, want %#v", c.got, c.want)
		}
	}
}

// gallery is a machine with a job in each place that a job can be.
type gallery struct {
	*lab
	jobs map[string]ID
}

func newGallery(t *testing.T) *gallery {
	t.Helper()
	g := &gallery{newLab(t), map[string]ID{}}
	g.worker("w", 5)
	ready, running, held := g.spec("ready"), g.spec("running"), g.spec("held")
	blocked := g.spec("blocked", Need{Job: ready.ID})
	if _, err := g.submit(Build{}, []Spec{ready, running, held, blocked}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{ready, running, held, blocked} {
		g.jobs[s.Name] = s.ID
	}
	g.start(running.ID, "w")
	g.start(held.ID, "w")
	g.must(g.m.CancelJob(g.now, held.ID, ID{}, true, ""))
	g.jobs["unknown"] = ID{0xff}
	return g
}

// A change that does not fit the state of its job is an error and changes nothing.
func TestApplyOfAnIllegalChangeChangesNothing(t *testing.T) {
	t.Parallel()
	legal := map[string]map[string]bool{ // by change: where it is legal
		"JobKept":     {"blocked": true, "ready": true, "running": true},
		"JobReleased": {"blocked": true},
		"JobBlocked":  {"ready": true},
		"JobStarted":  {"ready": true},
		"JobRetried":  {"running": true},
		"JobEnded":    {"blocked": true, "ready": true, "running": true},
		"JobHeld":     {"running": true},
		"JobFreed":    {"held": true},
		"JobSettled":  {},
		"JobProgress": {"running": true},
		"JobAdded":    {"unknown": true},
		"JobTwin":     {"held": true},
	}
	for what, where := range legal {
		for place, id := range newGallery(t).jobs {
			g := newGallery(t)
			before := g.m.dump()
			err := g.m.Apply(g.changeOf(what, id))
			switch after := g.m.dump(); {
			case (err == nil) != where[place]:
				t.Errorf("%s of a job that is %s: %v, want legal: %t", what, place, err, where[place])
			case err != nil && after != before:
				t.Errorf("%s of a job that is %s changed something:\n%s", what, place, after)
			}
		}
	}
}

func (g *gallery) changeOf(what string, id ID) Change {
	a := Attempt{Number: 1, Worker: "w", Start: g.now, Groups: []string{""}}
	end := AttemptEnd{Attempt: a, At: g.now, Outcome: Aborted}
	return map[string]Change{
		"JobKept":     JobKept{Job: id},
		"JobReleased": JobReleased{Job: id},
		"JobBlocked":  JobBlocked{Job: id},
		"JobStarted":  JobStarted{Job: id, Attempt: a},
		"JobRetried":  JobRetried{Job: id, Attempt: end},
		"JobEnded":    JobEnded{Job: id, End: End{Outcome: Failed}},
		"JobHeld":     JobEnded{Job: id, End: End{Outcome: Failed}, Attempt: &end, Held: true},
		"JobFreed":    JobFreed{Job: id},
		"JobSettled":  JobSettled{Job: id},
		"JobProgress": JobProgress{Job: id},
		"JobAdded":    JobAdded{Record{Spec: Spec{ID: id, Kind: "k"}, Seq: 99}},
		"JobTwin":     JobAdded{Record{Spec: Spec{ID: ID{0xee}, Kind: "k", Key: g.keyOf(id)}, Seq: 99}},
	}[what]
}

// keyOf gives an identity's key that an unfinished job has; a held job's is free again.
func (g *gallery) keyOf(id ID) string {
	if j := g.m.jobs[id]; j != nil {
		return j.Identity().Key
	}
	return g.m.jobs[g.jobs["ready"]].Identity().Key
}

// The same for builds, and for records that no store may give.
func TestApplyOfAnIllegalBuildOrRecordChangesNothing(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	live, nobody := g.m.Builds()[0].Build.ID, ID{0xff}
	before := g.m.dump()
	for what, c := range map[string]Change{
		"a build that is there":             BuildAdded{BuildRecord{Build: Build{ID: live}}},
		"sealing what is complete":          BuildSealed{live},
		"activating what is under way":      BuildActivated{live},
		"sealing what is not there":         BuildSealed{nobody},
		"activating what is not there":      BuildActivated{nobody},
		"bumping what is not there":         BuildBumped{nobody, 1},
		"ending what is not there":          BuildEnded{Build: nobody},
		"a running record, no attempt":      JobAdded{Record{Spec: Spec{ID: nobody}, Running: true}},
		"a held record, no attempt":         JobAdded{Record{Spec: Spec{ID: nobody}, End: &End{}, Held: true}},
		"no change at all, as of a new era": nil,
	} {
		if err := g.m.Apply(c); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if after := g.m.dump(); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

// Q5: at each moment of a long life a running job has exactly one lease, and nobody else has any: FuzzMachine checks it after
// each command. Here the moments around a cancel.
func TestQ5AHeldAttemptKeepsItsOneLease(t *testing.T) {
	t.Parallel()
	g := newGallery(t)
	g.check()
	if n := g.m.Used("w"); n != 2 {
		t.Errorf("%d slots are taken by a running and a held attempt, want 2", n)
	}
	g.pass(DefaultTTL + time.Minute)
	g.check()
	if n := g.m.Used("w"); n != 0 {
		t.Errorf("%d slots are taken after all leases ended, want 0", n)
	}
}
