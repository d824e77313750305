//go:build !linux

package pgtest

import (
	"errors"
	"time"
)

// Spent is known on Linux alone.
func (c *Cluster) Spent() (time.Duration, error) { return 0, errors.ErrUnsupported }
