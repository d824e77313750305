package pgtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options say how a server runs; the zero value is right for tests.
type Options struct {
	// Durable has each commit reach the disk, as in real use. Without it a crash of the machine loses all.
	Durable bool
	// Settings are further ones of postgresql.conf, as "name=value".
	Settings []string
}

// Cluster is one server with its files. Its methods are for one goroutine at a time, but URL, Create and Clone for many.
type Cluster struct {
	// FileLimit has the next Up start a server that can write no file beyond so many bytes, as on a full disk; 0: any. It
	// must leave room for a segment of the log, of 16 MiB.
	FileLimit int64

	bin     string
	dir     string
	opts    Options
	who     *syscall.Credential // nil: the caller
	server  *server
	created atomic.Int64
}

// Start makes a server and waits until it answers. Whoever starts one must Stop it.
func Start(ctx context.Context, opts Options) (_ *Cluster, err error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	// Not under the tests' own folder: a socket's path may have 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "hrpg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := c.hand(); err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", c.data(), "-A", "trust", "-U", role,
		"-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: c.who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %v: %s", err, out)
	}
	return c, c.Up(ctx)
}

const role = "headrace"

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// hand gives the folder to the user that the server runs as.
func (c *Cluster) hand() error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return fmt.Errorf("PostgreSQL cannot run as root, and there is no user postgres or nobody: %v", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	c.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(c.dir, int(uid), int(gid))
}

// Up starts the server again after Down or Crash, and waits until it answers.
func (c *Cluster) Up(ctx context.Context) error {
	durable := "off"
	if c.opts.Durable {
		durable = "on"
	}
	settings := append([]string{
		"listen_addresses=", "unix_socket_directories=" + c.dir, "max_connections=200", "shared_buffers=256MB",
		"fsync=" + durable, "full_page_writes=" + durable, "synchronous_commit=" + durable, "lc_messages=C",
		"log_min_messages=warning", "max_wal_size=4GB",
	}, c.opts.Settings...)
	args := []string{"-D", c.data()}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	path := filepath.Join(c.bin, "postgres")
	if c.FileLimit > 0 {
		path, args = "/bin/sh", append([]string{"-c", fmt.Sprintf(`ulimit -f %d && exec "$0" "$@"`, c.FileLimit/512), path}, args...)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = c.dir, &syscall.SysProcAttr{Credential: c.who, Setpgid: true}
	mortal(cmd.SysProcAttr)
	s, err := launch(cmd)
	if err != nil {
		return err
	}
	c.server = s
	select {
	case <-s.ready:
		return nil
	case <-s.ended:
		return fmt.Errorf("postgres ended: %s", s.said.Bytes())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Down stops the server in good order; open sessions are cut.
func (c *Cluster) Down() error { return c.server.end(syscall.SIGINT) }

// Crash stops the server at once, as a crash of its process would: the next Up recovers.
func (c *Cluster) Crash() error { return c.server.end(syscall.SIGQUIT) }

// Stop ends the server and removes its files.
func (c *Cluster) Stop() error {
	var err error
	if c.server != nil {
		err = c.server.end(syscall.SIGQUIT)
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// URL gives the address of a database.
func (c *Cluster) URL(database string) string {
	q := url.Values{"host": {c.dir}, "user": {role}}
	return "postgres:///" + database + "?" + q.Encode()
}

// Create makes an empty database and gives its address.
func (c *Cluster) Create(ctx context.Context) (string, error) { return c.Clone(ctx, "template1") }

// Clone makes a database like another, which nobody may be using, and gives its address. None is ever dropped: that
// takes longer than to throw the cluster away.
func (c *Cluster) Clone(ctx context.Context, template string) (string, error) {
	name := fmt.Sprintf("d%d", c.created.Add(1))
	sql := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, pgx.Identifier{template}.Sanitize())
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, sql)
	return c.URL(name), errors.Join(err, conn.Close(ctx))
}

// Name gives the database's name out of its address.
func Name(address string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(address, "postgres:///"), "?")
	return name
}

// server is a running postgres.
type server struct {
	cmd   *exec.Cmd
	ready chan struct{}
	ended chan struct{}
	said  bytes.Buffer // to be read once it has ended
}

// launch starts the process and returns; who waits for it is a goroutine that ends with it. That keeps the thread that
// started it, for when the thread ends, the kernel takes the process along.
func launch(cmd *exec.Cmd) (*server, error) {
	s := &server{cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{})}
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(s.ended)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		s.listen(out)
		if err := cmd.Wait(); err != nil {
			fmt.Fprintln(&s.said, err)
		}
	}()
	return s, <-started
}

// listen reads what the server says until it ends.
func (s *server) listen(out io.Reader) {
	const most = 64 << 10
	lines := bufio.NewScanner(out)
	isReady := false
	for lines.Scan() {
		if !isReady && bytes.Contains(lines.Bytes(), []byte("ready to accept connections")) {
			isReady = true
			close(s.ready)
		}
		if s.said.Len() < most {
			s.said.Write(append(lines.Bytes(), '\n'))
		}
	}
	io.Copy(io.Discard, out) //nolint:errcheck // a line too long to read; what counts is that the server can go on
}

// patience is how long a server may take to end.
const patience = 30 * time.Second

func (s *server) end(signal syscall.Signal) error {
	if s == nil || s.cmd.Process == nil {
		return nil
	}
	select {
	case <-s.ended:
		return nil
	default:
	}
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(patience):
		return errors.Join(errors.New("postgres does not end"), syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL))
	}
}
