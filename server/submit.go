package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Bounds of a submission.
const (
	maxSubmission     = 512 << 20 // bytes of its body
	maxSubmissionJobs = 1_000_000
	// submissionPatience is how long its body may take in all.
	submissionPatience = 10 * time.Minute
)

// ndjson is the media type of lines of JSON.
const ndjson = "application/x-ndjson"

// submit takes a submission as it streams in: of one of 100,000 jobs no second copy is made.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxSubmission {
		p := api.ProblemOf(api.ErrTooLarge)
		p.Detail = fmt.Sprintf("the body has %d bytes, want at most %d", r.ContentLength, maxSubmission)
		return p
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != ndjson && kind != "application/json" {
		return api.Plain(http.StatusUnsupportedMediaType, "want Content-Type application/json, or "+ndjson+": the build in the first line, then a job a line")
	}
	from := s.newPaced(w, http.MaxBytesReader(w, r.Body, maxSubmission), submissionPatience)
	var in api.Submission
	if kind == ndjson {
		err = readLines(from, &in)
	} else {
		err = readDocument(from, &in)
	}
	if err != nil {
		return err
	}
	from.done()
	ctx := r.Context()
	d := draft{newID: s.Queue.NewID, in: &in}
	submission, err := d.submission()
	if err != nil {
		return err
	}
	if err := within(ctx, d.channel); err != nil {
		return err
	}
	if err := s.reaches(ctx, &d, submission.Jobs); err != nil {
		return err
	}
	receipt, err := s.place(ctx, submission)
	if err != nil {
		return d.named(err)
	}
	if len(receipt.Jobs) != len(in.Jobs) {
		return queue.ErrRequest // The key was that of a submission of other jobs.
	}
	return write(w, http.StatusCreated, d.receipt(receipt))
}

// reaches reports whether the request may see all that the jobs need besides one another: what it may not see is not there.
func (s *Server) reaches(ctx context.Context, d *draft, jobs []job.Spec) error {
	pass := passOf(ctx)
	if pass.everywhere() {
		return nil
	}
	asked := map[job.ID]string{} // where each was named
	for at := range jobs {
		for k, n := range jobs[at].Needs {
			if _, here := d.here[n.Job]; !here {
				asked[n.Job] = fmt.Sprintf("body.jobs[%d].needs[%d].job", d.order[at], k)
			}
		}
	}
	const atOnce = 1000
	for ids := range slices.Chunk(slices.Collect(maps.Keys(asked)), atOnce) {
		recs, err := s.History.Jobs(ctx, queue.JobFilter{IDs: ids, Limit: len(ids)})
		if err != nil {
			return err
		}
		for i := range recs {
			if pass.sees(recs[i].Spec.Channel) {
				delete(asked, recs[i].Spec.ID)
			}
		}
	}
	for _, where := range asked {
		return api.Invalid(where, "there is no such job")
	}
	return nil
}

// placed is a receipt with the place of the feed from which events tell of what was asked for.
type placed struct {
	queue.Receipt
	round uint64
}

// place asks the engine for a build, and notes at it from which round on events tell of it: a repeat must be told of all of them, too.
func (s *Server) place(ctx context.Context, submission queue.Submission) (*placed, error) {
	// The engine names a large one itself.
	fresh := len(submission.Jobs) <= s.Queue.StageSize
	if fresh {
		submission.Build.ID = s.Queue.NewID()
	}
	round := s.Queue.Round()
	submission.Build.Labels[roundLabel] = strconv.FormatUint(round, 10)
	receipt, err := s.Queue.Submit(ctx, submission)
	if err != nil {
		return nil, err
	}
	if !fresh || receipt.Build != submission.Build.ID {
		recs, err := s.History.Builds(ctx, queue.BuildFilter{IDs: []job.ID{receipt.Build}, Limit: 1})
		if err != nil {
			return nil, &queue.RetryError{Cause: err}
		}
		if len(recs) == 1 {
			if recs[0].Build.Name != submission.Build.Name {
				return nil, queue.ErrRequest // The key was that of another.
			}
			if first, err := strconv.ParseUint(recs[0].Build.Labels[roundLabel], 10, 64); err == nil {
				round = first
			}
		}
	}
	return &placed{receipt, round}, nil
}

// readDocument reads a submission as one document, job by job.
func readDocument(from io.Reader, in *api.Submission) error {
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	if err := opens(d, '{', "body"); err != nil {
		return err
	}
	rest := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return misread(err, "body")
		}
		key, _ := name.(string)
		if key == "jobs" {
			if err := readJobs(d, in); err != nil {
				return err
			}
			continue
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return misread(err, "body."+clip(key))
		}
		rest[key] = v
	}
	if _, err := d.Token(); err != nil {
		return misread(err, "body")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Invalid("body", "want one JSON object and nothing after it")
	}
	text, err := json.Marshal(rest)
	if err != nil {
		return misread(err, "body")
	}
	b := json.NewDecoder(strings.NewReader(string(text)))
	b.DisallowUnknownFields()
	if err := b.Decode(&in.BuildSpec); err != nil {
		return misread(err, "body")
	}
	return nil
}

func opens(d *json.Decoder, want json.Delim, at string) error {
	t, err := d.Token()
	if err != nil {
		return misread(err, at)
	}
	if t != want {
		kind := "an object"
		if want == '[' {
			kind = "a list"
		}
		return api.Invalid(at, "want "+kind)
	}
	return nil
}

func readJobs(d *json.Decoder, in *api.Submission) error {
	if in.Jobs != nil {
		return api.Invalid("body.jobs", "is there twice")
	}
	if err := opens(d, '[', "body.jobs"); err != nil {
		return err
	}
	in.Jobs = []api.JobSpec{}
	for d.More() {
		if err := readJob(d, in); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return misread(err, "body.jobs")
	}
	return nil
}

func readJob(d *json.Decoder, in *api.Submission) error {
	n := len(in.Jobs)
	if n == maxSubmissionJobs {
		return api.Invalid(fmt.Sprintf("body.jobs[%d]", n), fmt.Sprintf("want at most %d jobs", maxSubmissionJobs))
	}
	if n == cap(in.Jobs) {
		// By half as much again: append would copy a large submission twice as often.
		in.Jobs = slices.Grow(in.Jobs, max(n/2, 64))
	}
	// In its place: a job as it is asked for has half a kilobyte.
	in.Jobs = in.Jobs[:n+1]
	in.Jobs[n] = api.JobSpec{}
	into := &in.Jobs[n]
	err := d.Decode(&into)
	if err == nil && into != nil {
		return nil
	}
	in.Jobs = in.Jobs[:n]
	at := fmt.Sprintf("body.jobs[%d]", n)
	if err == nil {
		return api.Invalid(at, "want an object, got null")
	}
	return misread(err, at)
}

// readLines reads a submission as lines of JSON: the build, then its jobs.
func readLines(from io.Reader, in *api.Submission) error {
	d := json.NewDecoder(from)
	d.DisallowUnknownFields()
	if err := d.Decode(&in.BuildSpec); err != nil {
		return misread(err, "body")
	}
	for d.More() {
		if err := readJob(d, in); err != nil {
			return err
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return misread(err, fmt.Sprintf("body.jobs[%d]", len(in.Jobs)))
	}
	return nil
}

// paced reads a body that may be large, but must not stand still, nor go on for ever.
type paced struct {
	c     *http.ResponseController
	from  io.Reader
	piece time.Duration // for the next piece
	end   time.Time
}

func (s *Server) newPaced(w http.ResponseWriter, from io.Reader, patience time.Duration) *paced {
	return &paced{
		c: http.NewResponseController(w), from: from, piece: s.BodyPatience, end: time.Now().Add(patience),
	}
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	at := time.Now().Add(p.piece)
	if at.After(p.end) {
		at = p.end
	}
	_ = p.c.SetReadDeadline(at) // A server that cannot has none.
	return p.from.Read(b)
}

// done takes the deadline away once the body has come: it would end the request while that is answered.
func (p *paced) done() { _ = p.c.SetReadDeadline(time.Time{}) }

// draft makes of what was asked for what the engine takes.
type draft struct {
	newID   func() job.ID
	in      *api.Submission
	channel string
	ids     []job.ID         // of its jobs
	names   map[string]int32 // the job of a name, or ambiguous
	here    map[job.ID]int32
	order   []int32 // places in in.Jobs, in the order in which the engine gets them
}

// ambiguous marks a name that several jobs have.
const ambiguous = -1

// Labels of a build that are the server's.
const (
	ownLabels    = "headrace."
	channelLabel = ownLabels + "channel"
	retryLabel   = ownLabels + "retry-of"
	cronLabel    = ownLabels + "schedule"
	roundLabel   = ownLabels + "round"
)

func (d *draft) submission() (queue.Submission, error) {
	build, err := d.build()
	if err != nil {
		return queue.Submission{}, err
	}
	in := d.in
	d.ids = make([]job.ID, len(in.Jobs))
	d.names, d.here = make(map[string]int32, len(in.Jobs)), make(map[job.ID]int32, len(in.Jobs))
	for i := range in.Jobs {
		j := &in.Jobs[i]
		if j.ID != nil {
			d.ids[i] = *j.ID
		} else {
			d.ids[i] = d.newID()
		}
		if _, there := d.here[d.ids[i]]; there {
			return queue.Submission{}, api.Invalid(fmt.Sprintf("body.jobs[%d].id", i), "another job of the submission has it")
		}
		d.here[d.ids[i]] = int32(i)
		if _, there := d.names[j.Name]; there {
			d.names[j.Name] = ambiguous
		} else {
			d.names[j.Name] = int32(i)
		}
	}
	specs, refs := make([]job.Spec, len(in.Jobs)), make([]job.Ref, len(in.Jobs))
	for i := range in.Jobs {
		if specs[i], err = d.spec(i); err != nil {
			return queue.Submission{}, err
		}
		if refs[i], err = d.ref(i); err != nil {
			return queue.Submission{}, err
		}
	}
	if d.order, err = d.sort(specs); err != nil {
		return queue.Submission{}, err
	}
	s := queue.Submission{Build: build, Jobs: make([]job.Spec, len(specs)), Refs: make([]job.Ref, len(specs))}
	for at, i := range d.order {
		s.Jobs[at], s.Refs[at] = specs[i], refs[i]
	}
	return s, nil
}

func (d *draft) build() (*job.Build, error) {
	in := &d.in.BuildSpec
	d.channel = in.Channel
	if d.channel == "" {
		d.channel = api.DefaultChannel
	}
	if err := channelWord("body.channel", d.channel); err != nil {
		return nil, err
	}
	if in.Name == "" {
		return nil, api.Invalid("body.name", "must not be empty")
	}
	b := &job.Build{
		Name: in.Name, Group: in.Group, Priority: in.Priority, Labels: map[string]string{channelLabel: d.channel},
	}
	for name, v := range in.Labels {
		if strings.HasPrefix(name, ownLabels) {
			return nil, api.Invalid("body.labels."+clip(name), "labels that begin with "+ownLabels+" are the server's")
		}
		b.Labels[name] = v
	}
	var err error
	if b.Limits, err = limitsOf("body", in.Limits); err != nil {
		return nil, err
	}
	b.Gate, err = gateOf("body", in.Gate)
	return b, err
}

// spec makes the i-th job.
func (d *draft) spec(i int) (job.Spec, error) {
	in, at := &d.in.Jobs[i], fmt.Sprintf("body.jobs[%d]", i)
	spec := job.Spec{
		ID: d.ids[i], Name: in.Name, Channel: d.channel, Kind: in.Kind, Key: in.Key, System: in.System,
		Features: slices.Compact(slices.Sorted(slices.Values(in.Features))), Pin: in.Pin, Exclusive: in.Exclusive,
		CacheFailure: in.CacheFailure, Reuse: in.Reuse, Args: in.Args,
	}
	if spec.Kind == "" {
		spec.Kind = api.DefaultKind
	}
	if in.NotBefore != nil {
		spec.NotBefore = job.At(*in.NotBefore)
	}
	var err error
	if spec.Gate, err = gateOf(at, in.Gate); err != nil {
		return spec, err
	}
	if spec.Estimate, err = spanOf(at+".estimate_seconds", in.Estimate); err != nil {
		return spec, err
	}
	if in.Retry != nil {
		if spec.Retry, err = retryOf(at+".retry", in.Retry); err != nil {
			return spec, err
		}
	}
	spec.Needs = make([]job.Need, 0, len(in.Needs))
	for k, n := range in.Needs {
		need, err := d.need(n)
		if err != nil {
			return spec, api.Invalid(fmt.Sprintf("%s.needs[%d].%s", at, k, err.field), err.want)
		}
		spec.Needs = append(spec.Needs, need)
	}
	return spec, nil
}

type needError struct{ field, want string }

func (d *draft) need(n api.Need) (job.Need, *needError) {
	need := job.Need{}
	if n.Policy != "" {
		p, ok := job.ParsePolicy(n.Policy)
		if !ok {
			return need, &needError{"policy", "want success, finish or order"}
		}
		need.Policy = p
	}
	if id, err := job.ParseID(n.Job); err == nil {
		need.Job = id
		return need, nil
	}
	i, ok := d.names[n.Job]
	switch {
	case n.Job == "" || !ok:
		return need, &needError{"job", fmt.Sprintf("no job of the submission has the name %q", clip(n.Job))}
	case i == ambiguous:
		return need, &needError{"job", fmt.Sprintf("several jobs have the name %q; name the one that is meant by an id", clip(n.Job))}
	}
	need.Job = d.ids[i]
	return need, nil
}

func (d *draft) ref(i int) (job.Ref, error) {
	in, at := &d.in.Jobs[i], fmt.Sprintf("body.jobs[%d]", i)
	r := job.Ref{Job: d.ids[i], Priority: in.Priority}
	switch in.Role {
	case "", api.RoleTarget:
	case api.RoleAwaited:
		r.Awaited = true
	case api.RoleOptional:
		r.Optional = true
	default:
		return r, api.Invalid(at+".role", "want target, awaited or optional")
	}
	var err error
	r.Limits, err = limitsOf(at, in.Limits)
	return r, err
}

// sort puts jobs behind what they need. Of a circle that no need but order closes, one edge is left out: it would only sort.
func (d *draft) sort(specs []job.Spec) ([]int32, error) {
	const (
		unseen = iota
		under
		done
	)
	mark := make([]uint8, len(specs))
	order := make([]int32, 0, len(specs))
	type frame struct{ job, need int32 }
	var stack []frame
	for root := range specs {
		if mark[root] != unseen {
			continue
		}
		stack = append(stack[:0], frame{job: int32(root)})
		mark[root] = under
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			needs := specs[f.job].Needs
			if int(f.need) == len(needs) {
				mark[f.job] = done
				order = append(order, f.job)
				stack = stack[:len(stack)-1]
				continue
			}
			n := needs[f.need]
			f.need++
			next, here := d.here[n.Job]
			switch {
			case !here || mark[next] == done:
			case mark[next] == unseen:
				mark[next] = under
				stack = append(stack, frame{job: next})
			case n.Policy == job.Order:
				f.need--
				specs[f.job].Needs = slices.Delete(needs, int(f.need), int(f.need)+1)
			default:
				var names []string
				for k := len(stack) - 1; k >= 0; k-- {
					names = append(names, specs[stack[k].job].Name)
					if stack[k].job == next {
						break
					}
				}
				slices.Reverse(names)
				return nil, &job.CycleError{Names: names}
			}
		}
	}
	return order, nil
}

// receipt tells what became of it, in the order in which it was asked for.
func (d *draft) receipt(r *placed) api.Receipt {
	out := api.Receipt{Build: r.Build, Round: r.round, Jobs: make([]api.Submitted, len(d.in.Jobs))}
	for at, i := range d.order {
		if at < len(r.Jobs) {
			out.Jobs[i] = api.Submitted{ID: r.Jobs[at].ID, How: r.Jobs[at].How.String()}
		}
	}
	return out
}

// named gives an error of the engine with the places that the asker knows.
func (d *draft) named(err error) error {
	var invalid *job.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	field := invalid.Field
	var at int
	if n, serr := fmt.Sscanf(field, "jobs[%d]", &at); serr == nil && n == 1 && at >= 0 && at < len(d.order) {
		_, rest, _ := strings.Cut(field, "]")
		return api.Invalid(fmt.Sprintf("body.jobs[%d]%s", d.order[at], rest), invalid.Want)
	}
	if n, serr := fmt.Sscanf(field, "refs[%d]", &at); serr == nil && n == 1 && at >= 0 && at < len(d.order) {
		_, rest, _ := strings.Cut(field, "]")
		return api.Invalid(fmt.Sprintf("body.jobs[%d]%s", d.order[at], rest), invalid.Want)
	}
	return api.Invalid("body."+strings.TrimPrefix(field, "build."), invalid.Want)
}

func limitsOf(at string, in api.Limits) (job.Limits, error) {
	timeout, err := spanOf(at+".timeout_seconds", in.Timeout)
	if err != nil {
		return job.Limits{}, err
	}
	silence, err := spanOf(at+".silence_seconds", in.Silence)
	return job.Limits{Timeout: timeout, Silence: silence}, err
}

// spanOf gives the span of time of a number of seconds. One below a microsecond would mean that there is none.
func spanOf(at string, seconds float64) (time.Duration, error) {
	most := time.Duration(job.MaxDuration).Seconds()
	if !(seconds >= 0 && seconds <= most) {
		return 0, api.Invalid(at, fmt.Sprintf("want 0 to %.0f seconds", most))
	}
	if d := api.Duration(seconds); d > 0 || seconds == 0 {
		return d, nil
	}
	return 0, api.Invalid(at, "want at least a microsecond, or 0")
}

func gateOf(at string, in *api.Gate) (job.Gate, error) {
	if in == nil {
		return job.Gate{}, nil
	}
	if in.Key == "" {
		return job.Gate{}, api.Invalid(at+".gate.key", "must not be empty")
	}
	if in.Limit < 1 {
		return job.Gate{}, api.Invalid(at+".gate.limit", "want at least 1")
	}
	return job.Gate{Key: in.Key, Limit: in.Limit}, nil
}

func retryOf(at string, in *api.Retry) (job.Retry, error) {
	delay, err := spanOf(at+".delay_seconds", in.Delay)
	if err == nil && (in.Factor < 0 || in.Factor > 1000) {
		err = api.Invalid(at+".factor", "want 0 to 1000")
	}
	return job.Retry{
		Failures: in.Failures, Aborts: in.Aborts, Losses: in.Losses, Crashes: in.Crashes, Delay: delay, Factor: in.Factor,
	}, err
}

// channelWord reports whether a channel can have the name.
func channelWord(at, name string) error {
	switch {
	case name == job.AnyChannel:
		return api.Invalid(at, `must not be "*", which stands for all channels`)
	case len(name) > job.MaxName:
		return api.Invalid(at, fmt.Sprintf("has %d bytes, want at most %d", len(name), job.MaxName))
	case !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return api.Invalid(at, "has a character that no name has")
	}
	return nil
}

// labelsOf gives the labels of a build that are the asker's.
func labelsOf(all map[string]string) map[string]string {
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(name, _ string) bool { return strings.HasPrefix(name, ownLabels) })
	return own
}
