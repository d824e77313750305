package main

import (
	"net"
	"testing"

	"github.com/headrace/headrace/internal/apitest"
	"github.com/rogpeppe/go-internal/testscript"
)

// checkedWay makes a socket by which a server at another is reached, and which holds each answer to the OpenAPI document: checked NEW SOCKET
func checkedWay(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 2 {
			ts.Fatalf("usage: checked new socket")
		}
		openWay(t, ts, "unix", ts.MkAbs(args[0]), ts.MkAbs(args[1]))
	}
}

// openWay listens on a network for calls to an address of it, until the script has ended.
func openWay(t *testing.T, ts *testscript.TestScript, network, at, to string) net.Addr {
	l, err := new(net.ListenConfig).Listen(t.Context(), network, at)
	ts.Check(err)
	p := apitest.NewProxy(l, network, to, func(err error) { t.Errorf("%s: %v", ts.Name(), err) })
	ts.Defer(func() {
		if err := p.Close(); err != nil {
			t.Errorf("%s: close the way to the server: %v", ts.Name(), err)
		}
	})
	return l.Addr()
}
