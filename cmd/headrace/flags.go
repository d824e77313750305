package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// storeFlag is a flag that names a store.
type storeFlag struct{ *string }

// storeVar defines such a flag.
func storeVar(f *pflag.FlagSet, p *string, name, use string) { f.Var(storeFlag{p}, name, use) }

// Set implements pflag.Value. It refuses nothing: pflag would print the value, which may have a password.
func (s storeFlag) Set(text string) error {
	*s.string = text
	return nil
}

// String implements pflag.Value.
func (s storeFlag) String() string {
	if s.string == nil { // pflag asks the zero value.
		return ""
	}
	return *s.string
}

// Type implements pflag.Value.
func (storeFlag) Type() string { return "string" }

// checkStores refuses what is given for a store and cannot be one: a mistyped URL would be a folder, and an empty name, as of a
// variable of the shell that is not set, the usual store.
func checkStores(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, ok := f.Value.(storeFlag); !ok || err != nil {
			return
		}
		store := f.Value.String()
		scheme, _, url := strings.Cut(store, "://")
		info, missing := os.Stat(store)
		switch {
		case missing == nil && !info.IsDir() && cmd.Flags().NArg() > 0:
			err = usage("--%s: %s is a file: beside a graph file want a folder, or a database as postgres://HOST/NAME", f.Name, store)
		case store == "":
			err = usage("--%s is empty: want a folder, or a database as postgres://HOST/NAME", f.Name)
		case url && !isURL(store):
			err = usage("--%s: %q is not the start of a store: want a folder, or a database as postgres://HOST/NAME", f.Name, scheme+"://")
		}
	})
	return err
}

// isURL reports whether a store is a database.
func isURL(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// whole is a flag with a whole number in a range.
type whole struct {
	value       *int
	least, most int
}

// wholeVar defines such a flag.
func wholeVar(f *pflag.FlagSet, p *int, name, short string, usual, least, most int, use string) {
	*p = usual
	f.VarP(whole{p, least, most}, name, short, use)
}

// Set implements pflag.Value.
func (w whole) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < w.least || n > w.most {
		return fmt.Errorf("want a whole number from %d to %d", w.least, w.most)
	}
	*w.value = n
	return nil
}

// String implements pflag.Value.
func (w whole) String() string {
	if w.value == nil { // pflag asks the zero value.
		return "0"
	}
	return strconv.Itoa(*w.value)
}

// Type implements pflag.Value.
func (whole) Type() string { return "int" }
