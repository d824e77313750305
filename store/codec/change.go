package codec

import "github.com/headrace/headrace/job"

// The numbers are stored: none is ever given a second meaning.
const (
	tagBuildAdded byte = iota + 1
	tagBuildReferred
	tagBuildSealed
	tagBuildActivated
	tagBuildBumped
	tagBuildEnded
	tagBuildDeleted
	tagJobAdded
	tagJobKept
	tagJobReleased
	tagJobBlocked
	tagJobStarted
	tagJobRetried
	tagJobEnded
	tagJobFreed
	tagJobSettled
	tagJobProgress
	tagJobDeleted
	tagWorkerPut
	tagWorkerRemoved
	tagClassMarked
	tagChannelPut
	tagUsagePut
	tagDurationLearned
	tagFailureCached
	tagFailureCleared
	tagBuildKept // BuildReferred with Keeps
	tagJobStaged // JobAdded with Staging
	tagSettingPut
	tagSettingRemoved
)

// write appends the change's number and fields. The fields' functions are called straight, not through a
// table, so that the copies stay off the heap.
func (c *coder) write(change job.Change) {
	switch v := change.(type) {
	case job.BuildAdded:
		c.b = append(c.b, tagBuildAdded)
		c.buildAdded(&v)
	case job.BuildReferred:
		if len(v.Keeps) > 0 {
			c.b = append(c.b, tagBuildKept)
			c.buildKept(&v)
		} else {
			c.b = append(c.b, tagBuildReferred)
			c.buildReferred(&v)
		}
	case job.BuildSealed:
		c.b = append(c.b, tagBuildSealed)
		c.buildSealed(&v)
	case job.BuildActivated:
		c.b = append(c.b, tagBuildActivated)
		c.buildActivated(&v)
	case job.BuildBumped:
		c.b = append(c.b, tagBuildBumped)
		c.buildBumped(&v)
	case job.BuildEnded:
		c.b = append(c.b, tagBuildEnded)
		c.buildEnded(&v)
	case job.BuildDeleted:
		c.b = append(c.b, tagBuildDeleted)
		c.buildDeleted(&v)
	case job.JobAdded:
		if v.Staging.IsZero() {
			c.b = append(c.b, tagJobAdded)
			c.jobAdded(&v)
		} else {
			c.b = append(c.b, tagJobStaged)
			c.jobStaged(&v)
		}
	case job.JobKept:
		c.b = append(c.b, tagJobKept)
		c.jobKept(&v)
	case job.JobReleased:
		c.b = append(c.b, tagJobReleased)
		c.jobReleased(&v)
	case job.JobBlocked:
		c.b = append(c.b, tagJobBlocked)
		c.jobBlocked(&v)
	case job.JobStarted:
		c.b = append(c.b, tagJobStarted)
		c.jobStarted(&v)
	case job.JobRetried:
		c.b = append(c.b, tagJobRetried)
		c.jobRetried(&v)
	case job.JobEnded:
		c.b = append(c.b, tagJobEnded)
		c.jobEnded(&v)
	case job.JobFreed:
		c.b = append(c.b, tagJobFreed)
		c.jobFreed(&v)
	case job.JobSettled:
		c.b = append(c.b, tagJobSettled)
		c.jobSettled(&v)
	case job.JobProgress:
		c.b = append(c.b, tagJobProgress)
		c.jobProgress(&v)
	case job.JobDeleted:
		c.b = append(c.b, tagJobDeleted)
		c.jobDeleted(&v)
	case job.WorkerPut:
		c.b = append(c.b, tagWorkerPut)
		c.workerPut(&v)
	case job.WorkerRemoved:
		c.b = append(c.b, tagWorkerRemoved)
		c.workerRemoved(&v)
	case job.ClassMarked:
		c.b = append(c.b, tagClassMarked)
		c.classMarked(&v)
	case job.ChannelPut:
		c.b = append(c.b, tagChannelPut)
		c.channelPut(&v)
	case job.SettingPut:
		c.b = append(c.b, tagSettingPut)
		c.settingPut(&v)
	case job.SettingRemoved:
		c.b = append(c.b, tagSettingRemoved)
		c.settingRemoved(&v)
	case job.UsagePut:
		c.b = append(c.b, tagUsagePut)
		c.usagePut(&v)
	case job.DurationLearned:
		c.b = append(c.b, tagDurationLearned)
		c.durationLearned(&v)
	case job.FailureCached:
		c.b = append(c.b, tagFailureCached)
		c.failureCached(&v)
	case job.FailureCleared:
		c.b = append(c.b, tagFailureCleared)
		c.failureCleared(&v)
	default:
		c.fail(errChange)
	}
}

// read takes one change; nil after an error.
func (c *coder) read() job.Change {
	var tag byte
	word(c, &tag)
	switch tag {
	case tagBuildAdded:
		return value(c, (*coder).buildAdded)
	case tagBuildReferred:
		return value(c, (*coder).buildReferred)
	case tagBuildSealed:
		return value(c, (*coder).buildSealed)
	case tagBuildActivated:
		return value(c, (*coder).buildActivated)
	case tagBuildBumped:
		return value(c, (*coder).buildBumped)
	case tagBuildEnded:
		return value(c, (*coder).buildEnded)
	case tagBuildDeleted:
		return value(c, (*coder).buildDeleted)
	case tagJobAdded:
		return value(c, (*coder).jobAdded)
	case tagJobKept:
		return value(c, (*coder).jobKept)
	case tagJobReleased:
		return value(c, (*coder).jobReleased)
	case tagJobBlocked:
		return value(c, (*coder).jobBlocked)
	case tagJobStarted:
		return value(c, (*coder).jobStarted)
	case tagJobRetried:
		return value(c, (*coder).jobRetried)
	case tagJobEnded:
		return value(c, (*coder).jobEnded)
	case tagJobFreed:
		return value(c, (*coder).jobFreed)
	case tagJobSettled:
		return value(c, (*coder).jobSettled)
	case tagJobProgress:
		return value(c, (*coder).jobProgress)
	case tagJobDeleted:
		return value(c, (*coder).jobDeleted)
	case tagWorkerPut:
		return value(c, (*coder).workerPut)
	case tagWorkerRemoved:
		return value(c, (*coder).workerRemoved)
	case tagClassMarked:
		return value(c, (*coder).classMarked)
	case tagChannelPut:
		return value(c, (*coder).channelPut)
	case tagSettingPut:
		return value(c, (*coder).settingPut)
	case tagSettingRemoved:
		return value(c, (*coder).settingRemoved)
	case tagUsagePut:
		return value(c, (*coder).usagePut)
	case tagDurationLearned:
		return value(c, (*coder).durationLearned)
	case tagFailureCached:
		return value(c, (*coder).failureCached)
	case tagFailureCleared:
		return value(c, (*coder).failureCleared)
	case tagBuildKept:
		return value(c, (*coder).buildKept)
	case tagJobStaged:
		return value(c, (*coder).jobStaged)
	}
	c.fail(errChange)
	return nil
}

func value[T job.Change](c *coder, fields func(*coder, *T)) job.Change {
	var v T
	fields(c, &v)
	return v
}

func (c *coder) buildAdded(v *job.BuildAdded) {
	c.buildRecord(&v.BuildRecord)
}

func (c *coder) buildReferred(v *job.BuildReferred) {
	c.id(&v.Build)
	list(c, &v.Refs, refSize, (*coder).ref)
}

func (c *coder) buildKept(v *job.BuildReferred) {
	c.buildReferred(v)
	list(c, &v.Keeps, 1, (*coder).id)
}

func (c *coder) buildSealed(v *job.BuildSealed) {
	c.id(&v.Build)
}

func (c *coder) buildActivated(v *job.BuildActivated) {
	c.id(&v.Build)
}

func (c *coder) buildBumped(v *job.BuildBumped) {
	c.id(&v.Build)
	integer(c, &v.Priority)
}

func (c *coder) buildEnded(v *job.BuildEnded) {
	c.id(&v.Build)
	integer(c, &v.At)
	word(c, &v.Outcome)
	c.bool(&v.Spare)
	c.bool(&v.Erased)
}

func (c *coder) buildDeleted(v *job.BuildDeleted) {
	c.id(&v.Build)
}

func (c *coder) jobAdded(v *job.JobAdded) {
	c.record(&v.Record)
}

func (c *coder) jobStaged(v *job.JobAdded) {
	c.jobAdded(v)
	c.id(&v.Staging)
}

func (c *coder) jobKept(v *job.JobKept) {
	c.id(&v.Job)
	integer(c, &v.Seq)
	c.own(&v.Own)
}

func (c *coder) jobReleased(v *job.JobReleased) {
	c.id(&v.Job)
	integer(c, &v.Seq)
}

func (c *coder) jobBlocked(v *job.JobBlocked) {
	c.id(&v.Job)
	integer(c, &v.Seq)
}

func (c *coder) jobStarted(v *job.JobStarted) {
	c.id(&v.Job)
	integer(c, &v.Seq)
	c.attempt(&v.Attempt)
}

func (c *coder) jobRetried(v *job.JobRetried) {
	c.id(&v.Job)
	integer(c, &v.Seq)
	c.attemptEnd(&v.Attempt)
	c.tally(&v.Tally)
	integer(c, &v.Wake)
	integer(c, &v.Delay)
}

func (c *coder) jobEnded(v *job.JobEnded) {
	c.id(&v.Job)
	integer(c, &v.Seq)
	c.end(&v.End)
	pointer(c, &v.Attempt, (*coder).attemptEnd)
	c.payload(&v.Result)
	c.bool(&v.Held)
	c.bool(&v.Open)
}

func (c *coder) jobFreed(v *job.JobFreed) {
	c.id(&v.Job)
	integer(c, &v.Seq)
	integer(c, &v.At)
}

func (c *coder) jobSettled(v *job.JobSettled) {
	c.id(&v.Job)
	integer(c, &v.Seq)
}

func (c *coder) jobProgress(v *job.JobProgress) {
	c.id(&v.Job)
	integer(c, &v.Seq)
	c.payload(&v.Result)
}

func (c *coder) jobDeleted(v *job.JobDeleted) {
	c.id(&v.Job)
}

func (c *coder) workerPut(v *job.WorkerPut) {
	c.worker(&v.Worker)
}

func (c *coder) workerRemoved(v *job.WorkerRemoved) {
	c.string(&v.Name)
}

func (c *coder) classMarked(v *job.ClassMarked) {
	c.class(&v.Class)
	integer(c, &v.Since)
}

func (c *coder) channelPut(v *job.ChannelPut) {
	c.channel(&v.Channel)
}

func (c *coder) settingPut(v *job.SettingPut) {
	c.setting(&v.Setting)
}

func (c *coder) settingRemoved(v *job.SettingRemoved) {
	c.string(&v.Space)
	c.string(&v.Name)
}

func (c *coder) usagePut(v *job.UsagePut) {
	c.string(&v.Channel)
	c.string(&v.Group)
	integer(c, &v.Slice)
	integer(c, &v.Used)
}

func (c *coder) durationLearned(v *job.DurationLearned) {
	c.series(&v.Series)
	integer(c, &v.Took)
}

func (c *coder) failureCached(v *job.FailureCached) {
	c.failure(v)
}

func (c *coder) failureCleared(v *job.FailureCleared) {
	c.identity(&v.Identity)
}
