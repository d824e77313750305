package job

import "time"

// The share window (rule 8): what was used in the last 24 h, kept in slices so that one number a slice and
// group is stored, not one an attempt. Sums are integers, in a unit that divides evenly among up to ten
// groups, so that the order in which attempts come and go leaves no trace.
const (
	UsageSlice  = 30 * time.Minute
	UsageWindow = 24 * time.Hour

	usageSlices = int64(UsageWindow / UsageSlice)
	usageUnit   = 5040 // units a millisecond of one attempt
)

type account struct{ channel, group string }

// usage is what a share group, or a channel, used and uses.
type usage struct {
	slices []slice // oldest first
	sum    int64   // of slices, in microseconds
	weight int64   // of running attempts, in units a millisecond
	start  int64   // sum over running attempts of weight x start, in milliseconds from the base
	full   int64   // what running attempts older than the window count for
	shares int64   // to divide a group's use by
}

type slice struct {
	index int64
	used  int64 // microseconds
}

// total gives the use at a moment, in units.
func (u *usage) total(now, base Time) int64 {
	u.trim(sliceOf(now))
	return u.sum*usageUnit/1000 + u.weight*(int64(now-base)/1000) - u.start + u.full
}

func sliceOf(t Time) int64 { return int64(t) / int64(UsageSlice/time.Microsecond) }

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

func (u *usage) trim(current int64) {
	n := 0
	for n < len(u.slices) && u.slices[n].index <= current-usageSlices {
		u.sum -= u.slices[n].used
		n++
	}
	u.slices = u.slices[n:]
}

// get gives what a slice holds.
func (u *usage) get(index int64) int64 {
	for i := len(u.slices) - 1; i >= 0; i-- {
		if u.slices[i].index == index {
			return u.slices[i].used
		}
	}
	return 0
}

// add changes what a slice holds.
func (u *usage) add(index, used int64) {
	u.sum += used
	i := len(u.slices)
	for i > 0 && u.slices[i-1].index > index {
		i--
	}
	if i > 0 && u.slices[i-1].index == index {
		u.slices[i-1].used += used
		return
	}
	u.slices = append(u.slices, slice{})
	copy(u.slices[i+1:], u.slices[i:])
	u.slices[i] = slice{index, used}
}

func (m *Machine) account(channel, group string) *usage {
	a := account{channel, group}
	u := m.accounts[a]
	if u == nil {
		u = &usage{shares: m.groupShares(channel, group)}
		m.accounts[a] = u
	}
	return u
}

func (m *Machine) channelUsage(channel string) *usage {
	u := m.channelUse[channel]
	if u == nil {
		u = &usage{}
		m.channelUse[channel] = u
	}
	return u
}

// ChannelUse gives what the jobs of a channel used in the window at now, and the shares to divide it by.
func (m *Machine) ChannelUse(channel string, now Time) (use, shares int64) {
	if u := m.channelUse[channel]; u != nil {
		use = u.total(now, m.base)
	}
	shares = 1
	if c := m.channels[channel]; c != nil && c.Shares > 1 {
		shares = int64(c.Shares)
	}
	return use, shares
}

// AgeUse gives what ChannelUse gives of all channels together that go by age.
func (m *Machine) AgeUse(now Time) (use, shares int64) {
	for name, c := range m.channels {
		if c.Discipline == ByAge {
			u, s := m.ChannelUse(name, now)
			use, shares = use+u, shares+s
		}
	}
	return use, max(shares, 1)
}

// GroupUse gives what a share group of the channel used in the window at now, and the shares to divide it by.
func (m *Machine) GroupUse(channel, group string, now Time) (use, shares int64) {
	if u := m.accounts[account{channel, group}]; u != nil {
		use = u.total(now, m.base)
	}
	return use, m.groupShares(channel, group)
}

func (m *Machine) groupShares(channel, group string) int64 {
	if c := m.channels[channel]; c != nil && c.GroupShares[group] > 1 {
		return int64(c.GroupShares[group])
	}
	return 1
}

// Meter reads what one share group used, without looking the group up each time. It is good as long as its Machine.
type Meter struct {
	u    *usage
	base Time
}

// GroupMeter gives the meter of a share group of the channel.
func (m *Machine) GroupMeter(channel, group string) Meter {
	return Meter{m.account(channel, group), m.base}
}

// Use gives what GroupUse gives.
func (r Meter) Use(now Time) (use, shares int64) { return r.u.total(now, r.base), r.u.shares }

// meter starts (sign 1) or stops (sign -1) counting a running attempt.
func (m *Machine) meter(j *Job, sign int64) {
	a := &j.last.Attempt
	w := sign * usageUnit / int64(len(a.Groups))
	at := int64(a.Start-m.base) / 1000
	channel := m.channelUsage(j.class.Channel)
	for _, g := range a.Groups {
		for _, u := range []*usage{m.account(j.class.Channel, g), channel} {
			if j.last.lease.aged {
				u.full += w * int64(UsageWindow/time.Millisecond)
			} else {
				u.weight += w
				u.start += w * at
			}
		}
	}
}

// age notes that a running attempt fills the whole window.
func (m *Machine) age(j *Job) {
	m.meter(j, -1)
	j.last.lease.aged = true
	m.meter(j, 1)
}

// charge gives the changes that book an attempt that ends at the given moment.
func (m *Machine) charge(j *Job, end Time) []Change {
	a := &j.last.Attempt
	from := max(a.Start, end.Add(-UsageWindow))
	if end <= from {
		return nil
	}
	var puts []Change
	n := int64(len(a.Groups))
	for _, g := range a.Groups {
		u := m.account(j.class.Channel, g)
		for s := sliceOf(from); s <= sliceOf(end); s++ {
			width := int64(UsageSlice / time.Microsecond)
			part := min(int64(end), (s+1)*width) - max(int64(from), s*width)
			if part > 0 {
				used := microseconds(u.get(s) + part/n)
				puts = append(puts, UsagePut{Channel: j.class.Channel, Group: g, Slice: s, Used: used})
			}
		}
	}
	return puts
}

func (m *Machine) applyUsage(c UsagePut) {
	u := m.account(c.Channel, c.Group)
	more := int64(c.Used/time.Microsecond) - u.get(c.Slice)
	u.add(c.Slice, more)
	m.channelUsage(c.Channel).add(c.Slice, more)
}
