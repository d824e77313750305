// Package farm is what a person at a command line is shown of a farm, a server elsewhere: its builds, jobs, workers and channels as
// tables or as JSON, and how a build goes on there.
//
// It reads through api.Client alone, decides nothing and changes nothing. It knows no flags and no exit codes: cmd/headrace does.
// Names and messages come from others, so none reaches a terminal before its control characters are visible.
//
// A Farm belongs to one goroutine. Start reading at farm.go; name.go is about how a person names a build or a job, follow.go
// about waiting for the end of one.
package farm
