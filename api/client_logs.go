package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/headrace/headrace/job"
)

// LogSize tells how long a log is.
type LogSize struct {
	Size int64 `json:"size"`
}

// Uploaded tells how much of an artifact is there.
type Uploaded struct {
	Received int64 `json:"received" doc:"Bytes that are there: the offset at which to go on."`
	Complete bool  `json:"complete" doc:"It is whole, right and visible."`
}

// AppendLog appends to the log of an attempt what stands there from the offset on, and gives the size of the log after that. A repeat is
// harmless. ErrMismatch: bytes before the offset are missing; job.ErrEnded: the log is closed; ErrTooLarge: it is full. With each of
// them comes the size.
func (c *Client) AppendLog(ctx context.Context, l job.Lease, offset int64, chunk []byte) (int64, error) {
	k := &call{
		method: http.MethodPost, path: attemptPath(l.Job, l.Attempt) + "/log", query: url.Values{"offset": {strconv.FormatInt(offset, 10)}},
		header: http.Header{LeaseHeader: {l.Token.Reveal()}, "Content-Type": {"application/octet-stream"}}, once: true,
	}
	var size LogSize
	err := c.exchange(ctx, k, chunk, &size)
	var p *Problem
	if errors.As(err, &p) && p.Size != nil {
		size.Size = *p.Size
	}
	return size.Size, err
}

// LogOptions say what of a log is read.
type LogOptions struct {
	// Attempt is its number; 0: the last.
	Attempt int32
	// Offset is where to begin; Tail, if not nil, begins with so many of the last lines.
	Offset int64
	Tail   *int
	// Follow goes on as it grows, to the end of the attempt.
	Follow bool
}

// Log reads the log of a job's attempt, which the caller closes, and tells the offset at which it begins.
func (c *Client) Log(ctx context.Context, id job.ID, o LogOptions) (content io.ReadCloser, offset int64, err error) {
	path := "/jobs/" + id.String() + "/log"
	if o.Attempt > 0 {
		path = attemptPath(id, o.Attempt) + "/log"
	}
	q := url.Values{}
	if o.Offset > 0 {
		q.Set("offset", strconv.FormatInt(o.Offset, 10))
	}
	if o.Tail != nil {
		q.Set("tail", strconv.Itoa(*o.Tail))
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	response, err := c.send(ctx, &call{method: http.MethodGet, path: path, query: q}, nil)
	if err != nil {
		return nil, 0, err
	}
	offset, err = strconv.ParseInt(response.Header.Get("Headrace-Log-Offset"), 10, 64)
	if err != nil {
		offset = o.Offset
	}
	return response.Body, offset, nil
}

// Artifacts lists the artifacts of an attempt by name.
func (c *Client) Artifacts(ctx context.Context, id job.ID, attempt int32) ([]Artifact, error) {
	var list List[Artifact]
	err := c.get(ctx, attemptPath(id, attempt)+"/artifacts", nil, &list)
	return list.Items, err
}

// Artifact reads an artifact, which the caller closes.
func (c *Client) Artifact(ctx context.Context, id job.ID, attempt int32, name string) (io.ReadCloser, error) {
	response, err := c.send(ctx, &call{method: http.MethodGet, path: artifactPath(id, attempt, name)}, nil)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// PutArtifact uploads bytes of an artifact from an offset on; sum is the SHA-256 of the whole in hexadecimal, size its length. It gives how many
// bytes are there: where to go on, if it was cut off.
func (c *Client) PutArtifact(ctx context.Context, l job.Lease, name string, size int64, sum string, offset int64, content io.Reader) (Uploaded, error) {
	k := &call{
		method: http.MethodPut, path: artifactPath(l.Job, l.Attempt, name),
		query: url.Values{
			"offset": {strconv.FormatInt(offset, 10)}, "size": {strconv.FormatInt(size, 10)}, "sha256": {sum},
		},
		header: http.Header{LeaseHeader: {l.Token.Reveal()}, "Content-Type": {"application/octet-stream"}},
		held:   -1, // It takes as long as the file does.
	}
	var u Uploaded
	response, err := c.send(ctx, k, content)
	if err == nil {
		defer response.Body.Close() // Only read from.
		err = decode(ctx, k, response.Body, &u)
	}
	var p *Problem
	if errors.As(err, &p) && p.Size != nil {
		u.Received = *p.Size
	}
	return u, err
}

func artifactPath(id job.ID, attempt int32, name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return attemptPath(id, attempt) + "/artifacts/" + strings.Join(parts, "/")
}
