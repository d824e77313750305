package job

import "math"

// A staged build says which jobs it wants in the end, piece by piece. Until it is complete it keeps all that were made for
// it, or the first pieces would be dropped as needed by nobody before the last one comes.

// stagedOffer keeps a job, and gives it nothing else.
var stagedOffer = offer{keep: true}

// stage lets a build that is not complete keep the jobs that were made with these references.
func (m *Machine) stage(b *build) {
	for _, j := range m.fresh {
		if b.Staged && !m.loading && !j.done() {
			j.flags.set(isStaged)
			j.in.take(stagedOffer)
			m.retouch(j)
			b.staged = append(b.staged, j)
		}
	}
	m.fresh = m.fresh[:0]
}

// unstage ends that: the build is complete, or given up with a mark on its jobs.
func (m *Machine) unstage(b *build, mark flags) {
	for _, j := range b.staged {
		j.flags.clear(isStaged)
		if !j.done() {
			j.in.drop(stagedOffer)
			j.flags.set(mark)
			m.retouch(j)
		}
	}
	b.staged = nil
}

// disown marks, after a load, the jobs of builds that were not complete: they are given up without a trace. Which jobs
// those builds kept is not stored; they are the ones that nobody needs, that never ran, and that are younger.
func (m *Machine) disown() {
	oldest := int64(math.MaxInt64)
	for _, b := range m.builds {
		if b.Staged {
			oldest = min(oldest, b.Seq)
		}
	}
	for _, j := range m.unneeded {
		if j.seq > oldest && j.last == nil {
			j.flags.set(erase)
		}
	}
}
