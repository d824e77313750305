package server

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

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
	digestLabel  = ownLabels + "digest" // of what was asked for under an Idempotency-Key, so that the key of another is told from a repeat
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
			return queue.Submission{}, api.Invalid(placeOf(i)+".id", "another job of the submission has it")
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
	if slices.IsSorted(d.order) { // as most are asked for
		return queue.Submission{Build: build, Jobs: specs, Refs: refs}, nil
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
	if b.Gate, err = gateOf("body", in.Gate); b.Gate.Key != "" {
		b.Gate.Key = d.channel + "/" + b.Gate.Key // The engine has builds of all channels wait for one another.
	}
	return b, err
}

// placeOf names a job of the body.
func placeOf(i int) string { return fmt.Sprintf("body.jobs[%d]", i) }

// spec makes the i-th job. Its place is named only where that is of use: that of a hundred thousand takes its time.
func (d *draft) spec(i int) (job.Spec, error) {
	in := &d.in.Jobs[i]
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
	if in.Gate != nil {
		if spec.Gate, err = gateOf(placeOf(i), in.Gate); err != nil {
			return spec, err
		}
	}
	if in.Estimate != 0 {
		if spec.Estimate, err = spanOf(placeOf(i)+".estimate_seconds", in.Estimate); err != nil {
			return spec, err
		}
	}
	if in.Retry != nil {
		if spec.Retry, err = retryOf(placeOf(i)+".retry", in.Retry); err != nil {
			return spec, err
		}
	}
	spec.Needs = make([]job.Need, 0, len(in.Needs))
	for k, n := range in.Needs {
		need, err := d.need(n)
		if err != nil {
			return spec, api.Invalid(fmt.Sprintf("%s.needs[%d].%s", placeOf(i), k, err.field), err.want)
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
	in := &d.in.Jobs[i]
	r := job.Ref{Job: d.ids[i], Priority: in.Priority}
	switch in.Role {
	case "", api.RoleTarget:
	case api.RoleAwaited:
		r.Awaited = true
	case api.RoleOptional:
		r.Optional = true
	default:
		return r, api.Invalid(placeOf(i)+".role", "want target, awaited or optional")
	}
	if in.Limits == (api.Limits{}) {
		return r, nil
	}
	var err error
	r.Limits, err = limitsOf(placeOf(i), in.Limits)
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
