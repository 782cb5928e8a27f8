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
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/export"
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

func newRoot() *cobra.Command { return newRootFor(runtime.GOOS) }

// newRootFor returns the command with the words of a system.
func newRootFor(goos string) *cobra.Command {
	mount := &mountOptions{}
	root := &cobra.Command{
		Use:   "tensorfs",
		Short: "Show the tensors of a model as files",
		Long: `tensorfs shows the tensors of a model as files, one per tensor, under the same
names whatever format the model has: as stored, packed for kernels, dequantised
to plain floats, fused, and as NumPy arrays. It never writes to the model. What
is not on this machine is read from its server, in the parts that are needed.

MODEL is one of

  FILE.gguf              a GGUF file, or any shard of a split one
  FILE.safetensors       a safetensors file
  DIRECTORY              a Hugging Face or MLX model directory, or one with a
                         single GGUF model and none in its directories
  MANIFEST               a manifest in an Ollama store
  ollama:NAME[:TAG]      a model of the local Ollama store (OLLAMA_MODELS), or
                         of its registry where that does not have it
  hf:ORG/NAME            a model of the local Hugging Face cache (HF_HOME), or
                         of the Hub where that does not have it
  hf:ORG/NAME:Q4_K_M     its GGUF model with that word in its name
  hf:ORG/NAME/FILE       a file or a directory of it
  hf:ORG/NAME@REVISION   at a branch, a tag, refs/pr/N or a commit (:WORD or
                         :FILE may follow)
  https://HOST/FILE      a GGUF or safetensors file of a server; s3:// names
                         those of a bucket, oci:// those of a registry

mount and list also take a library: ollama:, hf: or a folder with several
models. tensorfs MODEL is the same as tensorfs info MODEL.
tensorfs help remote says how models on other machines are found, read and kept.

Exit status:

  0   success
  1   failure: one line on standard error says what, where and what to do
  2   the command line was not understood`,
		Example: `  tensorfs mount model.gguf ~/m
  ls -l ~/m/f16
  tensorfs umount ~/m

  tensorfs info ollama:gemma3
  tensorfs cat model.gguf config.json`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          rootArgs,
		// mount(8) calls a filesystem's program as PROGRAM SOURCE DIRECTORY -o OPTIONS.
		RunE: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return cmd.Help()
			case 1:
				return runInfo(cmd, args[0])
			}
			if cmd.Flags().Changed("json") {
				return usageError{errors.New("--json is for one model; usage: tensorfs info --json MODEL")}
			}
			return mount.run(cmd, args[0], args[1])
		},
	}
	mount.flags(root)
	root.Flags().Bool("json", false, "")
	root.SuggestionsMinimumDistance = 2
	// These flags are for mount(8), or for info, and do not belong in the help of the root command.
	root.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().BoolP("version", "V", false, "print the version")
	root.AddCommand(mountCommand(), umountCommand(), statusCommand(), serveCommand(), lsCommand(), infoCommand(), catCommand(), exportCommand(), verifyCommand(), diffCommand(), statCommand(), listCommand(),
		fetchCommand(), cacheCommand(), versionCommand(), manCommand(), completionCommand(), remoteTopic())
	for _, c := range root.Commands() {
		if strings.Contains(c.Use, " MODEL") && !c.HasSubCommands() {
			modelFirst(c)
		}
	}
	completeArguments(root)
	wordFor(root, goos)
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

func (f *modelFlags) add(c *cobra.Command) {
	f.addReading(c)
	c.Flags().StringVar(&f.views, "views", "", "`VIEWS` to show, with commas between: "+viewList)
	c.Flags().StringVar(&f.ggufType, "gguf-type", "", "`TYPE` of the weights in gguf/: "+ggufTypeList+" (default: as stored, or the smallest that is exact)")
}

// addReading adds those of commands that look at no whole-model file.
func (f *modelFlags) addReading(c *cobra.Command) {
	c.Flags().StringVar(&f.tree.Views.I2S, "i2s", "", "`ORDER` of BitNet I2_S codes: "+i2sLayouts+" (default: by size)")
	c.Flags().BoolVar(&f.followLinks, "follow-links", false, "follow symbolic links out of the model's directory where mount refuses them: as root and with allow_other")
	f.remote.add(c)
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
			return nil, treeAdvice(path, err)
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

// treeAdvice names the model where a directory that could not be opened as one is a
// mount or an export of tensorfs.
func treeAdvice(path string, err error) error {
	if m, merr := fs.MountAt(path); merr == nil && m != nil {
		return fmt.Errorf("%s: it is a mount of %s; name the model itself", tensorfs.Printable(path), tensorfs.Printable(m.Source))
	}
	for _, f := range export.FactsOf(path) {
		if f.What != factModel {
			continue
		}
		advice := "name the model itself"
		for _, file := range []string{"gguf/model.gguf", "hf/config.json", "mlx/config.json"} {
			whole := filepath.Join(path, file)
			if _, err := os.Stat(whole); err == nil {
				advice += ", or " + tensorfs.Printable(filepath.Dir(whole))
				break
			}
		}
		return fmt.Errorf("%s: it is an export of %s, which tensorfs export adds to and the C and Go libraries load; %s", tensorfs.Printable(path), tensorfs.Printable(tensorfs.OneLine(f.Is)), advice)
	}
	return err
}

// openWith lays out the tree of the model that open opens.
func (f *modelFlags) openWith(open func(formats.Options) (*tensorfs.Model, error)) (*tree.Tree, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	quiet := f.remote.notice()
	m, err := open(formats.Options{KeepInside: f.keepInside && !f.followLinks, Remote: f.remote.find, Hub: os.Getenv("HF_ENDPOINT"), AskFirst: f.remote.ask, Offline: f.remote.forbids()})
	quiet()
	if err != nil {
		return nil, err
	}
	return tree.New(m, f.tree), nil
}
