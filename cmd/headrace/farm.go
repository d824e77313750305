package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/spf13/cobra"
)

// Names of the environment by which a farm is known.
const (
	serverEnv    = "HEADRACE_SERVER"
	tokenEnv     = "HEADRACE_TOKEN"
	tokenFileEnv = "HEADRACE_TOKEN_FILE"
)

const serverHelp = `The server is that of --server or HEADRACE_SERVER: http://HOST:PORT, https://HOST:PORT or unix:///PATH. The token is
in the file of --token-file, in HEADRACE_TOKEN, or in the file of HEADRACE_TOKEN_FILE; the first of these counts. None is needed
where the server lets in everybody (--public-read).

`

const farmExitHelp = `Exit codes:
  0    all is well
  1    a job failed, or the build was cancelled (run, submit --wait)
  2    wrong usage, or the server refused it; nothing was done
  3    the server could not be reached, or it or the machine failed
  130  interrupted (Ctrl-C, SIGTERM)
  131  told to quit (Ctrl-\)`

// addFarm adds the commands that are about a farm.
func addFarm(root *cobra.Command) {
	root.AddCommand(
		newSubmit(), newBuilds(), newJobs(), newShow(), newCancel(), newRetry(), newBump(), newPause(true), newPause(false), newWorkers(),
		newDrain(true), newDrain(false), newChannels(), newCachedFailures(),
		newSchedules(), newToken(),
	)
}

// Roles of tokens, as people read of them.
const (
	roleRead   = "read, submit, work or admin"
	roleSubmit = "submit or admin"
	roleAdmin  = "admin"
)

// serverFlags say which server, and how what it tells is shown.
type serverFlags struct {
	address   string
	tokenFile string
	json      bool
}

// define gives a command the flags.
func (s *serverFlags) define(cmd *cobra.Command) {
	s.defineServer(cmd)
	cmd.Flags().BoolVar(&s.json, "json", false, "print JSON, one object a line, with the names of the HTTP API")
}

func (s *serverFlags) defineServer(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.address, "server", "", "the `URL` of the server; else that of "+serverEnv)
	cmd.Flags().StringVar(&s.tokenFile, "token-file", "", "the `file` with the token")
}

// instead reports whether a command that reads the store of a FILE is to ask a farm instead, as it is given none.
func (s *serverFlags) instead(cmd *cobra.Command, args []string, verb string) (bool, error) {
	away := cmd.Flags().Changed("server") || cmd.Flags().Changed("token-file")
	switch {
	case len(args) == 1 && !away && os.Getenv(serverEnv) == "":
		return false, usage("got 1 argument, want: headrace %s FILE JOB, or, of a farm, headrace %s --server URL JOB", verb, verb)
	case len(args) == 1 && cmd.Flags().Changed("store"):
		return false, usage("--store is for a graph file, not for a farm")
	case len(args) == 2 && away:
		return false, usage("with a graph file, %s reads the store here; of a farm, ask: headrace %s --server URL JOB", verb, verb)
	}
	return len(args) == 1, nil
}

// interactive is for how long a command that somebody waits for asks again, if the server does not answer.
const interactive = 2 * time.Second

// client makes a client of the server that the user wants.
func (s *serverFlags) client(cmd *cobra.Command) (*api.Client, error) {
	address, from := s.address, "--server"
	if !cmd.Flags().Changed("server") {
		address, from = os.Getenv(serverEnv), serverEnv
	}
	if address == "" {
		return nil, usage("which server? Give its address by --server URL or in %s", serverEnv)
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return nil, usage("%s: no name or password belongs in the address; the token is given by --token-file or %s", from, tokenEnv)
	}
	token, err := s.token(cmd)
	if err != nil {
		return nil, err
	}
	c, err := api.NewClient(strings.TrimRight(address, "/"), token)
	if err != nil {
		return nil, usage("%s: %v", from, err)
	}
	c.Patience, c.Agent = interactive, "headrace/"+version
	return c, nil
}

// maxToken is how long the file of a token may be.
const maxToken = 4096

// token reads the token; "": there is none.
func (s *serverFlags) token(cmd *cobra.Command) (string, error) {
	file, from := s.tokenFile, "--token-file"
	if !cmd.Flags().Changed("token-file") {
		if t := strings.TrimSpace(os.Getenv(tokenEnv)); t != "" {
			return checkToken(t, tokenEnv)
		}
		if file, from = os.Getenv(tokenFileEnv), tokenFileEnv; file == "" {
			return "", nil
		}
	}
	return readToken(file, from)
}

// readToken reads the token in a file.
func readToken(file, from string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", usage("%s: %q: %v", from, file, cause(err))
	}
	defer f.Close() // Only read from.
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", usage("%s: %q: %v", from, file, cause(err))
	}
	return checkToken(strings.TrimSpace(string(text)), from+": "+file)
}

// checkToken refuses what can be no token; it is not repeated.
func checkToken(token, from string) (string, error) {
	switch {
	case token == "":
		return "", usage("%s: there is no token in it", from)
	case len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", usage("%s: that is no token: want one line without blanks", from)
	}
	return token, nil
}

// farm gives what shows the farm to the user.
func (s *serverFlags) farm(cmd *cobra.Command) (*farm.Farm, error) {
	c, err := s.client(cmd)
	if err != nil {
		return nil, err
	}
	f := &farm.Farm{Client: c, Out: cmd.OutOrStdout(), JSON: s.json, Now: time.Now}
	if size, terminal := terminalSize(f.Out); terminal {
		f.Width, _ = size()
		o := runOptions{colour: "auto"}
		f.Style = progress.Style{Colour: o.coloured(true)}
	}
	return f, nil
}

// onFarm makes a command of what it does with a farm; role is what its token needs.
func (s *serverFlags) onFarm(role string, do func(ctx context.Context, f *farm.Farm, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		f, err := s.farm(cmd)
		if err != nil {
			return err
		}
		return advised(do(cmd.Context(), f, args), f.Client, role)
	}
}

// advised says what went wrong with a server, and what to do about it.
func advised(err error, c *api.Client, role string) error {
	var said *exit
	var named *farm.NameError
	var problem *api.Problem
	var retry *queue.RetryError
	switch {
	case err == nil, errors.As(err, &said):
		return err
	case errors.As(err, &named):
		return usage("%v", named)
	case errors.As(err, &problem):
		return refusal(problem, c, role)
	case errors.As(err, &retry):
		return &exit{exitMachine, errors.New(unheard(retry.Cause, c))}
	}
	return err
}

// refusal tells of a problem that the server told.
func refusal(p *api.Problem, c *api.Client, role string) error {
	switch {
	case p.Status == http.StatusUnauthorized && c.Token == "":
		return usage("%s wants a token, of the role %s: give it by --token-file FILE, or in %s or %s", c.Server, role, tokenEnv, tokenFileEnv)
	case p.Status == http.StatusUnauthorized:
		return usage("%s does not know the token, or it is no longer valid; this needs one of the role %s", c.Server, role)
	case p.Status == http.StatusForbidden:
		return usage("%v; headrace token show tells what the token is good for", p)
	case p.Type == "about:blank" && p.Status/100 != 5:
		return usage("%s: %v; is it a Headrace server?", c.Server, p)
	case p.Status/100 == 5 || p.Status == http.StatusTooManyRequests:
		text := fmt.Sprintf("%s: %v", c.Server, p)
		if p.Retry {
			text += "; try again in a while"
		}
		return &exit{exitMachine, errors.New(text)}
	}
	return usage("%v", p)
}

// unheard says why there is no answer of a server.
func unheard(err error, c *api.Client) string {
	var dial *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &cert):
		return fmt.Sprintf("%s: %v; if it is right, put what signed its certificate into a file that SSL_CERT_FILE names", c.Server, cert.Err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Sprintf("%s cannot be reached: %v; see that headrace serve runs there, and that --server or %s is right", c.Server, dial, serverEnv)
	}
	return fmt.Sprintf("%s gave no answer that can be used: %v; is it a Headrace server?", c.Server, err)
}

// absent names what a server does not have.
func absent(err error, what, name string) error {
	if errors.Is(err, job.ErrNotFound) {
		return usage("there is no %s %q, or the token is not good for its channels", what, name)
	}
	return err
}

// nameable refuses what no path can name.
func nameable(what, name string) error {
	if name == "" || name == "." || name == ".." || len(name) > job.MaxName {
		return usage("%q is no name of a %s", name, what)
	}
	return nil
}
