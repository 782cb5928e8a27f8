package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	_ "github.com/tensorfs/tensorfs/internal/fewfiles" // a one-line error instead of a panic
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/term"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
	"github.com/tensorfs/tensorfs/views/tree/whole"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2

	exitTrouble = 2 // of diff, whose 1 means that models differ
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func main() {
	// Package net/http writes there what servers send unasked. All messages of this
	// program have other ways.
	log.SetOutput(io.Discard)
	if isMountHelper(os.Args[0]) {
		os.Exit(runHelper(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	return execute(newRoot(), args, stdout, stderr)
}

// execute runs a command with its arguments and returns the exit code.
func execute(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	strictHelp(root)
	c, err := root.ExecuteContextC(context.Background())
	if err == nil {
		err = helpFor(c)
	}
	if err == nil {
		return exitOK
	}
	var quiet reported
	if !errors.As(err, &quiet) {
		printError(stderr, err, args)
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	var trouble troubleError
	if errors.As(err, &trouble) {
		return exitTrouble
	}
	return exitFailed
}

// troubleError is a failure of a command whose exit status 1 means something else.
type troubleError struct{ error }

// printError prints an error of a command line as a line. Of words that nobody reads to
// the end, such as a name of 5,000 letters, it shows how they begin and end.
func printError(stderr io.Writer, err error, args []string) {
	words := strings.Split(tensorfs.OneLine(publicText(err.Error(), args)), " ")
	for i := range words {
		words[i] = term.Shorten(words[i], longestWord)
	}
	fmt.Fprintln(stderr, "tensorfs: "+strings.Join(words, " "))
}

const longestWord = 400

// reported marks a failure that the command has already printed.
type reported struct{ error }

// Unwrap returns what was reported, which decides the exit code.
func (r reported) Unwrap() error { return r.error }

func newRoot() *cobra.Command { return newRootFor(system(runtime.GOOS)) }

// newRootFor returns the command with the words of a system.
func newRootFor(s system) *cobra.Command {
	mount := &mountOptions{}
	// mount(8) calls a filesystem's program as PROGRAM SOURCE DIRECTORY -o OPTIONS.
	root := s.command("tensorfs", rootArgs, nil, func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return cmd.Help()
		case 1:
			return runInfo(cmd, args[0])
		}
		if cmd.Flags().Changed("json") {
			return usageError{errors.New("--json is for one model; usage: tensorfs info --json MODEL")}
		}
		return mount.run(cmd, args)
	})
	mount.define(s, root)
	root.SuggestionsMinimumDistance = 2
	root.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true }) // they are for mount(8)
	s.define(root, "tensorfs", flags{"json": new(bool), "version": new(bool)})
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(s.mount(), s.umount(), s.status(), s.serve(), s.ls(), s.info(), s.cat(), s.export(), s.verify(), s.diff(), s.stat(), s.list(),
		s.fetch(), s.cache(), s.version(), s.man(), s.completion(), s.command("remote", nil, nil, nil))
	for _, c := range root.Commands() {
		if strings.Contains(c.Use, " MODEL") && !c.HasSubCommands() {
			modelFirst(c)
		}
	}
	completeArguments(root)
	groupCommands(root)
	layOutHelp(root)
	wrapUsage(root)
	return root
}

// i2sLayouts lists the layouts of I2_S codes for messages.
var i2sLayouts = func() string {
	last := len(views.I2SLayouts) - 1
	return strings.Join(views.I2SLayouts[:last], ", ") + " or " + views.I2SLayouts[last]
}()

// viewList lists the views for help texts.
var viewList = func() string {
	var usual, others []string
	for _, v := range views.All {
		if v.OnRequest {
			others = append(others, v.Name)
		} else {
			usual = append(usual, v.Name)
		}
	}
	return strings.Join(usual, ", ") + " (all these: " + views.Default + ") and " + strings.Join(others, ", ")
}()

// ggufTypes are the types that --gguf-type takes.
var ggufTypes = map[string]tensorfs.DType{
	"": tensorfs.Unknown, "q8_0": tensorfs.Q8_0, "q4_0": tensorfs.Q4_0, "f16": tensorfs.F16, "bf16": tensorfs.BF16,
}

const ggufTypeList = "q8_0, q4_0, f16 or bf16"

// otherTypes matches what else llama-quantize calls its types.
var otherTypes = lazyRegexp(`^(f32|copy|i?q[1-8]_[a-z0-9_]+|tq[12]_0|(mx|nv)fp4(_moe)?)$`)

// setGGUFType takes the value of --gguf-type.
func (f *modelFlags) setGGUFType() error {
	name := strings.ToLower(f.ggufType)
	to, ok := ggufTypes[name]
	switch {
	case !ok && otherTypes().MatchString(name):
		return usageError{fmt.Errorf("--gguf-type %s: tensorfs does not quantise to this type, only to %s; llama-quantize makes it of the file that tensorfs cat MODEL gguf/model.gguf writes", f.ggufType, ggufTypeList)}
	case !ok:
		return usageError{fmt.Errorf("--gguf-type %q: want %s", f.ggufType, ggufTypeList)}
	}
	if f.ggufType != name || f.tree.Whole.Type != to { // models of a library are opened side by side
		f.ggufType, f.tree.Whole.Type = name, to
	}
	return nil
}

// modelFlags are the flags of every command that opens a model.
type modelFlags struct {
	tree        tree.Options
	views       string // of --views, names with commas between; "" for the default
	ggufType    string // of --gguf-type, a row of ggufTypes
	followLinks bool
	keepInside  bool // links that leave the model's directory are refused, unless followLinks
	remote      remoteFlags
}

func (f *modelFlags) add(s system, c *cobra.Command) {
	f.addReading(s, c)
	s.define(c, "", flags{"views": &f.views, "gguf-type": &f.ggufType})
}

// addReading adds those of commands that look at no whole-model file.
func (f *modelFlags) addReading(s system, c *cobra.Command) {
	s.define(c, "", flags{"i2s": &f.tree.Views.I2S, "follow-links": &f.followLinks})
	f.remote.add(s, c)
}

// check takes the values of the flags.
func (f *modelFlags) check() error {
	if f.tree.Views.I2S != "" && !slices.Contains(views.I2SLayouts, f.tree.Views.I2S) {
		return usageError{fmt.Errorf("--i2s %q: want %s", f.tree.Views.I2S, i2sLayouts)}
	}
	if f.views != "" {
		var err error
		if f.tree.Views.Views, err = views.Choose(strings.FieldsFunc(f.views, isViewComma)); err != nil {
			return usageError{fmt.Errorf("--views: %w", err)}
		}
	}
	if err := f.setGGUFType(); err != nil {
		return err
	}
	return f.remote.check()
}

// isViewComma reports whether c stands between names of views: a comma, or the colon
// of fstab, where a comma ends an option.
func isViewComma(c rune) bool { return c == ',' || c == ':' }

// open opens the model and lays out its tree. The caller closes the model.
func (f *modelFlags) open(path string) (*tree.Tree, error) {
	return f.openWith(func(o formats.Options) (*tensorfs.Model, error) {
		m, err := o.Open(path)
		if err != nil {
			return nil, err
		}
		if err := notALibrary(path, m); err != nil {
			m.Close()
			return nil, err
		}
		if why := whole.Kept(m, f.tree.Whole.Type); why != "" {
			m.Close()
			return nil, fmt.Errorf("%s: --gguf-type %s changes nothing: %s; leave it out, or name a model in F16, BF16 or F32", printableName(path), f.ggufType, why)
		}
		return m, nil
	})
}

// notALibrary returns an error where a model is the one at the top of a folder that has
// others below, and so is a library.
func notALibrary(path string, m *tensorfs.Model) error {
	if formats.IsName(path) || !source.HasDir(path) || m.Format != "gguf" || library.Single(path, library.Options{Skip: isOurs}) {
		return nil
	}
	dir, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	names := []string{m.Path}
	for _, b := range library.Below(dir, library.Options{Skip: isOurs}) {
		names = append(names, b.Path())
	}
	return tensorfs.Unsupported(dir, fmt.Sprintf("it is a folder with %d models: %s", len(names), near.List(names)), "name one of them; tensorfs list "+tensorfs.Printable(path)+" describes all, and tensorfs mount mounts all")
}

// openWith lays out the tree of the model that open opens.
func (f *modelFlags) openWith(open func(formats.Options) (*tensorfs.Model, error)) (*tree.Tree, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	quiet := f.remote.notice()
	options := f.remote.open().Formats(context.Background())
	options.KeepInside = f.keepInside && !f.followLinks
	m, err := open(options)
	quiet()
	if err != nil {
		return nil, err
	}
	return tree.New(m, f.tree), nil
}
