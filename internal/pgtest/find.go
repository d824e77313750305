package pgtest

import (
	"cmp"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// errMissing says what to install.
var errMissing = errors.New("PostgreSQL's server is not installed (no initdb on PATH nor under /usr/lib/postgresql): run make setup, or install the package postgresql")

// binaries gives the folder of initdb and postgres: that of the initdb on PATH, else of Debian's newest release.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.Join(errMissing, err)
	}
	release := func(path string) int {
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		if err != nil {
			return 0 // Not a release's folder: any other is better.
		}
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(release(a), release(b)) })
	return filepath.Dir(newest), nil
}
