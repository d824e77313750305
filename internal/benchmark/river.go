package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// riverFigures are what River's program prints.
type riverFigures struct {
	Insert, Drain     float64
	Started, Finished []float64 // milliseconds, sorted
}

// riverSettings are those of River that are tried, in turns.
var riverSettings = []struct {
	name     string
	cooldown time.Duration
}{
	{"River, its defaults", 0},
	{"River, FetchCooldown 2 ms", 2 * time.Millisecond},
}

// rivers drains the same jobs by River and by ours, in turns, on the same server or disk.
func rivers(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "Beside River",
		note: fmt.Sprintf("River 0.51.2 (bench/river) with %d slots, at its defaults and with the short FetchCooldown of its own benchmark; it tells of a job's end once that is stored. "+
			"Ours as in the table of drains, on as many jobs (%d on SQLite, %d on PostgreSQL), each of 100 bytes; ours leave a result of 100 bytes besides. All take turns on the same server and disk. "+
			"The bar is measured against the better of River's two. What limits ours is the processors: the last row tells how many jobs they could do if none ever waited.", l.slots, l.rivers[onSQLite], l.rivers[onPostgres]),
	}
	if err := l.buildRiver(ctx); err != nil {
		return s, err
	}
	bars := map[kind]float64{onSQLite: 10, onPostgres: 2}
	for _, k := range l.kinds {
		var ours rates
		var took effort
		theirs := make([][]riverFigures, len(riverSettings))
		for range l.rounds {
			r, err := l.drainOnce(ctx, k, &took)
			if err != nil {
				return s, err
			}
			ours = append(ours, r)
			for i, setting := range riverSettings {
				f, err := l.runRiver(ctx, k, setting.cooldown)
				if err != nil {
					return s, err
				}
				theirs[i] = append(theirs[i], f)
			}
		}
		best := 0.0
		for i, setting := range riverSettings {
			drains, inserts, started, finished := gather(theirs[i])
			best = max(best, drains.median())
			s.add(fmt.Sprintf("%s, %s: drain", k, setting.name), drains.text())
			s.add(fmt.Sprintf("%s, %s: insert many", k, setting.name), inserts.text())
			s.add(fmt.Sprintf("%s, %s: one job on an idle queue", k, setting.name),
				fmt.Sprintf("started after %s, finished after %s", started.tails(), finished.tails()))
		}
		ratio := ours.median() / best
		s.judge(fmt.Sprintf("%s, ours: drain", k), fmt.Sprintf("%s, %.1f times River", ours.text(), ratio),
			fmt.Sprintf("%.0f times River", bars[k]), ratio >= bars[k])
		s.add(fmt.Sprintf("%s, ours: processor time a job", k), took.text(k))
	}
	return s, nil
}

// drainOnce drains as many jobs as River does.
func (l *lab) drainOnce(ctx context.Context, k kind, took *effort) (float64, error) {
	e, err := l.fresh(ctx, k)
	if err != nil {
		return 0, err
	}
	r, err := l.drainN(ctx, e, k, l.rivers[k], took)
	return r, errors.Join(err, e.close())
}

func gather(list []riverFigures) (drains, inserts rates, started, finished sample) {
	for _, f := range list {
		drains, inserts = append(drains, f.Drain), append(inserts, f.Insert)
		for _, ms := range f.Started {
			started = append(started, time.Duration(ms*float64(time.Millisecond)))
		}
		for _, ms := range f.Finished {
			finished = append(finished, time.Duration(ms*float64(time.Millisecond)))
		}
	}
	return drains, inserts, started, finished
}

// buildRiver builds River's program.
func (l *lab) buildRiver(ctx context.Context) error {
	if l.program != "" {
		return nil
	}
	program, err := filepath.Abs(filepath.Join(l.dir, "river"))
	if err != nil {
		return err
	}
	// -race and the like are not for it.
	build := exec.CommandContext(ctx, "go", "build", "-C", l.river, "-buildvcs=false", "-o", program, ".")
	build.Env = append(os.Environ(), "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build River's program: %v: %s", err, out)
	}
	l.program = program
	return nil
}

func (l *lab) runRiver(ctx context.Context, k kind, cooldown time.Duration) (f riverFigures, err error) {
	p, err := l.place(ctx, k)
	if err != nil {
		return f, err
	}
	cmd := exec.CommandContext(ctx, l.program, "-database", p.address, "-jobs", strconv.Itoa(l.rivers[k]), "-workers", strconv.Itoa(l.slots),
		"-singles", strconv.Itoa(l.riverSingles), "-cooldown", cooldown.String())
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("run the program of River: %v: %s", err, said.Bytes())
	}
	return f, json.Unmarshal(out, &f)
}
