package fs

import (
	"fmt"
	"log/slog"
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
	// ModTime is the time of every file; zero for the time of mounting.
	ModTime time.Time
	// Debug logs every request at slog.LevelDebug.
	Debug bool
	// ReadAheadKiB is the kernel's read-ahead for the mount; 0 for the default
	// of 1024, negative to leave the kernel's own. Only root can set it.
	ReadAheadKiB int
	// Hot is how many bytes of memory may hold files that are served at the
	// speed of memory; 0 for none. It needs root and Linux 6.9.
	Hot int64
	// Extra are mount options as in fstab. Those of mount(8) itself are ignored
	// and so are those that would remove a protection (rw, suid, dev, exec).
	Extra []string
}

// optionUse says how a mount option from outside is used.
type optionUse int

const (
	optIgnored optionUse = iota + 1 // mount(8)'s own, or always on, or refused in silence because mount(8) adds it
	optFlag                         // a flag that the kernel takes apart from the data string
	optData                         // handed to FUSE
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
	"allow_other": optData, "default_permissions": optData,
}

// ignoredPrefixes are options with values that are not for the file system.
var ignoredPrefixes = []string{"x-", "X-", "comment=", "user="}

// extra sorts o.Extra into flags and data strings. It turns AllowOther on if the
// options ask for it.
func (o *Options) extra() (flags, data []string, err error) {
next:
	for _, opt := range o.Extra {
		for _, p := range ignoredPrefixes {
			if strings.HasPrefix(opt, p) {
				continue next
			}
		}
		switch mountOptions[opt] {
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
			return nil, nil, fmt.Errorf("unknown mount option %q", opt)
		}
	}
	if o.AllowOther {
		data = append(data, "allow_other")
		if !contains(data, "default_permissions") {
			data = append(data, "default_permissions")
		}
	}
	return flags, data, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
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
	if o.FsName == "" {
		o.FsName = subtype
	}
}
