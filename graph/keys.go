package graph

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
)

// Keys gives the identity of each job, in the order of Jobs: the same over runs, files and orders of a
// file as long as the work is the same.
//
// It is "key:" and Job.Key if that is given. Else it is 64 hexadecimal digits, the SHA-256 of what makes
// the work: name, command, environment, dir, system, features, outputs, and the identities of the jobs
// that it waits for, with their policies. So a job also changes when what it is built from does. What
// only says how to run it is left out: priority, limits, retries, exclusive, optional, order needs.
func (g *Graph) Keys() []string {
	keys := make([]string, len(g.Jobs))
	for i := range g.Jobs {
		if j := &g.Jobs[i]; j.Key != "" {
			keys[i] = "key:" + j.Key
		} else {
			// What it waits for comes before it in Jobs.
			keys[i] = j.fingerprint(keys)
		}
	}
	return keys
}

func (j *Job) fingerprint(keys []string) string {
	var needs []string
	for _, n := range j.Needs {
		if n.waits() {
			needs = append(needs, n.Policy.String()+" "+keys[n.Job])
		}
	}
	slices.Sort(needs)
	f := fingerprint{sha256.New()}
	// The version of what follows: change it whenever that changes.
	f.text("headrace job 1")
	f.text(j.Name)
	f.text(j.Run.Shell)
	f.texts(j.Run.Argv)
	f.count(len(j.Env))
	for _, v := range j.Env {
		f.text(v.Name)
		f.text(v.Value)
	}
	f.text(j.Dir)
	f.text(j.System)
	f.texts(j.Features)
	f.texts(j.Outputs)
	f.texts(needs)
	return hex.EncodeToString(f.Sum(nil))
}

// fingerprint writes each text after its length, so that no two lists of texts look the same.
type fingerprint struct {
	hash.Hash
}

func (f fingerprint) count(n int) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	f.Write(b[:])
}

func (f fingerprint) text(s string) {
	f.count(len(s))
	f.Write([]byte(s))
}

func (f fingerprint) texts(all []string) {
	f.count(len(all))
	for _, s := range all {
		f.text(s)
	}
}
