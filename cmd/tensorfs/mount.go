package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/fs"
)

type mountOptions struct {
	modelFlags
	foreground bool
	daemon     bool // this process is the server that mount started
	options    []string
	allowOther bool
	logTo      string // syslog, journal or a file; "" for the default
	debug      bool
	hot        byteSize
	readAhead  int
}

func mountCommand() *cobra.Command {
	o := &mountOptions{}
	c := &cobra.Command{
		Use:   "mount [flags] MODEL MOUNTPOINT",
		Short: "Mount a model as a directory of tensors",
		Long: `mount serves MODEL at the directory MOUNTPOINT and returns when the tree can be
used; a server process runs in the background until the directory is unmounted.
Root mounts directly; other users need fusermount3 (package fuse3) and access to
/dev/fuse. A mount left over from a killed server is cleaned up first.

With --hot SIZE (root) a file is copied to memory when it is opened, and from then
on it is read and mapped at memory speed; the least recently used files make room
for others. That memory cannot be reclaimed under pressure, hence the limit.

A mount by root, or with allow_other, shows other users what the server may read.
Such a mount refuses files of the model that are symbolic links out of its directory
(out of the repository's folder in the Hugging Face cache, out of the Ollama store),
unless --follow-links is given. MODEL itself may be a link to anywhere. An ordinary
user's own mount follows all links.

The server logs to the system log where there is one; --log takes syslog, journal
(systemd's) or a FILE. In any case tensorfs status --json has the last errors.
Options for -o and /etc/fstab: follow_links, gguf_type=TYPE, hot=SIZE, i2s=ORDER,
log=DEVICE or log=FILE, views=VIEW:VIEW (as --views, with colons for its commas).

On SIGINT or SIGTERM the server unmounts. While the mount is in use, the first signal
waits until it is not, and a second one detaches it. In the foreground, SIGHUP and
SIGPIPE unmount too, so closing the terminal leaves no dead mount; a server in the
background ignores them.

In /etc/fstab:

  /models/model.gguf  /mnt/m  fuse.tensorfs  ro,allow_other,nofail  0  0`,
		Example: `  tensorfs mount model.gguf /mnt/m
  tensorfs mount -f ollama:gemma3 ~/m`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0], args[1]) },
	}
	o.flags(c)
	return c
}

func (o *mountOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVarP(&o.foreground, "foreground", "f", false, "serve in this process until unmounted")
	f.StringArrayVarP(&o.options, "option", "o", nil, "mount options as in fstab, separated by commas")
	f.BoolVar(&o.allowOther, "allow-other", false, "let other users use the mount (unless root, needs user_allow_other in /etc/fuse.conf)")
	f.Var(&o.hot, "hot", "keep opened files in up to this much memory and serve them at memory speed (root)")
	f.IntVar(&o.readAhead, "read-ahead", 0, "the kernel's read-ahead in KiB (root; default 1024)")
	f.StringVar(&o.logTo, "log", "", "where the server's messages go: syslog, journal or a FILE (default: syslog where there is one)")
	f.BoolVar(&o.debug, "debug", false, "log every request")
	f.BoolVar(&o.daemon, "daemon", false, "")
	_ = f.MarkHidden("daemon") // fails only for an unknown flag
	o.add(c)
}

func (o *mountOptions) run(cmd *cobra.Command, model, mountpoint string) error {
	var extra []string
	for _, list := range o.options {
		for opt := range strings.SplitSeq(list, ",") {
			taken, err := o.take(opt)
			if err != nil {
				return err
			}
			if !taken && opt != "" {
				extra = append(extra, opt)
			}
		}
	}
	if err := o.check(); err != nil { // before a server is started
		return err
	}
	model, mountpoint, err := absolute(model, mountpoint)
	if err != nil {
		return err
	}
	// Through a link, root, or a user who lets others in, would show them files
	// that only he may read.
	o.keepInside = os.Geteuid() == 0 || o.allowOther || slices.Contains(extra, "allow_other")
	if !o.foreground {
		return o.start(cmd, model, mountpoint, extra)
	}
	return o.serve(cmd, model, mountpoint, extra)
}

// take handles the fstab options that are flags of this command.
func (o *mountOptions) take(opt string) (bool, error) {
	key, value, _ := strings.Cut(opt, "=")
	switch key {
	case "i2s":
		o.tree.Views.I2S = value
	case "views": // a comma ends an option
		o.views = strings.ReplaceAll(value, ":", ",")
	case "gguf_type":
		o.ggufType = value
	case "log":
		o.logTo = value
	case "debug":
		o.debug = true
	case "follow_links":
		o.followLinks = true
	case "hot":
		if err := o.hot.Set(value); err != nil {
			return false, usageError{fmt.Errorf("-o hot=%s: %w", value, err)}
		}
	default:
		return false, nil
	}
	return true, nil
}

// absolute makes paths independent of the working directory, which the server
// leaves.
func absolute(model, mountpoint string) (string, string, error) {
	var err error
	if !formats.IsName(model) {
		if model, err = filepath.Abs(model); err != nil {
			return "", "", err
		}
	}
	mountpoint, err = filepath.Abs(mountpoint)
	return model, mountpoint, err
}

// openingGC is the collector's target while a model is opened.
const openingGC = 400

// serve mounts and answers requests until the mount is gone.
func (o *mountOptions) serve(cmd *cobra.Command, model, mountpoint string, extra []string) error {
	if o.daemon {
		ignoreHangups()
	}
	logger, closeLog, err := o.logger(cmd)
	if err != nil {
		return err
	}
	defer closeLog()
	// What opening allocates stays in use; collecting again and again would take
	// a third of the time until the mount is ready.
	collect := debug.SetGCPercent(openingGC)
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	signals := catchSignals(o.daemon)
	server, err := fs.Mount(t.Root, mountpoint, fs.Options{
		FsName:       model,
		AllowOther:   o.allowOther,
		Logger:       logger,
		Check:        t.Model.Check,
		ModTime:      t.Model.ModTime,
		Debug:        o.debug,
		Hot:          int64(o.hot),
		ReadAheadKiB: o.readAhead,
		Extra:        extra,
	})
	if err != nil {
		return mountAdvice(err, mountpoint)
	}
	logger = server.Logger()
	for _, w := range t.Model.Warnings {
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
		fmt.Fprintf(cmd.OutOrStdout(), "%s is mounted at %s; Ctrl-C unmounts\n", tensorfs.Printable(model), tensorfs.Printable(mountpoint))
	}
	debug.SetGCPercent(collect)
	debug.FreeOSMemory()
	go handleSignals(signals, server, logger)
	server.Wait()
	return nil
}

// mountAdvice adds advice to the errors of mounting.
func mountAdvice(err error, mountpoint string) error {
	switch {
	case errors.Is(err, fs.ErrMounted):
		return fmt.Errorf("%w; tensorfs umount %s frees it", err, tensorfs.Printable(mountpoint))
	case errors.Is(err, fs.ErrNoMountpoint):
		return fmt.Errorf("%w; mkdir -p %s makes it", err, tensorfs.Printable(mountpoint))
	}
	return err
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
