package apitest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
)

// Proxy is a way to a server, which may come and go, on which each answer is held to the document.
type Proxy struct {
	web       *http.Server
	transport *http.Transport
	serving   sync.WaitGroup
}

// NewProxy takes calls at a listener, passes them on to whoever serves at an address of a network (tcp or unix), and reports what is
// wrong. Close must be called in the end.
func NewProxy(l net.Listener, network, address string, report func(error)) *Proxy {
	p := &Proxy{transport: &http.Transport{
		MaxIdleConnsPerHost: 16, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "server" },
		// A server that is away is away for those before the proxy, too: they are cut off.
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		FlushInterval: -1,
		Transport:     p.transport,
	}
	p.web = &http.Server{Handler: Checked(to, report)}
	p.serving.Go(func() {
		if err := p.web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			report(err)
		}
	})
	return p
}

// Close ends it, with all calls that are under way.
func (p *Proxy) Close() error {
	err := p.web.Close()
	p.serving.Wait()
	p.transport.CloseIdleConnections()
	return err
}
