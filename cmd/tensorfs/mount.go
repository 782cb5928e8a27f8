package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/server"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views/tree"
)

type mountOptions struct {
	modelFlags
	spec       server.Spec
	foreground bool
	options    []string
	warm       string         // the view to read ahead, tree.WarmAll, or "" for nothing
	inside     string         // local files are only read inside this directory; may be ""
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
	o.spec.Backend = defaultBackend(string(s))
	o.library = libraryOptions{maxOpen: 16, idle: 5 * time.Minute}
	accepted := new(bool) // accepted because other programs that mount take it, without effect
	s.define(c, "mount", flags{
		"backend": &o.spec.Backend, "foreground": &o.foreground, "option": &o.options, "allow-other": &o.spec.AllowOther,
		"read-ahead": &o.spec.ReadAhead, "no-passthrough": &o.spec.NoPassthrough, "takeover": &o.spec.Takeover, "debug": &o.spec.Debug, "as-server": &o.spec.Background, "inside": &o.inside,
		"nonempty": &o.spec.NonEmpty, "no-mkdir": &o.spec.NoMkdir,
		"max-open": &o.library.maxOpen, "idle": &o.library.idle, "as": &o.library.as, "on-demand": &o.library.demand, "allow-orgs": &o.library.orgs, "read-only": accepted, "verbose": accepted,
	})
	o.defineShared(s, c)
	o.set = c.Flags()
}

// defineShared adds the flags that serve has too.
func (o *mountOptions) defineShared(s system, c *cobra.Command) {
	s.define(c, "serve", flags{"log": &o.spec.Log, "warm": &o.warm, "secrets": &o.spec.Secrets, "hand-over": &o.spec.HandedOver})
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
			o.spec.More = append(o.spec.More, name)
		}
	}
	if err == nil {
		err = o.checkBackend(extra)
	}
	if err == nil && o.spec.HandedOver {
		model, o.LoRA, err = server.Handed(os.Stdin)
	}
	if err != nil {
		return err
	}
	isName := namesLibrary(model)
	if _, err := os.Lstat(model); err != nil && !isName && o.library.as == "" && o.spec.Takeover == "" { // it is said of the path as it was given
		if err := o.tryOpen(model); err != nil {
			if o.foreground && !o.spec.Background {
				_ = server.NotifyFailed(err) // the program that started it sees that it ended
			}
			return err
		}
	}
	if model, err = absolute(model); err != nil {
		return err
	}
	// Through a link, root, or a user who lets others in, would show them files
	// that only he may read.
	o.keepInside = os.Geteuid() == 0 || o.spec.AllowOther
	o.shared = o.spec.AllowOther || o.inside != ""
	named := mountpoint != ""
	switch {
	case !named:
		mountpoint, err = server.PlaceFor(conceal.Name(model))
	case strings.Contains(mountpoint, "://"):
		err = cli.UsageError{Err: fmt.Errorf("%s: it is the address of a model, not a directory to mount at", conceal.Printable(mountpoint))}
	default:
		mountpoint, err = filepath.Abs(mountpoint)
	}
	if err == nil {
		err = o.spec.AbsolutePaths()
	}
	if err == nil {
		err = o.check() // before a server is started
	}
	if err != nil {
		return err
	}
	if o.foreground && !o.spec.Background {
		if err := o.specFor("mount", model, mountpoint, extra).Become("--foreground"); err != nil {
			return err
		}
	}
	if o.foreground || o.spec.Background {
		return o.serve(cmd, "mount", model, mountpoint, extra)
	}
	if o.remote.download && isName && !slices.Contains(library.Stores, model) && o.library.as == "" && o.spec.Secrets == "" { // while the user looks at the terminal
		if err := o.tryOpen(model); err != nil {
			return err
		}
	}
	o.spec.WarnUnkept(cmd.ErrOrStderr())
	for _, store := range append([]string{model}, o.spec.More...) {
		if err := library.Absent(store); err != nil && !o.library.asks() { // its server logs the same
			cli.Complain(cmd.ErrOrStderr(), "tensorfs: nothing is shown yet: "+cli.ErrorLine(err, os.Args[1:]))
		}
	}
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

// specFor completes the server's specification with what it serves.
func (o *mountOptions) specFor(command, model, mountpoint string, extra []string) *server.Spec {
	s := &o.spec
	s.Command, s.Model, s.Adapters, s.Mountpoint, s.Extra, s.Flags = command, model, o.LoRA, mountpoint, extra, o.serverFlags()
	return s
}

// start starts a server in the background.
func (o *mountOptions) start(cmd *cobra.Command, model, mountpoint string, extra []string) error {
	var err error
	if o.spec.Log, err = server.LogPath(o.spec.Log); err == nil {
		err = o.remote.absolute()
	}
	if err != nil {
		return err
	}
	return o.specFor("mount", model, mountpoint, extra).Start(cmd.ErrOrStderr())
}

// serve mounts and answers requests until the mount is gone.
func (o *mountOptions) serve(cmd *cobra.Command, command, model, mountpoint string, extra []string) error {
	o.remote.scope = o.spec.Secrets // others may be given other secrets, and use the same cache
	return o.specFor(command, model, mountpoint, extra).Serve(cmd.OutOrStdout(), cmd.ErrOrStderr(), func(logger *slog.Logger) (*server.Content, error) {
		o.remote.logger, o.remote.waiting.Forward = logger, o.spec.Background
		return o.openContent(model, mountpoint)
	})
}
