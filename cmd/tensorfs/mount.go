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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/sizes"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views/tree"
)

type mountOptions struct {
	modelFlags
	foreground bool
	daemon     bool // this process is the server that mount started
	handOver   bool // secrets are passed on standard input
	options    []string
	allowOther bool
	logTo      string // syslog, journal or a file; "" for the default
	debug      bool
	backend    string
	readAhead  int
	noPass     bool
	takeover   string // the socket of a keeper, or bySystemd
	secrets    string // a pipe with what servers of models ask for, "" for none
	warm       string // the view to read ahead, tree.WarmAll, or "" for nothing
	inside     string // local files are only read inside this directory; may be ""
	noMkdir    bool
	nonEmpty   bool
	sloppy     bool           // leave out unknown options, as mount(8) -s asks
	set        *pflag.FlagSet // where the flags are
	own        *pflag.FlagSet // of the server's command
	library    libraryOptions
}

func (s system) mount() *cobra.Command {
	o := &mountOptions{}
	args := func(c *cobra.Command, args []string) error {
		switch {
		case o.library.as == "":
			return between(1, 2)(c, args)
		case !slices.Contains(library.Forms, o.library.as):
			return fmt.Errorf("--as %s: want %s", tensorfs.Quote(o.library.as), near.Either(library.Forms))
		}
		return between(2, maxLibraries+1, "--as takes libraries, such as ollama:, hf:, lmstudio: and folders, and then the mount point")(c, args)
	}
	c := s.command("mount", args, nil, o.run)
	o.define(s, c)
	return c
}

// maxLibraries is how many one mount shows.
const maxLibraries = 64

// define adds the flags to a command.
func (o *mountOptions) define(s system, c *cobra.Command) {
	o.backend = defaultBackend(string(s))
	o.library = libraryOptions{maxOpen: 16, idle: 5 * time.Minute}
	accepted := new(bool) // accepted because other programs that mount take it, without effect
	s.define(c, "mount", flags{
		"backend": &o.backend, "foreground": &o.foreground, "option": &o.options, "allow-other": &o.allowOther,
		"read-ahead": &o.readAhead, "no-passthrough": &o.noPass, "takeover": &o.takeover, "debug": &o.debug, "as-server": &o.daemon, "inside": &o.inside, "nonempty": &o.nonEmpty, "no-mkdir": &o.noMkdir,
		"max-open": &o.library.maxOpen, "idle": &o.library.idle, "as": &o.library.as, "read-only": accepted, "verbose": accepted,
	})
	o.defineShared(s, c)
	o.set = c.Flags()
}

// defineShared adds the flags that serve has too.
func (o *mountOptions) defineShared(s system, c *cobra.Command) {
	s.define(c, "serve", flags{"log": &o.logTo, "warm": &o.warm, "secrets": &o.secrets, "hand-over": &o.handOver})
	c.Flags().Lookup("warm").NoOptDefVal = tree.WarmAll
	o.add(s, c)
	o.own = c.Flags()
}

// run mounts a model. Without a mount point it chooses one and prints it.
func (o *mountOptions) run(cmd *cobra.Command, args []string) error {
	model, mountpoint := args[0], strings.Join(args[1:], "")
	extra, err := o.takeOptions()
	if err == nil {
		err = o.confine()
	}
	if err == nil && o.library.as != "" {
		mountpoint = args[len(args)-1]
		for _, name := range args[1 : len(args)-1] {
			if name, err = absolute(name); err != nil {
				break
			}
			o.library.more = append(o.library.more, name)
		}
	}
	if err == nil {
		err = o.checkBackend(extra)
	}
	if err == nil && o.handOver {
		model, o.LoRA, err = takeOver(os.Stdin)
	}
	if err != nil {
		return err
	}
	isName := namesLibrary(model)
	if _, err := os.Lstat(model); err != nil && !isName && o.library.as == "" && o.takeover == "" { // it is said of the path as it was given
		if err := o.tryOpen(model); err != nil {
			if o.foreground && !o.daemon {
				_ = notifyFailed(err) // who started it sees that it ended
			}
			return err
		}
	}
	if model, err = absolute(model); err != nil {
		return err
	}
	// Through a link, root, or a user who lets others in, would show them files
	// that only he may read.
	o.keepInside = os.Geteuid() == 0 || o.allowOther
	o.shared = o.allowOther || o.inside != ""
	named := mountpoint != ""
	switch {
	case !named:
		mountpoint, err = placeFor(conceal.Name(model))
	case strings.Contains(mountpoint, "://"):
		err = cli.UsageError{Err: fmt.Errorf("%s: it is the address of a model, not a directory to mount at", cli.PrintableName(mountpoint))}
	default:
		mountpoint, err = filepath.Abs(mountpoint)
	}
	if err == nil {
		err = o.absolutePaths()
	}
	if err == nil {
		err = o.check() // before a server is started
	}
	if err != nil {
		return err
	}
	if o.foreground && !o.daemon {
		if err := o.becomeServer("mount", "--foreground", model, mountpoint, extra); err != nil {
			return err
		}
	}
	if o.foreground || o.daemon {
		return o.serve(cmd, model, mountpoint, extra)
	}
	if o.remote.download && isName && o.library.as == "" && o.secrets == "" { // while the user looks at the terminal
		if err := o.tryOpen(model); err != nil {
			return err
		}
	}
	o.warnUnkept(cmd.ErrOrStderr())
	if err := o.start(cmd, model, mountpoint, extra); err != nil || named {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), tensorfs.Printable(mountpoint))
	return err
}

// confine has this process read nothing outside of the directory that --inside names. Only a
// single model is shown then.
func (o *mountOptions) confine() error {
	switch {
	case o.inside == "":
		return nil
	case o.library.as != "":
		return cli.UsageError{Err: errors.New("--inside is for one model, and --as shows libraries")}
	}
	var err error
	if o.inside, err = filepath.Abs(o.inside); err == nil { // the server is in another directory
		err = source.Confine(o.inside)
	}
	if err != nil {
		return fmt.Errorf("--inside: %w", err)
	}
	return nil
}

// tryOpen opens the model and closes it.
func (o *mountOptions) tryOpen(model string) error {
	t, err := o.open(model)
	if err != nil {
		return err
	}
	return t.Model.Close()
}

// absolute makes the path of a model independent of the working directory, which the
// server leaves.
func absolute(model string) (string, error) {
	if namesLibrary(model) {
		return model, nil
	}
	return filepath.Abs(model)
}

// namesLibrary reports whether a model or a library is not named by a path.
func namesLibrary(name string) bool {
	return formats.IsName(name) || slices.Contains(library.Stores, name)
}

// openingGC is the collector's target while a model is opened.
const openingGC = 400

// serve mounts and answers requests until the mount is gone.
func (o *mountOptions) serve(cmd *cobra.Command, model, mountpoint string, extra []string) (err error) {
	if o.daemon {
		ignoreHangups()
	} else {
		defer func() {
			if err != nil {
				_ = notifyFailed(err) // who started it sees that it ended
			}
		}()
	}
	signals := newCaught()
	stdout, stderr := signals.messagesTo(cmd.OutOrStdout()), signals.messagesTo(cmd.ErrOrStderr())
	logger, closeLog, err := o.logger(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	o.remote.logger, o.remote.waiting.Forward = logger, o.daemon
	// What opening allocates stays in use; collecting again and again would take
	// a third of the time until the mount is ready.
	collect := debug.SetGCPercent(openingGC)
	defer debug.SetGCPercent(collect)    // of a program that goes on without this server
	if o.backend == mounts.BackendFUSE { // the kernel keeps what it gets, which an NFS server's clients need not
		source.ReadDirect(streamMemory)
	}
	keeper, err := o.keeper(mountpoint)
	if err != nil {
		return err
	}
	if err := o.takeSecrets(logger); err != nil {
		return errors.Join(err, fs.Abandon(keeper, mountpoint, logger))
	}
	c, err := o.openContent(model, mountpoint)
	if err != nil {
		return errors.Join(err, fs.Abandon(keeper, mountpoint, logger)) // readers would get no answers otherwise
	}
	defer c.close()
	signals.catch(o.daemon)
	so := &c.options
	so.MakeMountpoint, so.NonEmpty, so.AllowOther, so.Extra = !o.noMkdir, o.nonEmpty, o.allowOther, extra
	so.Logger, so.Debug, so.Unwatched = logger, o.debug, source.Unwatched
	so.ReadAheadKiB, so.NoPassthrough = o.readAhead, o.noPass
	if keeper != nil && c.identity != nil {
		so.Keeper = keeper
		if so.Identity, err = c.identity(); err != nil {
			return errors.Join(err, fs.Abandon(keeper, mountpoint, logger))
		}
	}
	server, err := c.mount(mountpoint, *so)
	if err != nil {
		if errors.Is(err, mounts.ErrMounted) {
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
	n, ok := sizes.Parse(s)
	if !ok {
		return fmt.Errorf("want a size like 512M or 8G")
	}
	*b = byteSize(n)
	return nil
}
