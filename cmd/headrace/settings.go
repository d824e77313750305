package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settle gives the flags of a command that were not given the values of the environment or, if they have none there, of the file.
// Those in besides are flags alone.
func settle(cmd *cobra.Command, file string, besides ...string) error {
	written, err := readSettings(file)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	var wrong error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(besides, f.Name) {
			return
		}
		known[f.Name] = true
		if f.Changed || wrong != nil {
			return
		}
		variable := variableOf(f.Name)
		if text, ok := os.LookupEnv(variable); ok && text != "" {
			if err := cmd.Flags().Set(f.Name, text); err != nil {
				wrong = usage("%s: %v", variable, untold(f, err))
			}
			return
		}
		text := written[f.Name]
		if text == "" { // as with variables: not given
			return
		}
		if err := cmd.Flags().Set(f.Name, text); err != nil {
			wrong = usage("%s: %s: %v", file, f.Name, untold(f, err))
		}
	})
	if wrong != nil {
		return wrong
	}
	var unknown []string
	for name := range written {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return usage("%s: unknown setting %s; %s --help lists what there is", file, strings.Join(unknown, ", "), cmd.CommandPath())
	}
	return checkStores(cmd)
}

// untold gives the cause of an error about a flag, without the value, which may be secret.
func untold(f *pflag.Flag, err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return fmt.Errorf("is no %s", f.Value.Type())
}

// variableOf names the variable of the environment that stands for a flag.
func variableOf(flag string) string {
	return "HEADRACE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readSettings reads a file of settings; "": there is none.
func readSettings(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usage("the settings: %v", err)
	}
	var all map[string]any
	if _, err := toml.Decode(string(text), &all); err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return nil, usage("%s:%d:%d: %s", file, at.Position.Line, at.Position.Col, at.Message)
		}
		return nil, usage("%s: %v", file, err)
	}
	written := make(map[string]string, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch v := all[name].(type) {
		case string:
			written[name] = v
		case bool:
			written[name] = strconv.FormatBool(v)
		case int64:
			written[name] = strconv.FormatInt(v, 10)
		case float64:
			written[name] = strconv.FormatFloat(v, 'g', -1, 64)
		case []any:
			var list []string
			for _, e := range v {
				text, ok := e.(string)
				if !ok || strings.Contains(text, ",") {
					return nil, usage("%s: %s: want a list of texts without commas", file, name)
				}
				list = append(list, text)
			}
			written[name] = strings.Join(list, ",")
		default:
			return nil, usage("%s: %s: want a text, a number or true or false", file, name)
		}
	}
	return written, nil
}

// showSettings prints the flags of a command as the file would have them, without secrets.
func showSettings(w io.Writer, cmd *cobra.Command, besides ...string) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if err != nil || slices.Contains(besides, f.Name) {
			return
		}
		text := f.Value.String()
		if isURL(text) {
			text = hidden(text)
		}
		if t := f.Value.Type(); t != "bool" && t != "int" {
			text = strconv.Quote(text)
		}
		_, err = fmt.Fprintf(w, "%s = %s\n", f.Name, text)
	})
	return err
}
