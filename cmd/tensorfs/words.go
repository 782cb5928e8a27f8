package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// words are the parts of messages that say something else on another system.
type words struct {
	noPlace   string // why a mount needs a mount point
	noJournal string
	force     string // what umount -l does
	stillRuns string // why the server of an unmounted mount may keep running
}

// messages has a row for every system.
var messages = map[string]words{
	"linux": {
		noPlace:   ": without XDG_RUNTIME_DIR there is no place for one of its own",
		noJournal: "systemd's journal is not running here; name a file or syslog",
		force:     "detach it with -l",
		stillRuns: "perhaps something has a copy of the mount, such as a container",
	},
	"darwin": {
		noJournal: "macOS has no journal; name a file or syslog",
		force:     "unmount it by force with -l",
		stillRuns: stillRead,
	},
}

const stillRead = "perhaps something still reads from it"

// macTexts are the passages of help texts that are for Linux, and what macOS shows in
// their place. The texts themselves are where their commands are, as Linux shows
// them.
var macTexts = []struct{ linux, mac string }{
	// mount
	{`Root mounts directly; other users need fusermount3 (package fuse3) and access to
/dev/fuse. A mount left over from a killed server is cleaned up first.`,
		`macOS mounts it by NFS from this machine, which takes neither root nor an
extension of the kernel. A mount left over from a killed server is cleaned up
first.`},
	{`
mount fails instead. Without MOUNTPOINT the model is mounted below
$XDG_RUNTIME_DIR/tensorfs under its own name: mount prints the directory, and
tensorfs umount NAME finds it.`, `
mount fails instead.`},
	{`With --hot SIZE (root) a file is copied to memory when it is opened. From then
on it is read and mapped at the speed of memory. The least recently used files
make room for others. The kernel cannot reclaim that memory when it runs short,
hence the limit.

`, ``},
	{`The server logs to the system log where there is one. --log takes syslog,
journal (systemd's) or a FILE. In any case tensorfs status --json has the last
errors.`, `The server logs to the system log. --log takes syslog or a FILE. In any case
tensorfs status --json has the last errors.`},
	{`With --backend nfs the system reads the tree of a single model as NFS, from a
server on this machine that other users cannot read from. That takes root,
mount.nfs (package nfs-common) and a kernel with NFS. If the server is killed,`,
		`macOS reads the tree of a single model as NFS, from a server on this machine
that other users cannot read from. Libraries and some options take --backend
fuse: macFUSE and its kernel extension. If the NFS server is killed,`},
	{`Options for -o and /etc/fstab are the flags, with _ for -: allow_other,
backend=nfs, debug, follow_links, gguf_type=TYPE, hot=SIZE, i2s=ORDER,
idle=DURATION, log=DEVICE or log=FILE, max_open=NUMBER, no_mkdir, nonempty,
read_ahead=KIB, views=VIEW:VIEW (with colons for the commas of --views), warm or
warm=VIEW; those that tensorfs help remote has; and`, `Options for -o are the flags, with _ for -: allow_other, backend=fuse, debug,
follow_links, gguf_type=TYPE, i2s=ORDER, idle=DURATION, log=syslog or log=FILE,
max_open=NUMBER, no_mkdir, nonempty, views=VIEW:VIEW (with colons for the
commas of --views), warm or warm=VIEW; those that tensorfs help remote has; and`},
	{`such as env.HF_HOME=/srv/hf;
                       in /etc/fstab there is no other way to set one`, `such as env.HF_HOME=/srv/hf`},
	{`

In /etc/fstab:

  /models/model.gguf  /mnt/m  tensorfs       ro,allow_other,nofail  0  0
  /models/model.gguf  /mnt/m  fuse.tensorfs  ro,allow_other,nofail  0  0

The type tensorfs needs /sbin/mount.tensorfs, a link to tensorfs. The type
fuse.tensorfs also works with mount.fuse3 (package fuse3), if tensorfs is in
root's PATH.

In the foreground, mount tells systemd when the mount can be used (Type=notify).`, ``},
	{`
  cd "$(tensorfs mount model.gguf)"`, ``},
	{` (unless root, needs user_allow_other in /etc/fuse.conf)`, ` (macFUSE asks for an administrator)`},
	{"mount `OPTIONS` as in fstab, separated by commas", "mount `OPTIONS`, separated by commas"},
	{"syslog, journal or a `FILE` (default: syslog where there is one)", "syslog or a `FILE` (default: syslog)"},

	// umount
	{` A mount that was made without a MOUNTPOINT
goes by its name.`, ``},
	{`A server keeps running while somebody uses the mount: after -l, or if there is a
copy of the mount, made by mount --bind or with a container or another mount
namespace. umount waits for that at most 5 seconds. Then it says in one line
where the copy is, and succeeds.`, `umount waits at most 5 seconds for the server. Then it says in one line that it
still runs, and succeeds.`},
	{`detach now, even if somebody uses it or its server hangs; users are served until they are done`,
		`unmount by force, even if somebody uses it or its server hangs; what they have open fails`},

	// remote
	{`In /etc/fstab the flags are options: offline, remote, cache=DIR,
cache_size=SIZE, timeout=30s, download, plain_http. A mount at boot also wants
_netdev.`, `In -o of mount the flags are options: offline, remote, cache=DIR,
cache_size=SIZE, timeout=30s, download, plain_http.`},
}

// linuxFlags do something on Linux alone. Elsewhere help does not show them.
var linuxFlags = []string{"hot", "read-ahead"}

// linuxItems are the parts of the manual that are about things of Linux: variables,
// files, and pages of others.
var linuxItems = []string{
	"XDG_RUNTIME_DIR", "container, KUBERNETES_SERVICE_HOST", "NOTIFY_SOCKET", "JOURNAL_STREAM",
	"/etc/fstab", "/etc/fuse.conf", "/etc/tensorfs/NAME.conf", "/dev/fuse",
	"fusermount3(1)", "fuse(4)", "fstab(5)",
}

// has reports whether a system has what an item of the manual is about.
func has(goos, item string) bool { return goos == "linux" || !slices.Contains(linuxItems, item) }

// wordFor puts the texts of a command, and of those below it, into the words of a
// system.
func wordFor(c *cobra.Command, goos string) {
	if goos == "linux" {
		return
	}
	var pairs []string
	for _, t := range macTexts {
		pairs = append(pairs, t.linux, t.mac)
	}
	mac := strings.NewReplacer(pairs...)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Long, c.Example = mac.Replace(c.Long), mac.Replace(c.Example)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			f.Usage = mac.Replace(f.Usage)
			f.Hidden = f.Hidden || slices.Contains(linuxFlags, f.Name)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(c)
}
