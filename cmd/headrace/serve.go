package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/spf13/cobra"
)

// serveOptions are what a server is told: by flags, by variables of the environment, by a file, in this order.
type serveOptions struct {
	config        string
	data          string
	store         string
	listen        string
	tlsCert       string
	tlsKey        string
	plainHTTP     bool
	publicRead    bool
	workerVersion string
	keepLogs      time.Duration
	keepBuilds    time.Duration
	addressFile   string
	logLevel      string
	logFormat     string
	adminToken    string
	check         bool
}

// momentary are the flags of serve that are no settings.
var momentary = []string{"config", "check", "admin-token", "help"}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a queue to workers and people over HTTP",
		Long: `Serve a queue over HTTP: workers of any number of machines take jobs from it, people and programs ask for builds. It keeps
all that it knows in a folder, or in a PostgreSQL database. At the first start it makes a token for the administrator and prints it,
once.

Each flag can also be given by a variable of the environment, as HEADRACE_LISTEN for --listen, or in the TOML file that --config
names, as listen = "...". A flag counts more than a variable, a variable more than the file.

SIGTERM or Ctrl-C ends it in order; workers go on with what they run, and find the server when it is back. A second one ends it at
once; nothing that was acknowledged is lost by that either.

Exit codes:
  0    it was told to end (SIGTERM, Ctrl-C)
  2    wrong usage, or a setting is not as it must be; nothing was served
  3    the store or the machine failed
  131  told to quit (Ctrl-\)`,
		Example: `  headrace serve
  headrace serve --data /var/lib/headrace --listen 0.0.0.0:7470 --tls-cert cert.pem --tls-key key.pem
  headrace serve --store postgres://headrace@db/headrace
  headrace serve --config /etc/headrace.toml --check`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.config == "" {
				o.config = os.Getenv(variableOf("config"))
			}
			if err := settle(cmd, o.config, momentary...); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			if o.check {
				return showSettings(cmd.OutOrStdout(), cmd, momentary...)
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "read what is not given otherwise from this TOML `file`")
	f.StringVar(&o.data, "data", "headrace-data", "keep logs and artifacts, and the store unless it is a database, in this `folder`")
	storeVar(f, &o.store, "store", "keep the store in this database, `postgres://HOST/NAME` (PostgreSQL 15 or newer), instead")
	f.StringVar(&o.listen, "listen", "127.0.0.1:7470", "serve at this `address`: HOST:PORT, or unix:PATH")
	f.StringVar(&o.tlsCert, "tls-cert", "", "serve TLS with the certificate chain in this `file`; it may be replaced while it is served")
	f.StringVar(&o.tlsKey, "tls-key", "", "and the key in this `file`")
	f.BoolVar(&o.plainHTTP, "plain-http", false, "serve other machines without TLS, as behind a proxy that does that: tokens could be read on the way")
	f.BoolVar(&o.publicRead, "public-read", false, "let whoever has no token read everything")
	f.StringVar(&o.workerVersion, "worker-version", "", "have workers be of this `version`: others end when they have finished what they run")
	spanVar(f, &o.keepBuilds, "keep-builds", 0, "keep builds for so long after they ended, as in 90d, with the jobs that no other build refers to; what is gone serves no later job; 0: for ever")
	spanVar(f, &o.keepLogs, "keep-logs", 0, "keep logs and artifacts for so long after they were written, as in 30d; a job with artifacts leaves the history with them; 0: for ever")
	f.StringVar(&o.addressFile, "address-file", "", "write the address into this `file` once the server answers")
	f.StringVar(&o.logLevel, "log-level", "info", "log from this `level` on: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "log as `text` or json, to standard error")
	f.StringVar(&o.adminToken, "admin-token", "", "at this start make another token of an administrator, of this `name`, and print it: for one that was lost")
	f.BoolVar(&o.check, "check", false, "check the settings, print them as TOML, and serve nothing")
	return cmd
}

// validate refuses what cannot be served, before anything is made.
func (o *serveOptions) validate() error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return usage("log-level: %q is none of debug, info, warn, error", o.logLevel)
	}
	if o.logFormat != "text" && o.logFormat != "json" {
		return usage("log-format: want text or json, got %q", o.logFormat)
	}
	if o.store != "" && !isURL(o.store) {
		return usage("store: want a database as postgres://HOST/NAME; the folder is given by --data")
	}
	if o.store != "" {
		if err := postgres.CheckAddress(o.store); err != nil {
			return usage("store: %v", err)
		}
	}
	if o.addressFile != "" {
		if info, err := os.Stat(filepath.Dir(o.addressFile)); err != nil || !info.IsDir() {
			return usage("address-file: there is no folder %s", filepath.Dir(o.addressFile))
		}
	}
	if o.data == "" {
		return usage("data: must not be empty")
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return usage("tls-cert and tls-key: want both or none")
	}
	if o.tlsCert != "" {
		if _, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey); err != nil {
			return usage("tls-cert, tls-key: %v", err)
		}
	}
	if path, ok := strings.CutPrefix(o.listen, "unix:"); ok {
		if path == "" {
			return usage("listen: want a path after unix:")
		}
		if o.tlsCert != "" {
			return usage("tls-cert: nobody speaks TLS at a socket of this machine; leave it out, or listen at HOST:PORT")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(o.listen)
	if err != nil {
		return usage("listen: %q is no address: want HOST:PORT, as in 127.0.0.1:7470, or unix:PATH", o.listen)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return usage("listen: %q is no port", port)
	}
	if ip := net.ParseIP(host); o.tlsCert == "" && !o.plainHTTP && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usage("listen: %s can be reached from other machines, and tokens could be read on the way: give --tls-cert and --tls-key, or --plain-http if a proxy sees to TLS", o.listen)
	}
	return nil
}

// farmStore is what a server needs of a store.
type farmStore interface {
	queue.Store
	queue.History
	queue.Failures
}

// openStore makes this process the owner of the store.
func (o *serveOptions) openStore(ctx context.Context) (farmStore, string, error) {
	if err := os.MkdirAll(o.data, 0o750); err != nil {
		return nil, "", fmt.Errorf("make the data folder: %w", err)
	}
	if o.store == "" {
		path := filepath.Join(o.data, databaseName)
		s, err := sqlite.Open(ctx, path, sqlite.Options{})
		return s, path, err
	}
	s, err := postgres.Open(ctx, o.store, postgres.Options{Inherit: stopped})
	if err != nil {
		return nil, "", reached(postgres.Redacted(o.store), err)
	}
	return s, postgres.Redacted(o.store), nil
}

// serving is a server that runs.
type serving struct {
	*serveOptions
	log      *slog.Logger
	queue    *queue.Queue
	server   *server.Server
	web      *http.Server
	listener net.Listener
	address  string // as clients name it
	store    string // as people are told
}

func (o *serveOptions) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	s := &serving{serveOptions: o, log: o.logger(stderr)}
	// Before anything is made, so that no signal finds the default, which ends the process on the spot.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if s.listener, s.address, err = o.open(); err != nil {
		return err
	}
	defer s.listener.Close() // The web server closes it, too.
	var store farmStore
	if store, s.store, err = o.openStore(ctx); err != nil {
		return err
	}
	defer func() {
		if cerr := store.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close the store: %v", cerr)
		}
	}()
	kept, err := depot.Open(filepath.Join(o.data, "depot"), depot.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := kept.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	if s.queue, err = queue.Open(queue.Config{Store: store, History: store, Log: s.log}); err != nil {
		return err
	}
	s.server, err = server.New(server.Config{
		Queue: s.queue, History: store, Failures: store, Depot: kept, Log: s.log, Version: version, WorkerVersion: o.workerVersion,
		Public: o.publicRead, Keep: o.keepLogs, KeepBuilds: o.keepBuilds,
	})
	if err != nil {
		return err
	}
	return s.serve(ctx, signals, stdout)
}

func (o *serveOptions) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.logLevel)) // It was checked.
	options := &slog.HandlerOptions{Level: level}
	if o.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// open listens, and gives the address as clients name it.
func (o *serveOptions) open() (net.Listener, string, error) {
	if path, ok := strings.CutPrefix(o.listen, "unix:"); ok {
		return listenUnix(path)
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	scheme := "http://"
	if o.tlsCert != "" {
		scheme = "https://"
	}
	return l, scheme + l.Addr().String(), nil
}

// listenUnix listens at a socket that its user alone can open. One that a dead server left is taken away.
func listenUnix(path string) (net.Listener, string, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, "", usage("listen: %s is there and is no socket", path)
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = c.Close() // Nothing was said.
			return nil, "", fmt.Errorf("listen: another server answers at %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, "", fmt.Errorf("listen: %w", err)
		}
	}
	before := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(before)
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, "", errors.Join(err, l.Close())
	}
	return l, "unix://" + full, nil
}

// serve serves until a signal comes, or something fails.
func (s *serving) serve(ctx context.Context, signals <-chan os.Signal, stdout io.Writer) error {
	s.web = &http.Server{
		Handler: s.server.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 3)
	var parts sync.WaitGroup
	defer parts.Wait()
	engine, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	parts.Go(func() { failed <- s.queue.Run(engine) })
	parts.Go(func() { failed <- s.server.Run(engine) })
	tell := func(token string) error {
		_, err := fmt.Fprintf(stdout, "token of the administrator, told this once: %s\n", token)
		return err
	}
	err := s.server.AdminToken(ctx, s.adminToken, tell)
	for errors.As(err, new(*queue.RetryError)) && !errors.Is(err, queue.ErrClosed) { // It is being loaded.
		select {
		case err := <-failed:
			return err
		case <-signals:
			return &exit{exitInterrupted, nil}
		case <-time.After(10 * time.Millisecond):
		}
		err = s.server.AdminToken(ctx, s.adminToken, tell)
	}
	var invalid *job.InvalidError
	switch {
	case errors.As(err, &invalid):
		return usage("admin-token: %s", invalid.Want)
	case errors.Is(err, job.ErrExists):
		return usage("admin-token: there is a token %q already; give another name, and then revoke that one", s.adminToken)
	case err != nil:
		return err
	}
	parts.Go(func() {
		var err error
		if s.tlsCert != "" {
			own := certificate{chain: s.tlsCert, key: s.tlsKey, log: s.log}
			s.web.TLSConfig = &tls.Config{GetCertificate: own.get}
			err = s.web.ServeTLS(s.listener, "", "")
		} else {
			err = s.web.Serve(s.listener)
		}
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		failed <- err
	})
	if err := s.announce(stdout); err != nil {
		return errors.Join(err, s.web.Close())
	}
	select {
	case err = <-failed:
		s.log.Error("the server ends", "err", err)
	case got := <-signals:
		s.log.Info("the server ends", "signal", got.String())
	}
	return errors.Join(err, s.end(signals))
}

// announce says that the server answers.
func (s *serving) announce(stdout io.Writer) error {
	_, err := fmt.Fprintf(stdout, "headrace %s serves %s\nstore: %s\nstart a worker: headrace worker --server %s --name NAME --system %s --token-file FILE\n",
		version, s.address, s.store, s.address, system())
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	if s.addressFile == "" {
		return nil
	}
	draft := s.addressFile + ".part"
	if err := os.WriteFile(draft, []byte(s.address+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, s.addressFile)
}

// endIn is how long requests under way may take when the server ends.
const endIn = 10 * time.Second

// end has the requests under way answered.
func (s *serving) end(signals <-chan os.Signal) error {
	s.server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), endIn)
	defer cancel()
	over := make(chan struct{})
	var heed sync.WaitGroup
	heed.Go(func() {
		select {
		case <-signals:
			cancel()
		case <-over:
		}
	})
	err := s.web.Shutdown(ctx)
	close(over)
	heed.Wait()
	if err != nil {
		s.log.Warn("requests under way are cut off", "err", err)
		return s.web.Close()
	}
	return nil
}
