package graph

// For tests only: the fields that the parser knows.
var (
	JobFields     = jobFields
	NotInDefaults = notInDefaults
	TopFields     = topFields
)
