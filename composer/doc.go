// Package composer is osbuild-composer's job queue on an engine of package queue: the 19 methods of its interface JobQueue, as
// far as its contract suite says what they do, and otherwise with what loses nothing. It keeps no state of its own but when workers
// were last heard of, and which leases somebody was told of: all else is the engine's, and so durable, done once, and fenced.
//
// The interface is that of osbuild-composer's pkg/jobqueue at its main branch of 2026-08-21. A checkout of it needs no wrapper:
//
//	q := composer.New[jobqueue.Worker](engine, store, composer.Errors{NotExist: jobqueue.ErrNotExist, ...})
//	var _ jobqueue.JobQueue = q
//
// The two implementations of upstream, one on files and one on PostgreSQL, differ. Where the suite asserts something, that is done;
// else what is said here:
//
//	what                              files             PostgreSQL        here
//	unknown dependency                ErrNotExist       SQL error         ErrNotExist; there is no job
//	a dependency twice                handed out twice  listed twice      it counts, and is listed, once, in the first place
//	a dependency is cancelled         waits for ever    waits for ever    its dependents are released, as by any end
//	nil arguments, nil result         null              NULL              null
//	arguments and results in bytes    kept / base64     normalised        JSON is kept to the letter; else refused
//	string arguments                  a JSON string     raw text          a JSON string
//	\u0000 in arguments               kept              refused           kept
//	types, channels, architectures    any string        any string        any string of at most 128 bytes, told apart to the letter (below)
//	size of arguments and results     no limit          1 GB              at most 16 MiB, of a partial result some bytes less
//	unknown worker in Dequeue         served            SQL error         served, as nobody in particular
//	requeued job                      at the back       at the front      at the back, behind what waits by then
//	partial result of a lost attempt  stays             stays             is gone
//	order after a restart             lost              kept              kept
//	DequeueByID of a cancelled job    starts it         ErrNotPending     ErrNotPending
//	DequeueByID, unknown              ErrNotExist       ErrNotPending     ErrNotExist
//	DequeueByID when ctx has ended    starts it         ErrDequeueTimeout ErrDequeueTimeout
//	CancelJob, unknown                ErrNotExist       ErrNotRunning     ErrNotExist
//	CancelJob, finished               ErrNotRunning     ErrNotRunning     ErrNotRunning
//	FailJob                           by state          ErrNotRunning     ErrNotExist, ErrRunning, ErrFinished or ErrCanceled
//	FailJob: who waits for the job    waits on          waits on          is released
//	token of a cancelled job          until a restart   gone at once      good until its worker finishes, at most for 5 minutes; after a restart, 90 s
//	finish of a cancelled job         ErrCanceled       ErrCanceled       ErrCanceled, and its worker is free
//	JobStatus, unknown                ErrNotExist       SQL error         ErrNotExist
//	workers, their jobs               in memory         stored            stored; each is heard of at a restart
//	DeleteWorker, unknown             ErrWorkerNotExist ErrActiveJobs     ErrWorkerNotExist
//	DeleteWorker, its job cancelled   ErrActiveJobs     ErrActiveJobs     deleted
//	DeleteJob, unknown                OS error          nil               ErrNotExist
//	DeleteJob while others need it    nothing           deleted           nothing
//	DeleteJob of a running job        token stays       token goes        cancelled first; its token goes
//	DeleteJob, cut off in the middle  jobs are left     jobs are left     all is there, or nothing; of more than 100 jobs: a repeat goes on
//	two end one attempt at once       the second: error the second: error the second: ErrNotRunning
//	retention                         never             breaks graphs     Expire: nothing of a graph of which any job has not ended
//
// And why:
//
//	unknown dependency                the suite wants an error; of the two, the one that callers can tell
//	a dependency twice                two workers must not run one job, and dependencies are listed as they count
//	a dependency is cancelled         nothing would ever release them, and composer reads how each of them ended
//	nil arguments, nil result         the suite wants null, and what reads the result cannot read nothing
//	arguments and results in bytes    nothing is lost; what is no JSON could be stored and never be read
//	string arguments                  it is what they are, and comes back so
//	\u0000 in arguments               logs have it, and JSON allows it
//	types, channels, architectures    they are stored in indexes, which bound a key
//	size of arguments and results     one caller must not fill the memory of all
//	unknown worker in Dequeue         a worker whose registration was lost still works
//	requeued job                      one that kills its workers must not hold up the others
//	partial result of a lost attempt  it is not of the attempt that comes
//	order after a restart             first come, first served is promised
//	DequeueByID of a cancelled job    it must not run
//	DequeueByID, unknown              the interface has a word for it; so for CancelJob, JobStatus, DeleteWorker and DeleteJob
//	DequeueByID when ctx has ended    nobody is there to run it
//	CancelJob, finished               the suite wants it, though the interface says that nothing happens
//	FailJob                           callers learn which it was; a job has one end
//	FailJob: who waits for the job    it has ended, and nothing would ever release them
//	token of a cancelled job          its worker is to stop, and learns of it by its token alone; a watchdog waits for 2 minutes
//	finish of a cancelled job         the suite wants the error; the worker has said that it is over
//	workers, their jobs               a busy worker must not be forgotten, nor a dead one be kept
//	DeleteWorker, its job cancelled   it has nothing left to do; else it could never be deleted
//	DeleteJob while others need it    they could not read what came of it
//	DeleteJob of a running job        a token without a job can neither be finished nor time out
//	DeleteJob, cut off in the middle  what is left would be found by nobody, or would run
//	two end one attempt at once       one result is stored, and whose is not must not think so
//	retention                         what lives needs what it depends on
//
// Of jobs that share a dependency and are deleted at the same time the last takes it along. If the answer to Dequeue is lost, as the owner of
// the store changes just then, whoever waits on has that job, or it is pending again, and no retry is spent.
//
// What is refused is told by a *job.InvalidError, and changes nothing: a type, a channel or an architecture of more than 128 bytes, of which
// control characters, percent signs, what is no UTF-8 and, but for channels, blanks count three times, as the engine knows them as in a URL;
// more than 64 different types in one call of Dequeue; and what is larger than 16 MiB. A worker whose result is refused still has its job:
// a server should store an error in its place.
//
// Several processes may not share a store: the second is refused, with the host and the process number of the first. Start reading at
// jobqueue.go; roster.go tells how composer's workers are the engine's.
package composer
