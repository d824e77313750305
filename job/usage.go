package job

import "time"

// The share window (rule 8): what was used in the last 24 h, kept in slices.
const (
	UsageSlice  = 30 * time.Minute
	UsageWindow = 24 * time.Hour
)
