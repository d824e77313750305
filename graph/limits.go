package graph

import (
	"fmt"

	"github.com/headrace/headrace/job"
)

// Limits bound what Parse takes. Each holds before memory is used for what is over it. A field that
// is 0 or less means its value in DefaultLimits.
type Limits struct {
	// Jobs is the number of jobs, variants of a matrix counted one by one.
	Jobs int
	// File is the size of the file, in bytes. What a small file can grow into (aliases, defaults,
	// matrix variables) is held to the same number of bytes.
	File int64
	// Job is the size of the text of one job in the file, or of another top-level field, in bytes.
	// It bounds the working memory beside the jobs themselves.
	Job int
	// Command is the size of a shell line, or of all arguments together, in bytes.
	Command int
	// Name is the size of a job's name, a system or a feature, in bytes.
	Name int
	// Text is the size of a dir, key or glob, in bytes.
	Text int
	// Env is the size of all names and values of a job's environment, in bytes.
	Env int
	// Needs is the number of needs of one job, a matrix job counted by its variants.
	Needs int
	// Edges is the number of needs in the whole graph.
	Edges int
	// List is the number of outputs, or values of a matrix axis of one job.
	List int
	// Features is the number of features of one job. The engine takes job.MaxFeatures.
	Features int
}

// DefaultLimits gives what `headrace run` takes: a million jobs and ten million needs in a file of
// 1 GiB; a job of 4 MiB with a command of 1 MiB, an environment of 1 MiB, 10,000 needs and lists of
// 1,000, but 64 features; names of 128 bytes and texts of 4,096.
func DefaultLimits() Limits {
	return Limits{
		Jobs: 1_000_000, File: 1 << 30, Job: 4 << 20, Command: 1 << 20, Name: 128, Text: 4096,
		Env: 1 << 20, Needs: 10_000, Edges: 10_000_000, List: 1_000,
		Features: job.MaxFeatures,
	}
}

const (
	// maxDepth bounds how deep values nest; the deepest that means something is 5.
	maxDepth = 32
	// maxNodes bounds the values in the text of one job, aliases counted as what they stand for.
	// 10,000 needs written as {job: a, policy: finish} take 30,000.
	maxNodes = 100_000
)

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ have, want *int }{
		{&l.Jobs, &d.Jobs},
		{&l.Job, &d.Job},
		{&l.Command, &d.Command},
		{&l.Name, &d.Name},
		{&l.Text, &d.Text},
		{&l.Env, &d.Env},
		{&l.Needs, &d.Needs},
		{&l.Edges, &d.Edges},
		{&l.List, &d.List},
		{&l.Features, &d.Features},
	} {
		if *f.have <= 0 {
			*f.have = *f.want
		}
	}
	if l.File <= 0 {
		l.File = d.File
	}
	return l
}

// size writes a number of bytes as a person would.
func size[T int | int64](n T) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
