package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/queue"
)

// Client calls a server. Its fields may be set before the first call; it may be used by many goroutines at once. Errors are *Problem
// where the server answered, which are the engine's errors of their kind (errors.Is), or *queue.RetryError where it could not be
// reached or could not answer.
type Client struct {
	// Server is its address: http://, https:// or unix:// with the path of a socket.
	Server string
	// Token is shown at each call; "": none.
	Token string
	// HTTP makes the calls; it must have no timeout of its own, as some calls wait.
	HTTP *http.Client
	// Patience is for how long a call is repeated while the server cannot be reached or cannot answer; it happens once all the
	// same. Negative: it is not repeated.
	Patience time.Duration
	// Agent names the program, in the header User-Agent.
	Agent string
	base  string
}

// DefaultPatience is the Patience of a new Client.
const DefaultPatience = 30 * time.Second

// NewClient makes a client of the server at an address. It reports *job.InvalidError if that is none; it calls nobody yet.
func NewClient(server, token string) (*Client, error) {
	c := &Client{Server: server, Token: token, Patience: DefaultPatience, Agent: "headrace"}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	u, err := url.Parse(server)
	switch {
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil:
		c.base = strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/") + "/api/v1"
	case err == nil && u.Scheme == "unix" && u.Host == "" && u.Path != "":
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", u.Path)
		}
		c.base = "http://headrace/api/v1"
	default:
		// Not the address itself: it may hold a password.
		return nil, errors.New("the address of the server: want http://HOST:PORT, https://HOST:PORT or unix:///PATH")
	}
	c.HTTP = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// call is one request.
type call struct {
	method string
	path   string // below /api/v1
	query  url.Values
	header http.Header
	body   any // as JSON; nil: none
	once   bool
	// held is for how long the server may hold it, or need for it, besides answerWithin; below 0: for as long as it likes.
	held time.Duration
}

// answerWithin is how long an answer may be in coming: a server, or what is before it, may be there and stand still.
const answerWithin = 30 * time.Second

// errNoAnswer ends a call.
var errNoAnswer = errors.New("it does not answer")

// do makes a call, and reads its answer into v, unless that is nil.
func (c *Client) do(ctx context.Context, k *call, v any) error {
	var text []byte
	if k.body != nil {
		var err error
		if text, err = json.Marshal(k.body); err != nil {
			return fmt.Errorf("%s %s: %v", k.method, k.path, err)
		}
	}
	if k.method != http.MethodGet && !k.once {
		if k.header == nil {
			k.header = http.Header{}
		}
		k.header.Set("Idempotency-Key", newKey())
	}
	return c.again(ctx, k.once, func() error { return c.exchange(ctx, k, text, v) })
}

func newKey() string { return rand.Text() }

// again repeats f, with growing pauses, while it says that it may be. What f takes until it fails first does not count: it may be held.
func (c *Client) again(ctx context.Context, once bool, f func() error) error {
	var deadline time.Time
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if deadline.IsZero() {
			deadline = time.Now().Add(c.Patience)
		}
		var retry *queue.RetryError
		if err == nil || once || !errors.As(err, &retry) || !time.Now().Add(pause).Before(deadline) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func (c *Client) exchange(ctx context.Context, k *call, text []byte, v any) error {
	var body io.Reader
	if text != nil {
		body = bytes.NewReader(text)
	}
	response, err := c.send(ctx, k, body)
	if err != nil {
		return err
	}
	defer response.Body.Close() // Only read from.
	if v == nil {
		if _, err := io.Copy(io.Discard, response.Body); err != nil { // so that the connection can be used again
			return lost(ctx, k, err)
		}
		return nil
	}
	return decode(ctx, k, response.Body, v)
}

func decode(ctx context.Context, k *call, from io.Reader, v any) error {
	if err := json.NewDecoder(from).Decode(v); err != nil {
		return lost(ctx, k, err)
	}
	return nil
}

// send makes a request, and gives the response if it is a good one.
func (c *Client) send(ctx context.Context, k *call, body io.Reader) (*http.Response, error) {
	where := c.base + k.path
	if len(k.query) > 0 {
		where += "?" + k.query.Encode()
	}
	answering, end := context.WithCancelCause(ctx)
	if k.held >= 0 {
		defer time.AfterFunc(k.held+answerWithin, func() { end(errNoAnswer) }).Stop()
	}
	response, err := c.request(answering, k, where, body)
	if err != nil {
		if errors.Is(context.Cause(answering), errNoAnswer) {
			err = errNoAnswer
		}
		end(nil)
		return nil, lost(ctx, k, err)
	}
	response.Body = &answer{response.Body, end}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close() // Only read from.
	return nil, refusal(response)
}

// answer is the body of a response, whose request ends with it.
type answer struct {
	io.ReadCloser
	end context.CancelCauseFunc
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.end(nil)
	return a.ReadCloser.Close()
}

// request sends a request, and gives its response as soon as that begins.
func (c *Client) request(ctx context.Context, k *call, where string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, k.method, where, body)
	if err != nil {
		return nil, err
	}
	for name, values := range k.header {
		r.Header[name] = values
	}
	if body != nil && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	r.Header.Set("User-Agent", c.Agent)
	return c.HTTP.Do(r)
}

// lost tells that the server could not be reached, or its answer did not come.
func lost(ctx context.Context, k *call, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which may hold what is secret
	}
	return &queue.RetryError{Cause: fmt.Errorf("%s %s: %w", k.method, k.path, err)}
}

// refusal reads the problem that a response is.
func refusal(response *http.Response) error {
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	p := &Problem{}
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if err != nil || kind != ProblemType || json.Unmarshal(text, p) != nil {
		// It is not the server that speaks, but something before it.
		p = Plain(response.StatusCode, "the server answered "+response.Status+said(kind, text))
		p.Retry = response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests
	}
	p.Status = response.StatusCode
	return p
}

// await asks, and lets the server hold the answer for waitAtOnce.
func (c *Client) await(ctx context.Context, path string, v any) error {
	return c.do(ctx, &call{method: http.MethodGet, path: path, query: values("wait_seconds", seconds(waitAtOnce)), held: waitAtOnce}, v)
}

// said gives what a plain text says, if it is one line for people.
func said(kind string, text []byte) string {
	const most = 200
	line := strings.TrimSpace(string(text))
	if kind != "text/plain" && kind != "" || line == "" || len(line) > most || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' }) {
		return ""
	}
	return ": " + line
}

func (c *Client) get(ctx context.Context, path string, query url.Values, v any) error {
	return c.do(ctx, &call{method: http.MethodGet, path: path, query: query}, v)
}

func (c *Client) post(ctx context.Context, path string, body, v any) error {
	if body == nil {
		body = struct{}{}
	}
	return c.do(ctx, &call{method: http.MethodPost, path: path, body: body}, v)
}

// values makes a query of names and values; what is "" is left out.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func number(n int) string { return strconv.Itoa(n) }

// limitOf gives a limit as a query has it; 0 is none.
func limitOf(n int) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// rawJSON is JSON that is sent as it is.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }
