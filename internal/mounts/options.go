package mounts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Options are mount options of fstab, sorted by what takes them.
type Options struct {
	Flags []string // flags of mount(2), by name
	Data  []string // for FUSE
	Look  Look
}

// Look is what all files of a mount look like.
type Look struct{ UID, GID, Umask uint32 }

// OwnLook is the look of files that belong to the serving process.
func OwnLook() Look { return Look{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} }

// ErrUnknownOption is wrapped by the error for an option that tensorfs does not know.
var ErrUnknownOption = errors.New("unknown mount option")

// CheckOptions returns the options that change something, or what is wrong with one: it
// is unknown (ErrUnknownOption), refused, or has a wrong value.
func CheckOptions(options []string) (useful []string, err error) {
	for _, opt := range options {
		o, err := ParseOptions([]string{opt})
		if err != nil {
			return nil, err
		}
		if len(o.Flags)+len(o.Data) > 0 || o.Look != OwnLook() {
			useful = append(useful, opt)
		}
	}
	return useful, nil
}

// ParseOptions sorts options. Options of mount(8) itself are ignored, and so are options
// that would remove a protection (rw, suid, dev, exec). Where other users are let in, the
// kernel checks modes and owners (default_permissions).
func ParseOptions(options []string) (Options, error) {
	o := Options{Look: OwnLook()}
	for _, opt := range options {
		if slices.ContainsFunc(ignoredPrefixes, func(p string) bool { return strings.HasPrefix(opt, p) }) {
			continue
		}
		key, value, hasValue := strings.Cut(opt, "=")
		if advice, ok := refusedOptions[key]; ok {
			return o, fmt.Errorf("mount option %q is refused: %s", opt, advice)
		}
		use := mountOptions[key]
		if hasValue != (use == optValue || use == optContext) || use == optContext && !isLabel(value) {
			use = 0
		}
		switch use {
		case optValue:
			v := valueOptions[key]
			n, err := strconv.ParseUint(value, v.base, v.bits)
			if err != nil {
				return o, fmt.Errorf("mount option %q: want %s", opt, v.want)
			}
			*v.field(&o.Look) = uint32(n)
		case optIgnored:
		case optFlag:
			o.Flags = append(o.Flags, opt)
		case optData, optContext:
			if !slices.Contains(o.Data, opt) {
				o.Data = append(o.Data, opt)
			}
		default:
			return o, fmt.Errorf("%w %q", ErrUnknownOption, opt)
		}
	}
	if slices.Contains(o.Data, "allow_other") && !slices.Contains(o.Data, "default_permissions") {
		o.Data = append(o.Data, "default_permissions")
	}
	return o, nil
}

// optionUse is how a mount option from outside is used.
type optionUse int

const (
	optIgnored optionUse = iota + 1 // mount(8)'s own, or always on, or refused in silence because mount(8) adds it
	optFlag                         // a flag that the kernel takes apart from the data string
	optData                         // handed to FUSE
	optValue                        // with a number, a row of valueOptions
	optContext                      // with a label of SELinux, handed to the kernel if it has SELinux
)

// mountOptions are the options of fstab that a tensorfs mount takes.
var mountOptions = map[string]optionUse{
	"ro": optIgnored, "nosuid": optIgnored, "nodev": optIgnored, "noexec": optIgnored,
	"rw": optIgnored, "suid": optIgnored, "dev": optIgnored, "exec": optIgnored,
	"defaults": optIgnored, "auto": optIgnored, "noauto": optIgnored, "nofail": optIgnored,
	"user": optIgnored, "nouser": optIgnored, "users": optIgnored, "owner": optIgnored, "group": optIgnored,
	"_netdev": optIgnored, "async": optIgnored, "atime": optIgnored, "relatime": optIgnored,
	"norelatime": optIgnored, "strictatime": optIgnored, "diratime": optIgnored, "lazytime": optIgnored, "nolazytime": optIgnored,
	"noatime": optFlag, "nodiratime": optFlag, "sync": optFlag, "dirsync": optFlag,
	"silent": optIgnored, "loud": optIgnored, "iversion": optIgnored, "noiversion": optIgnored, "mand": optIgnored, "nomand": optIgnored,
	"nosymfollow": optFlag, "symfollow": optIgnored,
	"context": optContext, "fscontext": optContext, "defcontext": optContext, "rootcontext": optContext,
	"kernel_cache": optIgnored, "big_writes": optIgnored, "async_read": optIgnored, // once options of libfuse, always on here
	"allow_other": optData, "default_permissions": optData,
	"uid": optValue, "gid": optValue, "umask": optValue,
}

// isLabel reports whether a value can be a label of SELinux: whole in double quotes or without any.
func isLabel(value string) bool {
	inner, quoted := strings.CutPrefix(value, `"`)
	if quoted {
		inner, quoted = strings.CutSuffix(inner, `"`)
		if !quoted {
			return false
		}
	}
	return inner != "" && !strings.Contains(inner, `"`)
}

// isContext reports whether an option has a label of SELinux.
func isContext(opt string) bool {
	key, _, _ := strings.Cut(opt, "=")
	return mountOptions[key] == optContext
}

// SplitOptions splits a list of options at its commas. A value in double quotes may hold commas, as labels of
// SELinux do.
func SplitOptions(list string) (options []string) {
	quoted, from := false, 0
	for i, c := range list {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			options, from = append(options, list[from:i]), i+1
		}
	}
	return append(options, list[from:])
}

// OptionNames lists the options that change something, sorted. The names of options with
// a value end with =.
func OptionNames() []string {
	var names []string
	for name, use := range mountOptions {
		switch use {
		case optIgnored:
		case optValue, optContext:
			names = append(names, name+"=")
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// valueOptions are the options with a number: what to write, its base and bits, and the
// field that it sets.
var valueOptions = map[string]struct {
	want       string
	base, bits int
	field      func(*Look) *uint32
}{
	"uid":   {"the number that id -u prints", 10, 32, func(l *Look) *uint32 { return &l.UID }},
	"gid":   {"the number that id -g prints", 10, 32, func(l *Look) *uint32 { return &l.GID }},
	"umask": {"three octal digits such as 027", 8, 9, func(l *Look) *uint32 { return &l.Umask }},
}

// refusedOptions are options that other file systems have, and what to do without.
var refusedOptions = map[string]string{
	"allow_root":   "use allow_other, or nothing: root can read the model itself",
	"auto_unmount": "leave it out; a mount that a killed server left is removed by the next mount there, and by tensorfs umount",
	"fsname":       "leave it out; the source of the mount is the model",
	"subtype":      "leave it out; the type of the mount is " + Type,
	"max_read":     "leave it out; requests are as large as the kernel allows",
	"remount":      "a mount of " + Program + " cannot be changed; unmount it, and mount it again with the other options",
}

// ignoredPrefixes are options with values that are not for the file system.
var ignoredPrefixes = []string{"x-", "X-", "comment=", "user="}
