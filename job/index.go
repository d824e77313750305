package job

import "hash/maphash"

// index finds the unfinished job of an identity. It is keyed by a hash, as a million identities would weigh more
// than all else that is known of their jobs; the few that share a hash hang on one another.
type index struct {
	seed maphash.Seed // differs from run to run; nothing that is decided depends on it
	jobs map[uint64]*Job
}

func newIndex() index { return index{maphash.MakeSeed(), map[uint64]*Job{}} }

func (x *index) hash(i Identity) uint64 {
	var h maphash.Hash
	h.SetSeed(x.seed)
	for _, s := range []string{i.Channel, i.Kind, i.Key} {
		h.WriteString(s)
		h.WriteByte(0)
	}
	return h.Sum64()
}

func (x *index) get(i Identity) *Job { return x.find(x.hash(i), i) }

// find is get where the hash is known.
func (x *index) find(h uint64, i Identity) *Job {
	for j := x.jobs[h]; j != nil; j = j.twin {
		if j.Identity() == i {
			return j
		}
	}
	return nil
}

// put takes the job in, by the hash of its identity; no other of that may be there.
func (x *index) put(h uint64, j *Job) {
	j.twin = x.jobs[h]
	x.jobs[h] = j
}

// remove takes the job out, if it is there.
func (x *index) remove(j *Job) {
	h := x.hash(j.Identity())
	at := x.jobs[h]
	if at == j {
		if j.twin == nil {
			delete(x.jobs, h)
		} else {
			x.jobs[h] = j.twin
		}
	}
	for ; at != nil && at != j; at = at.twin {
		if at.twin == j {
			at.twin = j.twin
		}
	}
	j.twin = nil
}

// len counts the jobs.
func (x *index) len() int {
	n := 0
	for _, j := range x.jobs {
		for ; j != nil; j = j.twin {
			n++
		}
	}
	return n
}
