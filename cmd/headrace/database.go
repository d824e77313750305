package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/jackc/pgx/v5/pgconn"
)

// Stores in a PostgreSQL database: for `headrace run --store postgres://...` from any machine. Logs stay in the folder beside
// the graph file of the machine where the jobs ran.

// graphLabel names the graph file of a run's build, where the store could be another file's.
const graphLabel = "graph"

// database is a store that can be taken by a process elsewhere.
type database struct{ *postgres.Store }

// InPlace reports an error once another is the owner.
func (d database) InPlace() error {
	if err := d.Owned(); errors.Is(err, queue.ErrFenced) {
		return err
	}
	return nil
}

// reached says in one line, of which each part is there once, why a database cannot be reached: the driver tells of each way that
// it tried. An address that is none is the caller's fault. Other errors are given back as they are.
func reached(name string, err error) error {
	var wrong *pgconn.ParseConfigError
	var failed *pgconn.ConnectError
	switch {
	case errors.As(err, &wrong):
		return usage("the address of the database: %v", wrong)
	case !errors.As(err, &failed):
		return err
	}
	return &exit{exitMachine, errors.New(unreached("the database "+name, failed))}
}

// unreached says why a database does not let headrace in, and what to do where that is known.
func unreached(database string, failed *pgconn.ConnectError) string {
	var said *pgconn.PgError
	if errors.As(failed, &said) {
		switch said.Code {
		case "3D000": // invalid_catalog_name
			return fmt.Sprintf("there is no database %q; make it: createdb %s", failed.Config.Database, shellWord(failed.Config.Database))
		case "28000": // invalid_authorization_specification: a role that is not there, or may not log in
			return fmt.Sprintf("%s does not let %q in: %s; name the user in the URL: postgres://USER@HOST/NAME", database, failed.Config.User, said.Message)
		}
	}
	list := reasons(failed, nil)
	if rest := slices.DeleteFunc(slices.Clone(list), func(text string) bool { return strings.Contains(text, "server refused TLS") }); len(rest) > 0 {
		list = rest // The driver tried with TLS first.
	}
	return database + " cannot be reached: " + strings.Join(list, "; ")
}

// reasons adds the last causes of an error, each once.
func reasons(err error, all []string) []string {
	switch e := any(err).(type) { // It goes down the tree itself.
	case *net.OpError, *net.DNSError: // They name the address, which what they wrap does not.
	case interface{ Unwrap() []error }:
		for _, next := range e.Unwrap() {
			all = reasons(next, all)
		}
		return all
	case interface{ Unwrap() error }:
		if next := e.Unwrap(); next != nil {
			return reasons(next, all)
		}
	}
	if text := strings.Join(strings.Fields(err.Error()), " "); !slices.Contains(all, text) {
		all = append(all, text)
	}
	return all
}

// ownDatabase makes this process the owner of the store in the database, and makes one if there is none.
func (p place) ownDatabase(ctx context.Context) (engineStore, error) {
	s, err := postgres.Open(ctx, p.address, postgres.Options{Inherit: stopped})
	if err != nil {
		return nil, reached(p.name(), err)
	}
	if err := p.claimDatabase(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return database{s}, nil
}

// graph names the graph file in the database: by its name alone, as it may lie elsewhere on another machine.
func (p place) graph() string {
	if p.file == stream {
		return "/dev/stdin" // No name of a file has a slash.
	}
	return strings.ToValidUTF8(filepath.Base(target(p.file)), "\ufffd")
}

// claimDatabase refuses a store that has the runs of another graph file: jobs are known by their names, which mean something else
// there.
func (p place) claimDatabase(ctx context.Context, h queue.History) error {
	last, err := h.Builds(ctx, queue.BuildFilter{Limit: 1})
	if err != nil || len(last) == 0 {
		return err
	}
	if has := last[0].Build.Labels[graphLabel]; has != p.graph() {
		return usage("the store in %s keeps the runs of %q, not of %q: give each graph file a database of its own", p.name(), has, p.graph())
	}
	return nil
}

// stopped refuses to put out a process of this machine that gives no sign of life but lives, as one that was stopped: it could not
// see to the end of its jobs, which would run twice.
func stopped(before *queue.HeldError) error {
	host, err := os.Hostname()
	if err != nil || host != before.Host || before.PID <= 0 || before.PID == os.Getpid() {
		return nil // On another machine: its leases run out before their jobs are run again.
	}
	if !lives(before.PID) {
		return nil
	}
	return fmt.Errorf("process %d on this machine has had the store since %s and does not answer, but lives; end it first: kill -9 %d",
		before.PID, before.Since.Local().Format(time.DateTime), before.PID)
}

// lives reports whether a process may be headrace and able to go on. The numbers of processes are given anew, and one that is dead
// has its number until its parent asks for it.
func lives(pid int) bool {
	name, _, ok := readStat(strconv.Itoa(pid))
	own, _, known := readStat("self")
	return !gone(pid) && (!ok || !known || name == own)
}

// gone reports whether nothing of a process is left, or its number alone.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, state, _ := readStat(strconv.Itoa(pid))
	return state == 'Z' || state == 'X'
}

// readStat reads the name and the state of a process out of /proc/PID/stat (proc(5)); ok is false where there is none.
func readStat(pid string) (name string, state byte, ok bool) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, begins := strings.Cut(string(b), " (")
	end := strings.LastIndex(rest, ") ") // The name may have anything in it.
	if err != nil || !begins || end < 0 || end+2 >= len(rest) {
		return "", 0, false
	}
	return rest[:end], rest[end+2], true
}

// readDatabase opens the store in the database for reading. errNoRuns: there is none.
func (p place) readDatabase(ctx context.Context) (storeReader, error) {
	r, err := postgres.OpenReadOnly(ctx, p.address)
	switch {
	case errors.Is(err, postgres.ErrNoStore):
		return nil, errNoRuns
	case err != nil:
		return nil, reached(p.name(), err)
	}
	if err := p.claimDatabase(ctx, r); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// databaseHolder tells who owns the store in the database.
func (p place) databaseHolder() (*queue.HeldError, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return postgres.Holder(ctx, p.address)
}
