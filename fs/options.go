package fs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fsType is the mount's type as the mount table shows it.
const fsType = "fuse." + subtype

const subtype = "tensorfs"

// maxRequest is the largest read that the kernel sends and the largest that
// Linux takes without a change of fs.fuse.max_pages_limit.
const maxRequest = 1 << 20

// defaultReadAheadKiB lets a sequential reader's requests grow to maxRequest.
const defaultReadAheadKiB = maxRequest >> 10

// Options say how a tree is mounted. The zero value is the default.
type Options struct {
	// FsName is the mount's source in the mount table: the path of the model.
	FsName string
	// AllowOther lets other users in. The kernel then checks modes and owners.
	AllowOther bool
	// Logger receives what errno cannot say; nil discards it.
	Logger *slog.Logger
	// Check returns errors that wrap tensorfs.ErrChanged for the files of the model
	// that changed since they were opened; nil where that cannot be known. It is
	// called when somebody asks for the Health.
	Check func() error
	// Unwatched says why changes of the model's files are told by their times alone, ""
	// where they are not; nil where that cannot be known. It is part of the Health.
	Unwatched func() string
	// ModTime is the time of every file; zero for the time of mounting.
	ModTime time.Time
	// MakeMountpoint makes the last directory of the mount point if it is missing.
	MakeMountpoint bool
	// NonEmpty allows a mount point that has something in it, which the mount hides.
	NonEmpty bool
	// Waits says that reads may wait long for their bytes, such as those of another
	// machine.
	Waits bool
	// Debug logs every request at slog.LevelDebug.
	Debug bool
	// ReadAheadKiB is the kernel's read-ahead for the mount; 0 for the default
	// of 1024, negative to leave the kernel's own. Only root can set it.
	ReadAheadKiB int
	// Hot is how many bytes of memory may hold files that are served at the
	// speed of memory; 0 for none. It needs root and Linux 6.9.
	Hot int64
	// Warm says how far the model is read ahead; nil where it is not.
	Warm func() WarmStatus
	// Extra are mount options as in fstab. Those of mount(8) itself are ignored
	// and so are those that would remove a protection (rw, suid, dev, exec).
	// uid=, gid= and umask= say what files look like; who may enter is up to
	// allow_other.
	Extra []string

	look   *look   // nil for that of the serving process
	system *system // nil for the one that this is
}

// look is what all files look like.
type look struct {
	uid, gid, umask uint32
}

func ownLook() *look { return &look{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())} }

// ErrUnknownOption is wrapped by the error for an option in Extra that tensorfs does
// not know.
var ErrUnknownOption = errors.New("unknown mount option")

// CheckOptions returns those of some options for Extra that change something, or what
// is wrong with one: it is unknown, refused, or has a wrong value.
func CheckOptions(extra []string) (useful []string, err error) {
	for _, opt := range extra {
		o := Options{Extra: []string{opt}}
		flags, data, err := o.extra()
		if err != nil {
			return nil, err
		}
		if len(flags)+len(data) > 0 || *o.look != *ownLook() {
			useful = append(useful, opt)
		}
	}
	return useful, nil
}

// optionUse says how a mount option from outside is used.
type optionUse int

const (
	optIgnored optionUse = iota + 1 // mount(8)'s own, or always on, or refused in silence because mount(8) adds it
	optFlag                         // a flag that the kernel takes apart from the data string
	optData                         // handed to FUSE
	optValue                        // with a number, a row of valueOptions
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
	"silent": optIgnored, "loud": optIgnored,
	"kernel_cache": optIgnored, // once an option of libfuse, always on here
	"allow_other":  optData, "default_permissions": optData,
	"uid": optValue, "gid": optValue, "umask": optValue,
}

// OptionNames lists the options of Extra that change something, sorted. Those with a
// value end with =.
func OptionNames() []string {
	var names []string
	for name, use := range mountOptions {
		switch use {
		case optIgnored:
		case optValue:
			names = append(names, name+"=")
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// valueOptions are the options with a number: what to write, its base and bits, and
// where it goes.
var valueOptions = map[string]struct {
	want       string
	base, bits int
	field      func(*look) *uint32
}{
	"uid":   {"the number that id -u prints", 10, 32, func(l *look) *uint32 { return &l.uid }},
	"gid":   {"the number that id -g prints", 10, 32, func(l *look) *uint32 { return &l.gid }},
	"umask": {"three octal digits such as 027", 8, 9, func(l *look) *uint32 { return &l.umask }},
}

// refusedOptions are options that other file systems have, and what to do without.
var refusedOptions = map[string]string{
	"allow_root":   "use allow_other, or nothing: root can read the model itself",
	"auto_unmount": "leave it out; a mount that a killed server left is removed by the next mount there, and by tensorfs umount",
	"fsname":       "leave it out; the source of the mount is the model",
	"subtype":      "leave it out; the type of the mount is " + fsType,
	"max_read":     "leave it out; requests are as large as the kernel allows",
}

// ignoredPrefixes are options with values that are not for the file system.
var ignoredPrefixes = []string{"x-", "X-", "comment=", "user="}

// extra sorts o.Extra into flags and data strings. It turns AllowOther on if the
// options ask for it.
func (o *Options) extra() (flags, data []string, err error) {
	o.look = ownLook()
next:
	for _, opt := range o.Extra {
		for _, p := range ignoredPrefixes {
			if strings.HasPrefix(opt, p) {
				continue next
			}
		}
		key, value, hasValue := strings.Cut(opt, "=")
		if advice, ok := refusedOptions[key]; ok {
			return nil, nil, fmt.Errorf("mount option %q is refused: %s", opt, advice)
		}
		use := mountOptions[key]
		if hasValue != (use == optValue) {
			use = 0
		}
		switch use {
		case optValue:
			v := valueOptions[key]
			n, err := strconv.ParseUint(value, v.base, v.bits)
			if err != nil {
				return nil, nil, fmt.Errorf("mount option %q: want %s", opt, v.want)
			}
			*v.field(o.look) = uint32(n)
		case optIgnored:
		case optFlag:
			flags = append(flags, opt)
		case optData:
			if opt == "allow_other" {
				o.AllowOther = true
				continue
			}
			data = append(data, opt)
		default:
			return nil, nil, fmt.Errorf("%w %q", ErrUnknownOption, opt)
		}
	}
	if o.AllowOther {
		data = append(data, "allow_other")
		if !slices.Contains(data, "default_permissions") {
			data = append(data, "default_permissions")
		}
	}
	return flags, data, nil
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.ModTime.IsZero() {
		o.ModTime = time.Now()
	}
	if o.ReadAheadKiB == 0 {
		o.ReadAheadKiB = defaultReadAheadKiB
	}
	if o.look == nil {
		o.look = ownLook()
	}
	if o.system == nil {
		o.system = thisSystem
	}
	if o.FsName == "" {
		o.FsName = subtype
	}
}
