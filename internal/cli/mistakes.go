package cli

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// BlankUnit returns an error if the unit of a flag's number follows as an argument, as in --size 20 GB.
func BlankUnit(set *pflag.FlagSet, args []string) (err error) {
	set.Visit(func(f *pflag.Flag) {
		units := unitsOf()[f.Value.Type()]
		if err != nil || units == nil {
			return
		}
		for _, a := range args {
			if _, serr := os.Lstat(a); serr != nil && units.MatchString(a) {
				err = UsageError{Err: fmt.Errorf("%s follows --%s after a blank; write it without one, as in --%[2]s 24%[1]s", conceal.Printable(a), f.Name)}
			}
		}
	})
	return err
}

// unitsOf are the units of flags by their types.
var unitsOf = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{"SIZE": regexp.MustCompile(`^(?i)[kmgt](i?b)?$`), "TOKENS": regexp.MustCompile(`^(?i)(k|m)$`)}
})

// EmptyFlag returns an error if a flag was given an empty value, which is often a shell
// variable that is not set, or the next flag as its value.
func EmptyFlag(set *pflag.FlagSet) (err error) {
	set.Visit(func(f *pflag.Flag) {
		if err != nil || f.Value.Type() != "string" {
			return
		}
		value := f.Value.String()
		if option, ok := strings.CutPrefix(value, "--"); value == "" {
			err = UsageError{Err: fmt.Errorf("--%s is empty; leave it out, or give it a value", f.Name)}
		} else if ok && option != "" && !(strings.HasPrefix(f.Name, "to-") && strings.HasPrefix(option, "as")) { // see exportTo.settle
			err = UsageError{Err: fmt.Errorf("--%s takes a value, and %s follows it; write ./%s if a file has that name", f.Name, tensorfs.Printable(value), tensorfs.Printable(value))}
		}
	})
	return err
}

// UnexpandedHome returns an error if an argument or a flag's value is a path below ~, which the shell has left as it is: the
// directory of that name would be made, or missed.
func UnexpandedHome(set *pflag.FlagSet, args []string) (err error) {
	check := func(flag, value string) {
		first, _, _ := strings.Cut(value, "/")
		if err != nil || !homeDir().MatchString(first) {
			return
		}
		if _, serr := os.Lstat(first); serr != nil {
			err = UsageError{Err: fmt.Errorf("%s%s: the shell replaces ~ by the home directory only at the beginning of a word and outside quotes; write \"$HOME\" instead", flag, conceal.Printable(value))}
		}
	}
	for _, a := range args {
		check("", a)
	}
	set.Visit(func(f *pflag.Flag) {
		switch list, ok := f.Value.(pflag.SliceValue); {
		case ok:
			for _, value := range list.GetSlice() {
				check("--"+f.Name+" ", value)
			}
		case f.Value.Type() == "string":
			check("--"+f.Name+" ", f.Value.String())
		}
	})
	return err
}

// homeDir matches what a shell replaces by a home directory.
var homeDir = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^~[a-z_][a-z0-9_-]*$|^~$`) })
