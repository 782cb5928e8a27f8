package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

// fstabFlags are the flags of mount that are options of fstab too, there with an
// underscore for each hyphen. They are what a server in the background is given.
var fstabFlags = []string{
	"allow-other", "backend", "debug", "follow-links", "gguf-type", "hot", "i2s", "log", "no-mkdir", "nonempty", "read-ahead", "views", "warm",
	"idle", "max-open",
	"cache", "cache-size", "download", "offline", "plain-http", "remote", "timeout",
}

// envOption begins options that set a variable of the server: env.HF_HOME=/srv/hf.
const envOption = "env."

// takeOptions sets the flags and variables that -o names and returns the options
// that are for fs and change something.
func (o *mountOptions) takeOptions() (extra []string, err error) {
	for _, list := range o.options {
		for opt := range strings.SplitSeq(list, ",") {
			key, value, hasValue := strings.Cut(opt, "=")
			flag := strings.ReplaceAll(key, "_", "-")
			name, isEnv := strings.CutPrefix(key, envOption)
			switch {
			case opt == "":
			case isEnv:
				err = setServerEnv(name, value, hasValue)
			case !strings.Contains(key, "-") && slices.Contains(fstabFlags, flag):
				err = setFlag(o.set.Lookup(flag), value, hasValue)
			default:
				extra = append(extra, opt)
			}
			if err != nil {
				return nil, usageError{fmt.Errorf("-o %s: %w", opt, err)}
			}
		}
	}
	extra = slices.DeleteFunc(extra, func(opt string) bool {
		_, err := fs.CheckOptions([]string{opt})
		return o.sloppy && errors.Is(err, fs.ErrUnknownOption)
	})
	extra, err = fs.CheckOptions(extra)
	if errors.Is(err, fs.ErrUnknownOption) {
		err = fmt.Errorf("%w; known are %s, and those of mount(8) itself", err, strings.Join(o.optionNames(), ", "))
	}
	if err != nil {
		return nil, usageError{err}
	}
	return extra, nil
}

// setFlag sets a flag as if it had been on the command line.
func setFlag(f *pflag.Flag, value string, hasValue bool) error {
	if !hasValue && f.NoOptDefVal == "" {
		return errors.New("a value is missing: " + optionName(f) + "VALUE")
	}
	if !hasValue {
		value = f.NoOptDefVal
	}
	err := f.Value.Set(value)
	if want := wanted[f.Value.Type()]; err != nil && want != "" { // the flag's own error is one of strconv
		return errors.New("want " + want)
	}
	return err
}

// wanted is what values of some types look like.
var wanted = map[string]string{"duration": "a time like 5m", "int": "a number", "float64": "a number such as 0.01"}

// setServerEnv sets a variable for this process and the server that it starts.
func setServerEnv(name, value string, hasValue bool) error {
	if !hasValue {
		return errors.New("a value is missing: " + envOption + name + "=VALUE")
	}
	if !isKeptEnv(name) {
		return fmt.Errorf("tensorfs does not use %s; it looks for models by %s", tensorfs.Printable(name), strings.Join(placesEnv, ", "))
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

// optionNames lists the options that -o takes, for people.
func (o *mountOptions) optionNames() []string {
	names := append(fs.OptionNames(), envOption+"NAME=")
	for _, flag := range fstabFlags {
		names = append(names, optionName(o.set.Lookup(flag)))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// serverFlags are the flags of the server: those that were set.
func (o *mountOptions) serverFlags() (args []string) {
	for _, name := range fstabFlags {
		f := o.own.Lookup(name)
		if f == nil { // serve does not have it
			continue
		}
		value := f.Value.String()
		switch {
		case value == f.DefValue:
		case value == f.NoOptDefVal:
			args = append(args, "--"+name)
		default:
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}
