package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// webLists measures what people wait for who look at a server with a long past: lists, and the end of a large log.
func (l *lab) webLists(ctx context.Context, k kind, s *section) error {
	p, err := l.place(ctx, k)
	if err != nil {
		return err
	}
	// Few, and none that waits: the rest are copies.
	err = l.onPlace(ctx, p, func(r *remote) error {
		h := r.hire("past", noop, 1)
		return r.runAll(ctx, h, l.web.builds)
	})
	if err != nil {
		return err
	}
	if k == onSQLite {
		err = multiplySQLite(p.address, l.web.past)
	} else {
		err = multiplyPostgres(ctx, p.address, l.web.past)
	}
	if err != nil {
		return err
	}
	return l.onPlace(ctx, p, func(r *remote) error {
		ended, lease, err := r.chatter(ctx, l.web.log, func(lease api.Lease) error { return r.tails(ctx, k, "of a running job", lease, l.web.reads, s) })
		if err != nil {
			return err
		}
		profiled := r.profile(ctx, "lists", 5*time.Second)
		if err := errors.Join(r.lists(ctx, k, l.web.reads, s), profiled()); err != nil {
			return err
		}
		if !l.hasty {
			wait(ctx, time.After(time.Until(ended.Add(sealed))))
		}
		return r.tails(ctx, k, "once it is sealed", lease, l.web.reads, s)
	})
}

// sealed is how long after its end the log of an attempt has surely been made smaller.
const sealed = 35 * time.Second

// runAll asks for n builds of one job, and has the worker run them.
func (r *remote) runAll(ctx context.Context, h *hired, n int) error {
	if err := together(64, n, func(i int) error {
		submission := plain(noop, 1)
		submission.Name = fmt.Sprintf("past-%d", i)
		_, err := r.Submit(ctx, submission)
		return err
	}); err != nil {
		return err
	}
	h.says.Worker.Slots = 100
	for left := n; left > 0; {
		reply, err := h.call(ctx, 100)
		if err != nil {
			return err
		}
		left -= len(reply.Acknowledged)
		h.ran(reply.Start)
	}
	return nil
}

// lists reads pages as people do.
func (r *remote) lists(ctx context.Context, k kind, n int, s *section) error {
	for _, list := range []struct {
		what string
		read func(i int) (int, error)
	}{
		{"builds", func(int) (int, error) { p, err := r.Builds(ctx, api.BuildFilter{}); return len(p.Items), err }},
		{"builds, by name", func(i int) (int, error) {
			p, err := r.Builds(ctx, api.BuildFilter{Name: fmt.Sprintf("past-%d", i)})
			return len(p.Items), err
		}},
		{"jobs", func(int) (int, error) { p, err := r.Jobs(ctx, api.JobFilter{}); return len(p.Items), err }},
		{"jobs, by name", func(i int) (int, error) {
			p, err := r.Jobs(ctx, api.JobFilter{Name: fmt.Sprintf("past-%d", i)})
			return len(p.Items), err
		}},
		{"jobs, by the beginning of the name", func(i int) (int, error) {
			p, err := r.Jobs(ctx, api.JobFilter{Prefix: fmt.Sprintf("past-%d", i%10)})
			return len(p.Items), err
		}},
		{"jobs, by outcome", func(int) (int, error) {
			p, err := r.Jobs(ctx, api.JobFilter{Outcome: job.Succeeded.String()})
			return len(p.Items), err
		}},
		{"jobs, by an outcome that none has", func(int) (int, error) {
			_, err := r.Jobs(ctx, api.JobFilter{Outcome: job.Aborted.String()})
			return 1, err
		}},
		{"jobs that run", func(int) (int, error) { _, err := r.Jobs(ctx, api.JobFilter{State: "running"}); return 1, err }},
		{"jobs, by worker", func(int) (int, error) { p, err := r.Jobs(ctx, api.JobFilter{Worker: "past"}); return len(p.Items), err }},
	} {
		var took sample
		limit := time.Now().Add(time.Minute) // One that is slow is told of all the same.
		for i := 0; i < n && time.Now().Before(limit); i++ {
			began := time.Now()
			got, err := list.read(i)
			if err == nil && got == 0 {
				err = errors.New("the list is empty")
			}
			if err != nil {
				return fmt.Errorf("%s: %w", list.what, err)
			}
			took = append(took, time.Since(began))
		}
		s.add(fmt.Sprintf("%s, list of %s", k, list.what), took.tails())
	}
	return nil
}

// chatter has a job write a log of so many bytes, and f look at it; then the job ends.
func (r *remote) chatter(ctx context.Context, size int, f func(api.Lease) error) (ended time.Time, lease api.Lease, err error) {
	const most = 4 << 20
	if err := r.stock(ctx, "chatter", 1); err != nil {
		return ended, lease, err
	}
	h := r.hire("chatter", "chatter", 1)
	reply, err := h.call(ctx, 1)
	if err != nil {
		return ended, lease, err
	}
	if len(reply.Start) != 1 {
		return ended, lease, errors.New("the job did not start")
	}
	lease = reply.Start[0].Lease
	token, err := job.ParseToken(lease.Token)
	if err != nil {
		return ended, lease, err
	}
	for offset := 0; offset < size; offset += most {
		var chunk bytes.Buffer
		for line := 0; chunk.Len() < min(most, size-offset); line++ {
			fmt.Fprintf(&chunk, "[%9d] cc -O2 -c source-%d.c -o object-%d.o\n", offset, line, line*7919%10_007)
		}
		at := job.Lease{Job: lease.Job, Attempt: lease.Attempt, Token: token}
		if _, err := r.AppendLog(ctx, at, int64(offset), chunk.Bytes()[:min(most, size-offset)]); err != nil {
			return ended, lease, err
		}
	}
	if err := f(lease); err != nil {
		return ended, lease, err
	}
	h.ran(reply.Start)
	_, err = h.call(ctx, 0)
	return time.Now(), lease, err
}

func (r *remote) tails(ctx context.Context, k kind, when string, lease api.Lease, n int, s *section) error {
	lines := 100
	var first sample
	for range n {
		began := time.Now()
		content, _, err := r.Log(ctx, lease.Job, api.LogOptions{Tail: &lines})
		if err != nil {
			return err
		}
		_, err = content.Read(make([]byte, 1))
		first = append(first, time.Since(began))
		if err := errors.Join(err, content.Close()); err != nil {
			return fmt.Errorf("the end of a log: %w", err)
		}
	}
	s.add(fmt.Sprintf("%s, first byte of the end of a log, %s", k, when), first.tails())
	return nil
}

// webWatchers measures how soon each of many watchers hears of a build.
func (l *lab) webWatchers(ctx context.Context, k kind, s *section) error {
	return l.onRemote(ctx, k, func(r *remote) error {
		before, err := r.resident()
		if err != nil {
			return err
		}
		watching, stop := context.WithCancel(ctx)
		defer stop()
		asked := make([]time.Time, l.web.told)
		var mu sync.Mutex
		heard := make([][]time.Time, l.web.told)
		var all, open sync.WaitGroup
		errs := make([]error, l.web.watchers)
		open.Add(l.web.watchers)
		for i := range l.web.watchers {
			all.Go(func() {
				err := r.watch(watching, open.Done, func(n int, at time.Time) {
					mu.Lock()
					defer mu.Unlock()
					heard[n] = append(heard[n], at)
				})
				if watching.Err() == nil {
					errs[i] = err
				}
			})
		}
		open.Wait()
		var took shares
		over, err := l.spendingOf(r, &took, l.web.told*l.web.watchers)
		if err != nil {
			return err
		}
		const every = 50 * time.Millisecond
		profiled := r.profile(ctx, "watchers", time.Duration(l.web.told)*every)
		pace := time.NewTicker(every)
		defer pace.Stop()
		for n := range l.web.told {
			<-pace.C
			submission := plain("nobody", 1)
			submission.Jobs[0].Name = fmt.Sprintf("told-%d", n)
			asked[n] = time.Now()
			if _, err := r.Submit(ctx, submission); err != nil {
				return err
			}
		}
		deadline := time.Now().Add(time.Minute)
		for complete := false; !complete && time.Now().Before(deadline); wait(ctx, time.After(10*time.Millisecond)) {
			mu.Lock()
			complete = len(heard[l.web.told-1]) == l.web.watchers
			mu.Unlock()
		}
		after, err := r.resident()
		err = errors.Join(err, over(), profiled())
		stop()
		all.Wait()
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
		var each, last sample
		for n, list := range heard {
			if len(list) != l.web.watchers {
				return fmt.Errorf("%d watchers heard of build %d", len(list), n)
			}
			var slowest time.Duration
			for _, at := range list {
				each, slowest = append(each, at.Sub(asked[n])), max(slowest, at.Sub(asked[n]))
			}
			last = append(last, slowest)
		}
		s.add(fmt.Sprintf("%s, %d watchers: each hears of a build", k, l.web.watchers), each.tails())
		s.add(fmt.Sprintf("%s, %d watchers: the last one", k, l.web.watchers), last.tails())
		s.add(fmt.Sprintf("%s, %d watchers: processor time for one event to one", k, l.web.watchers), took.text(k))
		s.add(fmt.Sprintf("%s, %d watchers: memory of each", k, l.web.watchers), fmt.Sprintf("%.1f kB", float64(after-before)/1000/float64(l.web.watchers)))
		return nil
	})
}

// watch reads events until ctx ends, and tells of each build that is told to watchers. It reads as little of them as it can: what
// is measured shares the machine with it.
func (r *remote) watch(ctx context.Context, opened func(), told func(n int, at time.Time)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.Server, "/")+"/api/v1/events", nil)
	if err == nil {
		request.Header.Set("Authorization", "Bearer "+r.Token)
	}
	var response *http.Response
	if err == nil {
		response, err = r.HTTP.Do(request)
	}
	opened()
	if err != nil {
		return err
	}
	defer response.Body.Close() // Only read from.
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		_, after, ok := bytes.Cut(lines.Bytes(), []byte(`"name":"told-`))
		if !ok {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(string(after), "%d", &n); err != nil {
			return err
		}
		told(n, time.Now())
	}
	return lines.Err()
}
