//go:build !linux

package pgtest

import "syscall"

// mortal does nothing: only Linux has a signal for the death of a parent.
func mortal(*syscall.SysProcAttr) {}
