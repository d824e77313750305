package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
)

// serverVariable, in the environment, has this program be a server. It holds what is served.
const serverVariable = "HEADRACE_BENCHMARK_SERVER"

// served is what a server process is told.
type served struct {
	Kind    kind
	Address string
	Folder  string // for the depot and the log
}

// serve is the life of a server process, as `headrace serve` leads it: with tokens, a depot and a log, until standard input ends.
func serve(ctx context.Context, text string) (err error) {
	var o served
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(o.Folder, "log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	log := slog.New(slog.NewTextHandler(out, nil))
	store, err := place{o.Kind, o.Address}.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	kept, err := depot.Open(filepath.Join(o.Folder, "depot"), depot.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	q, err := queue.Open(queue.Config{Store: store, History: store, Log: log})
	if err != nil {
		return err
	}
	s, err := server.New(server.Config{Queue: q, History: store, Failures: store, Depot: kept, Log: log, Version: "benchmark"})
	if err != nil {
		return err
	}
	defer s.Close()
	return errors.Join(answer(ctx, q, s, log), ctx.Err())
}

func answer(ctx context.Context, q *queue.Queue, s *server.Server, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 4)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	parts.Go(func() { failed <- q.Run(ctx) })
	parts.Go(func() { failed <- s.Run(ctx) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	profiles, debug, err := debugger()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	parts.Go(func() { failed <- debug.Serve(profiles) })
	parts.Go(func() { failed <- web.Serve(listener) })
	defer debug.Close() // It holds nothing.
	defer web.Close()   // Its callers have ended.
	// The store may have been served before.
	name := fmt.Sprintf("run-%d", os.Getpid())
	token, err := s.NewToken(ctx, &api.NewToken{Name: name, Role: "admin", Channels: []string{job.AnyChannel}})
	for errors.As(err, new(*queue.RetryError)) && !errors.Is(err, queue.ErrClosed) { // It is being loaded.
		wait(ctx, time.After(time.Millisecond))
		token, err = s.NewToken(ctx, &api.NewToken{Name: name, Role: "admin", Channels: []string{job.AnyChannel}})
	}
	if err != nil {
		return err
	}
	fmt.Printf("http://%s %s %s\n", listener.Addr(), profiles.Addr(), token.Secret)
	over := make(chan struct{})
	go func() { // It ends with the process at the latest.
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}
