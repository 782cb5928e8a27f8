package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views/tree"
)

type mountOptions struct {
	modelFlags
	foreground bool
	daemon     bool // this process is the server that mount started
	handOver   bool // it is given on standard input what nobody else may see
	options    []string
	allowOther bool
	logTo      string // syslog, journal or a file; "" for the default
	debug      bool
	backend    string
	hot        byteSize
	readAhead  int
	warm       string // the view to read ahead, tree.WarmAll, or "" for nothing
	noMkdir    bool
	nonEmpty   bool
	sloppy     bool           // leave out unknown options, as mount(8) -s asks
	set        *pflag.FlagSet // where the flags are
	own        *pflag.FlagSet // those that the command of the server has
	library    libraryOptions
}

func mountCommand() *cobra.Command {
	o := &mountOptions{}
	c := &cobra.Command{
		Use:   "mount [flags] MODEL|LIBRARY [MOUNTPOINT]",
		Short: "Mount a model as a directory of tensors",
		Long: `mount serves MODEL at the directory MOUNTPOINT and returns when the tree can be
used; a server process runs in the background until the directory is unmounted.
Root mounts directly; other users need fusermount3 (package fuse3) and access to
/dev/fuse. A mount left over from a killed server is cleaned up first.

If only the last directory of MOUNTPOINT does not exist, mount makes it. It is
removed when the mount is gone, however that was unmounted. With --no-mkdir
mount fails instead. Without MOUNTPOINT the model is mounted below
$XDG_RUNTIME_DIR/tensorfs under its own name: mount prints the directory, and
tensorfs umount NAME finds it.

A mount hides what is in its directory, so one that is not empty is refused,
unless --nonempty is given. Home directories and those directly below / are
always refused, but for /mnt, /media, /srv and /opt when they are empty.

A LIBRARY is ollama:, hf: or a folder that is not a model but has some. Each of
its models is such a directory, named as tensorfs list shows it, with / for :
(in a folder without .gguf or .safetensors, unless two models then had one
name). A model is opened when somebody looks inside; a listing above opens none.
Not more than --max-open are open at a time. A model that nobody asks for is
closed after --idle, and opened again when it is needed. Models that come and go
are seen within two seconds. One that was replaced is new under its name, and
its old files give ESTALE.

With --backend nfs the system reads the tree of a single model as NFS, from a
server on this machine that other users cannot read from. That takes root,
mount.nfs (package nfs-common) and a kernel with NFS. If the server is killed,
mounting the model there again with the same flags goes on with the mount.
tensorfs serve does without mounting.

With --hot SIZE (root) a file is copied to memory when it is opened. From then
on it is read and mapped at the speed of memory. The least recently used files
make room for others. The kernel cannot reclaim that memory when it runs short,
hence the limit.

A mount by root, or with allow_other, shows other users what the server may
read. Such a mount refuses symbolic links among the model's files that lead out
of its directory (in the Hugging Face cache the repository's folder, for Ollama
the store), unless --follow-links is given. MODEL itself may be a link to
anywhere. An ordinary user's own mount follows all links.

The server logs to the system log where there is one. --log takes syslog,
journal (systemd's) or a FILE. In any case tensorfs status --json has the last
errors.

Options for -o and /etc/fstab are the flags, with _ for -: allow_other,
backend=nfs, debug, follow_links, gguf_type=TYPE, hot=SIZE, i2s=ORDER,
idle=DURATION, log=DEVICE or log=FILE, max_open=NUMBER, no_mkdir, nonempty,
read_ahead=KIB, views=VIEW:VIEW (with colons for the commas of --views), warm or
warm=VIEW; those that tensorfs help remote has; and

  uid=, gid=, umask=   owner and mode that files show; allow_other decides who
                       may enter at all
  env.NAME=VALUE       a variable for the server, such as env.HF_HOME=/srv/hf;
                       in /etc/fstab there is no other way to set one
  noatime, sync, ...   options of mount(8); those that mean nothing here (rw,
                       exec, nofail, x-...) are accepted

With --warm the server reads the model into the page cache once it is mounted,
in the order of its files, and stops when memory is short. --warm=VIEW reads
only what a view needs. tensorfs status says how far it is.

On SIGINT or SIGTERM the server unmounts. While the mount is in use, the first
signal waits until it is not, and a second one detaches it. In the foreground it
also unmounts on SIGHUP and when nobody reads its messages any more, so that
closing the terminal leaves no dead mount. In the background it goes on.

In /etc/fstab:

  /models/model.gguf  /mnt/m  tensorfs       ro,allow_other,nofail  0  0
  /models/model.gguf  /mnt/m  fuse.tensorfs  ro,allow_other,nofail  0  0

The type tensorfs needs /sbin/mount.tensorfs, a link to tensorfs. The type
fuse.tensorfs also works with mount.fuse3 (package fuse3), if tensorfs is in
root's PATH.

In the foreground, mount tells systemd when the mount can be used (Type=notify).`,
		Example: `  tensorfs mount model.gguf ~/m
  tensorfs mount -f ollama:gemma3 ~/m
  tensorfs mount hf: ~/models
  cd "$(tensorfs mount model.gguf)"`,
		Args: between(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0], strings.Join(args[1:], ""))
		},
	}
	o.flags(c)
	return c
}

func (o *mountOptions) flags(c *cobra.Command) {
	f := c.Flags()
	o.addBackend(f)
	f.BoolVarP(&o.foreground, "foreground", "f", false, "serve in this process until unmounted")
	f.StringArrayVarP(&o.options, "option", "o", nil, "mount `OPTIONS` as in fstab, separated by commas")
	f.BoolVar(&o.allowOther, "allow-other", false, "let other users use the mount (unless root, needs user_allow_other in /etc/fuse.conf)")
	f.Var(&o.hot, "hot", "keep opened files in up to this much memory and serve them at memory speed (root)")
	f.IntVar(&o.readAhead, "read-ahead", 0, "the kernel's read-ahead in `KIB` (root; default 1024)")
	f.BoolVar(&o.debug, "debug", false, "log every request")
	f.BoolVar(&o.daemon, "daemon", false, "")
	o.addShared(f)
	f.BoolVar(&o.nonEmpty, "nonempty", false, "mount even if something is in MOUNTPOINT, and hide it")
	f.BoolVar(&o.noMkdir, "no-mkdir", false, "fail if MOUNTPOINT does not exist, instead of making it")
	var accepted bool // what other programs that mount take, and says nothing here
	f.BoolVarP(&accepted, "read-only", "r", false, "accepted: a mount is always read-only")
	f.BoolVarP(&accepted, "verbose", "v", false, "accepted: there is nothing more to say")
	_, _, _ = f.MarkHidden("read-only"), f.MarkHidden("verbose"), f.MarkHidden("daemon") // fails only for an unknown flag
	o.library.add(f)
	o.add(c)
	o.set, o.own = f, f
}

// addShared adds the flags that serve has, too.
func (o *mountOptions) addShared(f *pflag.FlagSet) {
	f.StringVar(&o.logTo, "log", "", "where the server's messages go: syslog, journal or a `FILE` (default: syslog where there is one)")
	f.StringVar(&o.warm, "warm", "", "read the model, or what `VIEW` needs of it, into memory once it is mounted")
	f.Lookup("warm").NoOptDefVal = tree.WarmAll
	f.BoolVar(&o.handOver, "hand-over", false, "")
	_ = f.MarkHidden("hand-over")
}

// run mounts a model. Without a mount point it chooses one and prints it.
func (o *mountOptions) run(cmd *cobra.Command, model, mountpoint string) error {
	extra, err := o.takeOptions()
	if err == nil {
		err = o.checkBackend(extra)
	}
	if err == nil && o.handOver {
		model, err = takeOver(os.Stdin)
	}
	if err != nil {
		return err
	}
	if err := o.missing(model); err != nil {
		return err
	}
	if model, err = absolute(model); err != nil {
		return err
	}
	named := mountpoint != ""
	if !named {
		mountpoint, err = placeFor(publicName(model))
	} else {
		mountpoint, err = filepath.Abs(mountpoint)
	}
	if err != nil {
		return err
	}
	if err := o.check(); err != nil { // before a server is started
		return err
	}
	// Through a link, root, or a user who lets others in, would show them files
	// that only he may read.
	o.keepInside = os.Geteuid() == 0 || o.allowOther
	if o.foreground && !o.daemon {
		if err := o.becomeServer("mount", "--foreground", model, mountpoint, extra); err != nil {
			return err
		}
	}
	if o.foreground || o.daemon {
		return o.serve(cmd, model, mountpoint, extra)
	}
	if err := o.downloadFirst(model); err != nil {
		return err
	}
	if err := o.start(cmd, model, mountpoint, extra); err != nil || named {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), tensorfs.Printable(mountpoint))
	return err
}

// downloadFirst fetches what has to come as a whole, while somebody looks at the
// terminal.
func (o *mountOptions) downloadFirst(model string) error {
	if !o.remote.download || !formats.IsName(model) {
		return nil
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	return t.Model.Close()
}

// missing returns the error of a path that is not there, while it is as it was given.
func (o *mountOptions) missing(model string) error {
	if _, err := os.Lstat(model); err == nil || formats.IsName(model) {
		return nil
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	return t.Model.Close()
}

// absolute makes the path of a model independent of the working directory, which the
// server leaves.
func absolute(model string) (string, error) {
	if formats.IsName(model) {
		return model, nil
	}
	return filepath.Abs(model)
}

// openingGC is the collector's target while a model is opened.
const openingGC = 400

// serve mounts and answers requests until the mount is gone.
func (o *mountOptions) serve(cmd *cobra.Command, model, mountpoint string, extra []string) error {
	if o.daemon {
		ignoreHangups()
	}
	signals := newCaught()
	stdout, stderr := signals.messagesTo(cmd.OutOrStdout()), signals.messagesTo(cmd.ErrOrStderr())
	logger, closeLog, err := o.logger(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	o.remote.logger, o.remote.waiting.forward = logger, o.daemon
	// What opening allocates stays in use; collecting again and again would take
	// a third of the time until the mount is ready.
	collect := debug.SetGCPercent(openingGC)
	defer debug.SetGCPercent(collect) // of a program that goes on without this server
	c, err := o.openContent(model, mountpoint)
	if err != nil {
		return err
	}
	defer c.close()
	signals.catch(o.daemon)
	server, err := c.mount(mountpoint, fs.Options{
		FsName:         c.name,
		MakeMountpoint: !o.noMkdir,
		NonEmpty:       o.nonEmpty,
		Waits:          c.waits,
		AllowOther:     o.allowOther,
		Logger:         logger,
		Check:          c.check,
		Unwatched:      source.Unwatched,
		ModTime:        c.modTime,
		Debug:          o.debug,
		Hot:            int64(o.hot),
		Warm:           c.warmer.status(),
		ReadAheadKiB:   o.readAhead,
		Extra:          extra,
	})
	if err != nil {
		if errors.Is(err, fs.ErrMounted) {
			err = fmt.Errorf("%w; tensorfs umount %s frees it", err, tensorfs.Printable(mountpoint))
		}
		return err
	}
	logger = server.Logger()
	for _, w := range c.warnings() {
		logger.Warn(w)
	}
	if o.daemon {
		if err := announce(signals); err != nil {
			logger.Error("nobody is waiting for the mount any more; removing it", "err", err)
			if uerr := server.UnmountLazy(); uerr != nil {
				return errors.Join(err, uerr)
			}
			server.Wait()
			return err
		}
	} else {
		if err := notifyReady(); err != nil {
			logger.Warn("systemd cannot be told that the mount is ready", "err", err)
		}
		fmt.Fprintln(stdout, whereServed(server, model, mountpoint))
	}
	debug.SetGCPercent(collect)
	debug.FreeOSMemory()
	go handleSignals(signals, server, logger)
	stop := c.warmer.start(logger)
	server.Wait()
	stop()
	return nil
}

// byteSize is a flag like 512M or 8GiB.
type byteSize int64

var _ pflag.Value = (*byteSize)(nil)

// String returns the number of bytes.
func (b *byteSize) String() string { return strconv.FormatInt(int64(*b), 10) }

// Type names the value in help texts.
func (b *byteSize) Type() string { return "SIZE" }

// Set parses a number with an optional unit of powers of 1024.
func (b *byteSize) Set(s string) error {
	digits := strings.TrimRight(strings.ToUpper(s), "IB")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte("KMGT", digits[n-1]); i >= 0 {
			shift, digits = 10*(i+1), digits[:n-1]
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("want a size like 512M or 8G")
	}
	*b = byteSize(n << shift)
	return nil
}
