package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// task is a package of the graph: a job that is to be run.
type task struct {
	name  string
	took  time.Duration // made from its sizes
	needs []int         // earlier ones
}

// readGraph reads up to most tasks; its first lines, which begin with #, say what the file is. Lines stand in a topological
// order: name, bytes of sources, KiB of what it makes, and the numbers of the lines that it needs.
func readGraph(path string, most int) (tasks []task, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && len(tasks) < most {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		t, err := readTask(lines.Text(), len(tasks))
		if err != nil {
			return nil, fmt.Errorf("%s: package %d: %w", path, len(tasks), err)
		}
		tasks = append(tasks, t)
	}
	return tasks, lines.Err()
}

func readTask(line string, place int) (task, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 4 {
		return task{}, errors.New("want four fields")
	}
	source, err1 := strconv.ParseInt(fields[1], 10, 64)
	made, err2 := strconv.ParseInt(fields[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return task{}, err
	}
	t := task{name: fields[0], took: buildTime(source, made)}
	for word := range strings.FieldsSeq(fields[3]) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n >= place {
			return task{}, fmt.Errorf("needs %q, want an earlier line", word)
		}
		t.needs = append(t.needs, n)
	}
	return t, nil
}

// buildTime makes up how long a package takes: half a minute to set up, then a second for each 200 KB of sources to unpack and
// compile, and for each MiB that is installed and packed.
func buildTime(sourceBytes, madeKiB int64) time.Duration {
	took := 30*time.Second + time.Duration(sourceBytes)*time.Second/200_000 + time.Duration(madeKiB)*time.Second/1024
	return took.Truncate(time.Microsecond) // as fine as the engine counts
}

// bound is what no schedule can beat: for each v, whatever needs v, by whatever path, begins after the earliest time at which v can end,
// and is work for so many slots at most; so is the whole.
func bound(tasks []task, took []time.Duration, slots int) time.Duration {
	ends := make([]time.Duration, len(tasks))
	var least, all time.Duration
	for i, t := range tasks {
		for _, n := range t.needs {
			ends[i] = max(ends[i], ends[n])
		}
		ends[i] += took[i]
		all += took[i]
	}
	least = all / time.Duration(slots)
	for i, work := range descendants(tasks, took) {
		least = max(least, ends[i]+work/time.Duration(slots))
	}
	return least
}

// descendants gives the work of all that needs each task, by whatever path. A set of all tasks for each would be large, so
// that it goes by blocks of them.
func descendants(tasks []task, took []time.Duration) []time.Duration {
	const words = 32
	work := make([]time.Duration, len(tasks))
	reach := make([][words]uint64, len(tasks))
	for from := 0; from < len(tasks); from += 64 * words {
		clear(reach)
		to := min(from+64*words, len(tasks))
		for i := len(tasks) - 1; i >= 0; i-- {
			set := reach[i]
			for w := range set {
				for left := set[w]; left != 0; left &= left - 1 {
					work[i] += took[from+64*w+trailing(left)]
				}
			}
			if i >= from && i < to {
				set[(i-from)/64] |= 1 << ((i - from) % 64)
			}
			for _, n := range tasks[i].needs {
				for w := range set {
					reach[n][w] |= set[w]
				}
			}
		}
	}
	return work
}
