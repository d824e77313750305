package composer_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

func TestContractDependencies(t *testing.T) {
	parts{
		"done before": dependencyThatHasEndedHoldsNothingUp, "done after": dependentWaitsForAll, "chain": func(_ *testing.T, l *lab) {
			ids := []uuid.UUID{l.enqueue("build", "org-1")}
			for range 5 {
				ids = append(ids, l.enqueue("build", "org-1", ids...))
			}
			for _, id := range ids {
				l.takes(from("org-1", "build"), id)
				l.takesNothing(from("org-1", "build"))
				l.finish(id, nil)
			}
		},
		"twice": func(_ *testing.T, l *lab) {
			dep, other := l.enqueue("build", "org-1"), l.enqueue("build", "org-1")
			id := l.enqueue("check", "org-1", dep, other, dep, dep)
			l.same("dependencies", l.status(id).Deps, []uuid.UUID{dep, other})
			l.same("dependents", l.status(dep).Dependents, []uuid.UUID{id})
			l.finish(l.take(anywhere("build")).ID, nil)
			l.finish(l.take(anywhere("build")).ID, nil)
			l.takes(from("org-1", "check"), id)
			l.takesNothing(from("org-1", "check"))
		},
	}.run(t)
}

func dependencyThatHasEndedHoldsNothingUp(_ *testing.T, l *lab) {
	first, second := l.enqueue("build", "org-1"), l.enqueue("build", "org-2")
	l.finish(l.takes(anywhere("build"), first).ID, "one")
	l.finish(l.takes(anywhere("build"), second).ID, "two")
	before := l.isState(second, "finished", `"two"`)

	id := l.enqueue("check", "org-3", second, first)
	s := l.isState(id, "pending", "")
	l.same("dependencies", s.Deps, []uuid.UUID{second, first})
	l.same("dependents", s.Dependents, []uuid.UUID(nil))
	if s.Queued.Before(before.Finished) {
		l.Errorf("it was queued at %v, and what it depends on had finished at %v", s.Queued, before.Finished)
	}
	g := l.takes(from("org-3", "check"), id)
	l.same("dependencies", g.Deps, []uuid.UUID{second, first})
	l.same("dependencies", l.isState(id, "running", "").Deps, g.Deps)
	l.finish(id, "three")
	l.same("dependencies", l.isState(id, "finished", `"three"`).Deps, g.Deps)

	before.Dependents = []uuid.UUID{id}
	l.same("what it depends on", l.isState(second, "finished", `"two"`), before)
	s = l.isState(first, "finished", `"one"`)
	l.same("dependents", s.Dependents, []uuid.UUID{id})
	l.same("dependencies", s.Deps, []uuid.UUID(nil))
}

func dependentWaitsForAll(_ *testing.T, l *lab) {
	first, second := l.enqueue("build", "org-1"), l.enqueue("build", "org-1")
	id := l.enqueue("check", "org-1", first, second)
	other := l.enqueue("other", "org-1", first)
	l.same("dependents", l.status(first).Dependents, []uuid.UUID{id, other})
	l.same("dependents", l.status(second).Dependents, []uuid.UUID{id})
	waiter := l.waits(from("org-1", "check"))
	l.callsWait(1)
	l.takes(from("org-1", "build"), first)
	l.takes(from("org-1", "build"), second)
	l.takesNothing(from("org-1", "check", "other"))
	l.finish(second, nil)
	l.takesNothing(from("org-1", "check", "other"))
	l.same("dependencies", l.isState(id, "pending", "").Deps, []uuid.UUID{first, second})
	l.works("update", l.UpdateJobResult(first, "half"))
	l.ends(first, 1, nil, true)
	l.takesNothing(from("org-1", "check", "other"))
	l.takes(from("org-1", "build"), first)
	l.finish(first, nil)

	g := l.served(waiter)
	l.same("what is given out", g, handout{ID: id, Token: g.Token, Deps: []uuid.UUID{first, second}, Type: "check", Args: []byte("null")})
	l.takes(from("org-1", "other"), other)
	s := l.isState(id, "running", "")
	if ended := l.status(first).Finished; s.Queued.After(ended) || s.Started.Before(ended) {
		l.Errorf("it was queued at %v and started at %v; what it waited for had finished at %v", s.Queued, s.Started, ended)
	}
	l.finish(id, "done")
	l.same("dependencies", l.isState(id, "finished", `"done"`).Deps, []uuid.UUID{first, second})
	l.same("dependents", l.isState(first, "finished", "null").Dependents, []uuid.UUID{id, other})
}

// hasRoots checks that these jobs, and no others, are depended on by none.
func (l *lab) hasRoots(want ...uuid.UUID) {
	l.Helper()
	got, err := l.AllRootJobIDs(l.Context())
	l.works("all root jobs", err)
	l.same("root jobs", sorted(got...), sorted(want...))
}

func TestContractAllRootJobs(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		l.hasRoots()
		alone := l.enqueue("alone", "")
		l.hasRoots(alone)
		first := l.enqueue("build", "org-1")
		l.hasRoots(alone, first)
		left, right := l.enqueue("build", "org-1", first), l.enqueue("build", "org-2", first)
		l.hasRoots(alone, left, right)
		last := l.enqueue("build", "org-2", left, right, first)
		l.hasRoots(alone, last)
		canceled, failed := l.enqueue("build", "org-3"), l.enqueue("build", "org-4")
		l.works("cancel", l.CancelJob(canceled))
		l.works("fail", l.FailJob(failed, nil))
		l.finish(l.takes(anywhere("alone"), alone).ID, nil)
		l.takes(from("org-1", "build"), first)
		l.hasRoots(alone, last, canceled, failed)
		l.enqueue("build", "org-1", canceled, last)
		id := l.enqueue("build", "org-1", alone)
		l.works("cancel", l.CancelJob(id)) // depends on it none the less
		roots, err := l.AllRootJobIDs(l.Context())
		l.works("all root jobs", err)
		if len(roots) != 3 {
			l.Errorf("root jobs: %v, want 3", roots)
		}
	})
}

func TestContractDeleteJobs(t *testing.T) {
	parts{
		"none": func(_ *testing.T, l *lab) {
			kept := l.enqueue("build", "org-1")
			l.reports("delete no job", l.DeleteJob(l.Context(), uuid.Nil), composer.ErrNotExist)
			l.reports("delete an unknown job", l.DeleteJob(l.Context(), uuid.New()), composer.ErrNotExist)
			l.hasRoots(kept)
			l.takes(anywhere("build"), kept)
		},
		"shared": sharedDependencyIsDeletedWithTheLast, "koji": composeIsDeletedAsAWhole, "states": jobIsDeletedInAnyState,
		"needed": func(_ *testing.T, l *lab) {
			first := l.enqueue("build", "org-1")
			second := l.enqueue("check", "org-1", first)
			l.works("delete what another needs", l.DeleteJob(l.Context(), first))
			l.hasRoots(second)
			l.isState(first, "pending", "")
			l.takesNothing(anywhere("check"))
			l.finish(l.takes(anywhere("build"), first).ID, nil)
			l.takes(anywhere("check"), second)
		},
	}.run(t)
}

// deletes deletes a job, after which none of these may be there.
func (l *lab) deletes(id uuid.UUID, gone ...uuid.UUID) {
	l.Helper()
	l.works("delete", l.DeleteJob(l.Context(), id))
	for _, g := range append(gone, id) {
		l.hasNoJob(g)
		l.mayNotEnd(g, composer.ErrNotExist)
		l.reports("update", l.UpdateJobResult(g, nil), composer.ErrNotExist)
		l.reports("cancel", l.CancelJob(g), composer.ErrNotExist)
		l.reports("fail", l.FailJob(g, nil), composer.ErrNotExist)
		l.reports("delete it again", l.DeleteJob(l.Context(), g), composer.ErrNotExist)
		l.reports("dequeue", l.dequeueByID(l.Context(), g, uuid.Nil).err, composer.ErrNotExist)
	}
}

func sharedDependencyIsDeletedWithTheLast(_ *testing.T, l *lab) {
	shared := l.enqueue("build", "org-1")
	own := l.enqueue("build", "org-1")
	first, second := l.enqueue("check", "org-1", shared, own), l.enqueue("check", "org-1", shared)
	l.hasRoots(first, second)
	l.deletes(first, own)
	l.hasRoots(second)
	l.same("dependents", l.isState(shared, "pending", "").Dependents, []uuid.UUID{second})
	l.same("dependencies", l.isState(second, "pending", "").Deps, []uuid.UUID{shared})
	l.finish(l.takes(anywhere("build"), shared).ID, nil)
	l.takesNothing(anywhere("build"))
	l.takes(anywhere("check"), second)
	l.deletes(second, shared)
	l.hasRoots()
	l.takesNothing(anywhere("build", "check"))
}

func composeIsDeletedAsAWhole(_ *testing.T, l *lab) {
	other := l.enqueue("koji-init", "org-2")
	start := l.enqueue("koji-init", "org-1")
	finalize, all := []uuid.UUID{start}, []uuid.UUID{start}
	for range 2 {
		depsolve := l.enqueue("depsolve", "org-1", start)
		manifest := l.enqueue("manifest", "org-1", depsolve, start)
		image := l.enqueue("osbuild", "org-1", manifest, start)
		finalize, all = append(finalize, image), append(all, depsolve, manifest, image)
	}
	last := l.enqueue("koji-finalize", "org-1", finalize...)
	l.hasRoots(other, last)
	l.finish(l.takes(from("org-1", "koji-init"), start).ID, nil)
	l.finish(l.take(from("org-1", "depsolve")).ID, nil)
	token := l.take(from("org-1", "manifest")).Token
	l.deletes(last, all...)
	l.isGone(token)
	l.hasRoots(other)
	l.takesNothing(from("org-1", "koji-init", "depsolve", "manifest", "osbuild", "koji-finalize"))
	l.takes(from("org-2", "koji-init"), other)
}

func jobIsDeletedInAnyState(_ *testing.T, l *lab) {
	var ids []uuid.UUID
	for range 6 {
		ids = append(ids, l.enqueue("build", "org-1"))
	}
	running, finished, failed, canceled, stopping := ids[1], ids[2], ids[3], ids[4], ids[5] // the first is pending
	tokens := []uuid.UUID{l.takeByID(running, uuid.Nil).Token, l.takeByID(stopping, uuid.Nil).Token, l.takeByID(finished, uuid.Nil).Token}
	l.finish(finished, nil)
	l.works("fail", l.FailJob(failed, nil))
	l.works("cancel", l.CancelJob(canceled))
	l.works("cancel", l.CancelJob(stopping))
	for _, id := range ids {
		l.deletes(id)
	}
	for _, token := range tokens {
		l.isGone(token)
		l.RefreshHeartbeat(token)
	}
	l.same("heartbeats", l.Heartbeats(0), []uuid.UUID(nil))
	l.hasRoots()
	l.takesNothing(anywhere("build"))
}
