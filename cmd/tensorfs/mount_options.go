package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/server"
)

// envOption begins options that set a variable of the server: env.HF_HOME=/srv/hf.
const envOption = "env."

// takeOptions sets the flags and variables that -o names and returns the options
// that are for fs and change something.
func (o *mountOptions) takeOptions() (extra []string, err error) {
	for _, list := range o.options {
		for _, opt := range mounts.SplitOptions(list) {
			key, value, hasValue := strings.Cut(opt, "=")
			f := o.set.Lookup(strings.ReplaceAll(key, "_", "-"))
			name, isEnv := strings.CutPrefix(key, envOption)
			switch {
			case opt == "":
			case isEnv:
				err = setServerEnv(name, value, hasValue)
			case f != nil && marked(f, markOption) && !strings.Contains(key, "-"):
				err = setFlag(f, value, hasValue)
			default:
				extra = append(extra, opt)
			}
			if err != nil {
				return nil, cli.UsageError{Err: fmt.Errorf("-o %s: %w", opt, err)}
			}
		}
	}
	if err := contradiction(o.set); err != nil {
		return nil, err
	}
	unknown := func(opt string) bool {
		_, err := mounts.CheckOptions([]string{opt})
		return errors.Is(err, mounts.ErrUnknownOption)
	}
	if o.sloppy {
		extra = slices.DeleteFunc(extra, unknown)
	}
	useful, err := mounts.CheckOptions(extra)
	if errors.Is(err, mounts.ErrUnknownOption) {
		known := optionNames(o.set)
		key, _, _ := strings.Cut(extra[slices.IndexFunc(extra, unknown)], "=")
		if meant := near.Names(key, known, 1); len(meant) > 0 {
			err = fmt.Errorf("%w; %s", err, near.Question(meant))
		} else {
			err = fmt.Errorf("%w; known are %s, and mount(8)'s own options", err, strings.Join(known, ", "))
		}
	}
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return useful, nil
}

// setFlag sets a flag as if it had been on the command line.
func setFlag(f *pflag.Flag, value string, hasValue bool) error {
	if !hasValue && f.NoOptDefVal == "" {
		return errors.New("a value is missing: " + optionName(f) + "VALUE")
	}
	if !hasValue {
		value = f.NoOptDefVal
	}
	if err := f.Value.Set(value); err != nil {
		return wrongValue(f, err)
	}
	return nil
}

// wrongValue returns the error of a flag's value in the words of users: of the types that package pflag reads, its error
// has the words of strconv.
func wrongValue(f *pflag.Flag, err error) error {
	if want := wanted[f.Value.Type()]; want != "" {
		return errors.New("want " + want)
	}
	return err
}

// wanted is what values of some types look like.
var wanted = map[string]string{"duration": "a time like 5m", "int": "a number", "float64": "a number such as 0.01", "bool": "true, false or nothing"}

// setServerEnv sets a variable for this process and the server that it starts.
func setServerEnv(name, value string, hasValue bool) error {
	if !hasValue {
		return errors.New("a value is missing: " + envOption + name + "=VALUE")
	}
	if !server.IsKeptEnv(name) {
		return fmt.Errorf("tensorfs does not use %s; it looks for models by %s", tensorfs.Printable(name), strings.Join(server.PlacesEnv, ", "))
	}
	return os.Setenv(name, value)
}

// optionName is how the option of a flag is written.
func optionName(f *pflag.Flag) string {
	name := strings.ReplaceAll(f.Name, "-", "_")
	if f.NoOptDefVal == "" {
		name += "="
	}
	return name
}

// optionUsage is the option of a flag with the name of its value, as help has it.
func optionUsage(f *pflag.Flag) string {
	value, _ := pflag.UnquoteUsage(f)
	name, typed := optionName(f), map[string]string{"string": "NAME", "int": "NUMBER"}[value]
	if value = strings.ToUpper(cmp.Or(typed, value)); f.NoOptDefVal != "" && value != "" {
		return name + " or " + name + "=" + value
	}
	return name + value
}

// optionNames lists the options that -o takes, for people.
func optionNames(set *pflag.FlagSet) []string {
	names := append(mounts.OptionNames(), envOption+"NAME=")
	set.VisitAll(func(f *pflag.Flag) {
		if marked(f, markOption) && !marked(f, markElsewhere) {
			names = append(names, optionName(f))
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// isSet reports whether a flag has another value than by default.
func isSet(f *pflag.Flag) bool { return f.Value.String() != f.DefValue }

// serverFlags are the flags of the server: flags that were set, and that are options too or
// marked for it.
func (o *mountOptions) serverFlags() (args []string) {
	o.own.VisitAll(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		switch value := f.Value.String(); {
		case !marked(f, markOption) && !marked(f, markServer) || !isSet(f):
		case isList:
			for _, x := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+x)
			}
		case value == f.NoOptDefVal:
			args = append(args, "--"+f.Name)
		default:
			args = append(args, "--"+f.Name+"="+value)
		}
	})
	return args
}
