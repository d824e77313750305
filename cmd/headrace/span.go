package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/spf13/pflag"
)

// span is a flag with a duration. One below a microsecond would be kept as 0, which means something else.
type span struct{ *time.Duration }

// spanVar defines such a flag.
func spanVar(f *pflag.FlagSet, p *time.Duration, name string, usual time.Duration, use string) {
	*p = usual
	flag := f.VarPF(span{p}, name, "", use)
	if usual == 0 {
		flag.DefValue = "0" // So that no help tells of it.
	}
}

// Set implements pflag.Value. A duration may begin with days, which Go's have not.
func (s span) Set(text string) error {
	const most = int(job.MaxDuration / (24 * time.Hour))
	days, rest, ok := strings.Cut(text, "d")
	n, err := strconv.Atoi(days)
	if !ok || err != nil || n < 0 || n > most {
		n, rest = 0, text
	} else if rest == "" {
		rest = "0"
	}
	v, err := time.ParseDuration(rest)
	v += time.Duration(n) * 24 * time.Hour
	switch {
	case err != nil, v > job.MaxDuration:
		return fmt.Errorf("want a duration such as 90s, 1h30m or 30d, at most %dh", job.MaxDuration/time.Hour)
	case strings.ContainsRune(text, '-'):
		return errors.New("want 0 or more")
	case v < time.Microsecond && strings.ContainsAny(text, "123456789"):
		return errors.New("want 0 or at least 1µs")
	}
	*s.Duration = v
	return nil
}

// String implements pflag.Value.
func (s span) String() string {
	if s.Duration == nil { // pflag asks the zero value.
		return "0s"
	}
	return s.Duration.String()
}

// Type implements pflag.Value.
func (span) Type() string { return "duration" }
