package pgtest

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// Proxy stands between clients and a server, as a network would, and fails as one does. The server is PostgreSQL, or anything else that
// listens at a socket. Its methods may be called from many goroutines.
type Proxy struct {
	dir      string
	server   string
	listener net.Listener
	accepted sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	passed [2]int64 // bytes, by direction
	cutAt  [2]int64 // 0: never
	closed bool
	silent bool          // connections are taken, and nothing goes through
	change chan struct{} // closed when silent changes
}

// Direction is a way through a Proxy.
type Direction int

// The two ways.
const (
	ToServer Direction = iota
	ToClient
)

// link is one connection through the proxy.
type link struct{ client, server net.Conn }

func (l *link) cut() {
	l.client.Close() //nolint:errcheck // what is cut is of no use any more
	l.server.Close() //nolint:errcheck // as above
}

// socket is the name of a server's socket in its folder.
const socket = ".s.PGSQL.5432"

// Proxy makes a proxy before the server. Whoever makes one must Close it.
func (c *Cluster) Proxy() (*Proxy, error) { return Before(filepath.Join(c.dir, socket)) }

// Before makes a proxy before the server that listens at a socket of the file system. Whoever makes one must Close it.
func Before(server string) (*Proxy, error) {
	dir, err := os.MkdirTemp("/tmp", "hrpx")
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", filepath.Join(dir, socket))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &Proxy{dir: dir, server: server, listener: l, links: map[*link]bool{}, change: make(chan struct{})}
	p.accepted.Go(p.accept)
	return p, nil
}

// Socket is where it listens.
func (p *Proxy) Socket() string { return filepath.Join(p.dir, socket) }

// URL gives the address of a database of the server, through the proxy.
func (p *Proxy) URL(database string) string {
	return "postgres:///" + database + "?" + url.Values{"host": {p.dir}, "user": {role}}.Encode()
}

// Passed gives how many bytes have gone one way.
func (p *Proxy) Passed(d Direction) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed[d]
}

// CutAfter cuts all connections once n more bytes have gone one way, exactly there. New ones go through.
func (p *Proxy) CutAfter(d Direction, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAt[d] = p.passed[d] + n
}

// Cut cuts all connections now.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

func (p *Proxy) cut() {
	p.cutAt = [2]int64{}
	for l := range p.links {
		l.cut()
	}
}

// Silence lets nothing through either way, without cutting what there is, until it is called with false.
func (p *Proxy) Silence(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
	close(p.change)
	p.change = make(chan struct{})
}

// Close cuts all connections and ends the proxy.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.cut()
	close(p.change)
	p.change = make(chan struct{})
	p.mu.Unlock()
	err := p.listener.Close()
	p.accepted.Wait()
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "unix", p.server)
		if err != nil {
			client.Close() //nolint:errcheck // the client sees that there is no server
			continue
		}
		l := &link{client, server}
		if !p.add(l) {
			l.cut()
			return
		}
		p.accepted.Go(func() { p.pass(l, ToServer, client, server) })
		p.accepted.Go(func() { p.pass(l, ToClient, server, client) })
	}
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
	return !p.closed
}

// pass carries bytes one way until the link is cut.
func (p *Proxy) pass(l *link, d Direction, from, to net.Conn) {
	defer func() {
		l.cut()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.wait()
			allowed, cut := p.allow(d, n)
			if _, err := to.Write(buf[:allowed]); err != nil {
				return
			}
			if cut {
				p.Cut()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait holds back whatever comes during a silence.
func (p *Proxy) wait() {
	for {
		p.mu.Lock()
		silent, change := p.silent && !p.closed, p.change
		p.mu.Unlock()
		if !silent {
			return
		}
		<-change
	}
}

// allow gives how many of n bytes may go, and whether that is where the connection ends.
func (p *Proxy) allow(d Direction, n int) (allowed int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.cutAt[d]; at > 0 && p.passed[d]+int64(n) >= at {
		n, cut = int(at-p.passed[d]), true
	}
	p.passed[d] += int64(n)
	return n, cut
}
