package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
)

// remote is a server of package server in a process of its own, and a client of it.
type remote struct {
	*api.Client
	kind  kind
	cmd   *exec.Cmd
	until io.Closer // its standard input: it serves until that ends
	debug string    // address of its profiles
	dir   string    // where profiles are written; "": none are
}

// remotely starts a server on the place.
func (l *lab) remotely(ctx context.Context, p place) (*remote, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	l.made++
	text, err := json.Marshal(served{Kind: p.kind, Address: p.address, Folder: filepath.Join(l.dir, fmt.Sprintf("server-%d", l.made))})
	if err != nil {
		return nil, err
	}
	r := &remote{kind: p.kind, cmd: exec.Command(program), dir: l.profiles}
	r.cmd.Env = append(os.Environ(), serverVariable+"="+string(text))
	r.cmd.Stderr = os.Stderr
	if r.until, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	var address, token string
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &address, &r.debug, &token)
	}
	if err == nil {
		r.Client, err = api.NewClient(address, token)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a server: %w", err), r.close())
	}
	many := r.HTTP.Transport.(*http.Transport)
	many.MaxIdleConns, many.MaxIdleConnsPerHost = 0, 1<<16
	// What the machine takes from one call, it would else take from a second one, too.
	r.Patience = -1
	_, err = r.Channel(ctx, api.DefaultChannel)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *remote) close() error {
	if r.Client != nil {
		r.HTTP.CloseIdleConnections()
	}
	return errors.Join(r.until.Close(), r.cmd.Wait())
}

// remotely runs f with a server on an empty store.
func (l *lab) onRemote(ctx context.Context, k kind, f func(*remote) error) error {
	p, err := l.place(ctx, k)
	if err != nil {
		return err
	}
	return l.onPlace(ctx, p, f)
}

func (l *lab) onPlace(ctx context.Context, p place, f func(*remote) error) error {
	r, err := l.remotely(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(f(r), r.close())
}

// spent is the processor time that the server's process has used.
func (r *remote) spent() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// In hundredths of a second: proc(5).
	const user, system, tick = 11, 12, 10 * time.Millisecond
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) <= system {
		return 0, errors.New("the server's process tells no processor time")
	}
	var ticks int
	for _, f := range fields[user : system+1] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// resident is the memory of the server's process, in bytes.
func (r *remote) resident() (int64, error) {
	text := fieldOf(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid), "VmRSS")
	n, err := strconv.ParseInt(strings.TrimSuffix(text, " kB"), 10, 64)
	return n << 10, err
}

// profile has the server profile its processor time for so long, and its heap after that, if that is wished for; it gives what
// waits for the end.
func (r *remote) profile(ctx context.Context, what string, length time.Duration) (finish func() error) {
	if r.dir == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		err := r.fetch(ctx, fmt.Sprintf("profile?seconds=%.0f", max(length.Seconds(), 1)), fmt.Sprintf("%s-%s-cpu.pprof", r.kind, what))
		done <- errors.Join(err, r.fetch(ctx, "heap?debug=1", fmt.Sprintf("%s-%s-memory.txt", r.kind, what)), r.fetch(ctx, "heap?gc=1", fmt.Sprintf("%s-%s-heap.pprof", r.kind, what)),
			r.fetch(ctx, "goroutine?debug=1", fmt.Sprintf("%s-%s-goroutines.txt", r.kind, what)))
	}()
	return func() error { return <-done }
}

func (r *remote) fetch(ctx context.Context, what, name string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.debug+"/debug/pprof/"+what, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() // Only read from.
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, name), text, 0o644)
}

// debugger serves the profiles of this process.
func debugger() (net.Listener, *http.Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return l, &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, err
}
