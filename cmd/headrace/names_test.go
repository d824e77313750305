package main

import (
	"strings"
	"testing"
)

func TestABuildIsNamedAfterItsFile(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"d/ci.yaml":                      "ci.yaml",
		"a b\\é.yaml":                    "a b\\é.yaml",
		"a\x1b[31m\r\nb.yaml":            "a_[31m__b.yaml",
		"a\x7f\u009b\u202eb":             "a___b",
		"a\xff\xfeb":                     "a_b",
		strings.Repeat("x", 127) + "é.z": strings.Repeat("x", 127),
	} {
		if got := nameOf(file); got != want {
			t.Errorf("%q: got %q, want %q", file, got, want)
		}
	}
}
