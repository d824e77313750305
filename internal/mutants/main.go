package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Stdout, os.Stderr, os.Args[1:])
	stop()
	os.Exit(code)
}

// command is the program; it returns the exit code.
func command(ctx context.Context, stdout, stderr io.Writer, args []string) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", ".", "folder of the module")
	lists := flags.String("faults", "internal/mutants/faults", "folder of the lists of faults")
	only := flags.String("only", "", "judge only these faults (identifiers, joined by commas)")
	parallel := flags.Int("parallel", 2, "how many faults to judge at the same time")
	list := flags.Bool("list", false, "list the faults and judge none")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	faults, err := load(os.DirFS(*lists))
	if err == nil && *only != "" {
		faults, err = choose(faults, strings.Split(*only, ","))
	}
	if err == nil && len(faults) == 0 {
		err = fmt.Errorf("no fault is listed in %s", *lists)
	}
	if err != nil {
		fmt.Fprintf(stderr, "mutants: %v\n", err)
		return 2
	}
	if *list {
		for _, f := range faults {
			fmt.Fprintf(stdout, "%-32s %s: %s\n", f.id, f.file, f.plants)
		}
		return 0
	}
	r := &runner{root: *root, parallel: *parallel, out: stdout}
	caught, err := r.judge(ctx, faults)
	if err != nil {
		fmt.Fprintf(stderr, "mutants: %v\n", err)
		return 2
	}
	fmt.Fprintf(stdout, "caught %d of %d\n", caught, len(faults))
	if caught < len(faults) {
		return 1
	}
	return 0
}

// choose keeps the faults with the given identifiers; each must exist.
func choose(faults []fault, ids []string) ([]fault, error) {
	var chosen []fault
	for _, id := range ids {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.id == id })
		if i < 0 {
			return nil, fmt.Errorf("no fault is called %q; -list lists them", id)
		}
		chosen = append(chosen, faults[i])
	}
	return chosen, nil
}
