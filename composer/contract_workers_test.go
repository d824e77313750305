package composer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

func TestContractWorkers(t *testing.T) {
	parts{
		"list": workersAreListed, "status": workerWithNewStatusIsNotOld, "busy": busyWorkerStays, "others": workerIsBusyWithItsOwnJobs,
		"unknown": func(_ *testing.T, l *lab) {
			for _, id := range []uuid.UUID{uuid.Nil, uuid.New(), l.enqueue("build", "org-1")} {
				l.reports("status of an unknown worker", l.UpdateWorkerStatus(id), composer.ErrWorkerNotExist)
				l.reports("delete an unknown worker", l.DeleteWorker(id), composer.ErrWorkerNotExist)
			}
			id := l.enqueue("build", "org-1")
			l.takeByID(id, uuid.New())
			g := l.take(from("org-1", "build").by(uuid.New()))
			l.resolves(g.Token, g.ID)
			l.hasWorkers()
		},
	}.run(t)
}

func (l *lab) inserts(channel, arch string) worker {
	l.Helper()
	id, err := l.InsertWorker(channel, arch)
	l.works("insert a worker", err)
	if id == uuid.Nil {
		l.Fatal("the worker has no id")
	}
	return worker{id, channel, arch}
}

func (l *lab) workersOlderThan(d time.Duration) []worker {
	l.Helper()
	list, err := l.Workers(d)
	l.works("workers", err)
	if list == nil {
		l.Fatal("the list of workers is nil")
	}
	return list
}

// listsWorkers waits until exactly these workers were not heard of for longer than a time.
func (l *lab) listsWorkers(olderThan time.Duration, want ...worker) {
	l.Helper()
	byID := func(a, b worker) int { return slices.Compare(a.ID[:], b.ID[:]) }
	want = slices.SortedFunc(slices.Values(want), byID)
	l.comesTo("the workers are listed", func() bool {
		got := slices.SortedFunc(slices.Values(l.workersOlderThan(olderThan)), byID)
		return slices.Equal(got, want)
	})
}

// hasWorkers checks that these workers are known, and no others.
func (l *lab) hasWorkers(want ...worker) {
	l.Helper()
	l.listsWorkers(0, want...)
	l.same("workers of a day", l.workersOlderThan(24*time.Hour), []worker(nil))
}

func workersAreListed(_ *testing.T, l *lab) {
	l.hasWorkers()
	first := l.inserts("org-1", "x86_64")
	l.hasWorkers(first)
	second := l.inserts("org-1", "aarch64")
	twin := l.inserts("org-1", "x86_64")
	bare := l.inserts("", "")
	l.hasWorkers(first, second, twin, bare)
	l.listsWorkers(50*time.Millisecond, first, second, twin, bare)
	l.works("delete", l.DeleteWorker(second.ID))
	l.hasWorkers(first, twin, bare)
	l.reports("delete it again", l.DeleteWorker(second.ID), composer.ErrWorkerNotExist)
	l.reports("its status", l.UpdateWorkerStatus(second.ID), composer.ErrWorkerNotExist)
	l.hasWorkers(first, twin, bare)
}

func workerWithNewStatusIsNotOld(_ *testing.T, l *lab) {
	const old = 50 * time.Millisecond
	first, second := l.inserts("org-1", "x86_64"), l.inserts("org-1", "x86_64")
	l.listsWorkers(old, first, second)
	l.comesTo("they are listed soon after the status", func() bool {
		began := time.Now()
		l.works("status", l.UpdateWorkerStatus(first.ID))
		list := l.workersOlderThan(old)
		if time.Since(began) > old {
			return false // nobody knows how old it was
		}
		l.same("workers that are old", list, []worker{second})
		return true
	})
	l.listsWorkers(old, first, second)
}

func busyWorkerStays(_ *testing.T, l *lab) {
	w := l.inserts("org-1", "x86_64")
	ends := map[string]func(id uuid.UUID){
		"finished": func(id uuid.UUID) { l.finish(id, nil) },
		"requeued": func(id uuid.UUID) { l.ends(id, 1, nil, true); l.works("fail", l.FailJob(id, nil)) },
		"canceled": func(id uuid.UUID) { l.works("cancel", l.CancelJob(id)) },
		"deleted":  func(id uuid.UUID) { l.works("delete", l.DeleteJob(l.Context(), id)) },
	}
	for how, end := range ends {
		for _, take := range []func(id uuid.UUID){
			func(id uuid.UUID) { l.takes(from("org-1", "build").by(w.ID), id) },
			func(id uuid.UUID) { l.takes(anywhere("build").by(w.ID), id) },
			func(id uuid.UUID) { l.takeByID(id, w.ID) },
		} {
			idle := l.inserts("org-1", "x86_64")
			id := l.enqueue("build", "org-1")
			take(id)
			l.reports("delete a busy worker", l.DeleteWorker(w.ID), composer.ErrActiveJobs)
			l.works("its status", l.UpdateWorkerStatus(w.ID))
			l.hasWorkers(w, idle)
			l.isState(id, "running", "")
			l.works("delete an idle worker", l.DeleteWorker(idle.ID))
			end(id)
			l.works("delete a worker whose job was "+how, l.DeleteWorker(w.ID))
			l.hasWorkers()
			w = l.inserts("org-1", "x86_64")
		}
	}
}

func workerIsBusyWithItsOwnJobs(_ *testing.T, l *lab) {
	first, second := l.inserts("org-1", "x86_64"), l.inserts("org-2", "x86_64")
	var ids []uuid.UUID
	for range 3 {
		ids = append(ids, l.enqueue("build", "org-1"))
	}
	l.takes(from("org-1", "build").by(first.ID), ids[0])
	l.takes(anywhere("build", "check").by(first.ID), ids[1])
	l.takes(from("org-1", "build").by(second.ID), ids[2]) // its channel is no bound
	l.finish(ids[0], nil)
	l.reports("delete a worker with one job left", l.DeleteWorker(first.ID), composer.ErrActiveJobs)
	l.finish(ids[1], nil)
	l.works("delete", l.DeleteWorker(first.ID))
	l.reports("delete the other", l.DeleteWorker(second.ID), composer.ErrActiveJobs)
	l.hasWorkers(second)
	l.finish(ids[2], nil)
	l.takes(from("org-1", "build").by(first.ID), l.enqueue("build", "org-1")) // who is not known any more is served
	l.works("delete the other", l.DeleteWorker(second.ID))
	l.hasWorkers()
}
