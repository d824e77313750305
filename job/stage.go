package job

// A staged build says which jobs it wants in the end, piece by piece. Until it is complete it keeps all that were made for
// it and all that it joined, or the first pieces would be dropped as needed by nobody before the last one comes.

// stagedOffer keeps a job, and gives it nothing else.
var stagedOffer = offer{keep: true}

// staged is a job that a build keeps until it is complete.
type staged struct {
	*Job
	made bool // for the build; else it was there
}

// stage lets a build that is not complete keep a job.
func (m *Machine) stage(b *build, j *Job, made bool) {
	if b == nil || !b.Staged || j == nil || j.done() {
		return
	}
	j.stagers++
	j.in.take(stagedOffer)
	m.retouch(j)
	b.staged = append(b.staged, staged{j, made})
	if made {
		j.flags.set(unborn)
	}
}

// unstage ends that: the build is complete, or given up with a mark on its jobs. What was not made for it leaves its trace.
func (m *Machine) unstage(b *build, mark flags) {
	for _, s := range b.staged {
		j := s.Job
		j.stagers--
		if s.made {
			j.flags.clear(unborn)
		}
		if j.done() {
			continue
		}
		j.in.drop(stagedOffer)
		if s.made {
			j.flags.set(mark)
		} else {
			j.flags.set(mark &^ erase)
		}
		m.retouch(j)
	}
	b.staged = nil
}

// orphan marks, in a load, a job whose build was given up before it was complete: it leaves no trace if nobody needs it.
func (m *Machine) orphan(j *Job, made ID) {
	if m.loading && !made.IsZero() && m.builds[made] == nil && j.last == nil {
		j.flags.set(erase)
	}
}
