//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// roleEnv makes this program a reader, or run as another user.
const roleEnv = "TENSORFS_BENCHMARK_ROLE"

// part is something that can be measured.
type part struct {
	name string
	what string
	run  func(*bench) error
}

// parts are in the order of the report. The first needs no mount.
var parts = []part{
	{"kernels", "decoding without a mount", (*bench).kernels},
	{"sequential", "whole tensors through a mount", (*bench).sequential},
	{"listing", "ls of 50,000 files", (*bench).listing},
	{"start", "mounting, the first byte, info", (*bench).start},
	{"memory", "the server's own memory", (*bench).memory},
}

// init ties main to the first thread. The kernel ends children with the thread
// that started them, and this one lasts.
func init() { runtime.LockOSThread() }

func main() {
	var err error
	switch role := os.Getenv(roleEnv); role {
	case "":
		err = run(os.Args[1:], true)
	case "user":
		err = asUser(os.Args[1:])
	case "nobody":
		err = run(os.Args[1:], false)
	default:
		err = read(role, os.Args[1:])
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(said)):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	programs string
	mib      int64
	passes   int
	quick    bool
	only     []string
	user     bool
}

func parse(args []string) (*options, error) {
	o := new(options)
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.programs, "programs", "", "directory of the built programs, removed at the end (set by scripts/bench)")
	f.Int64Var(&o.mib, "size", 0, "MiB of f16 that the large tensors have (default 256, quick 64)")
	f.IntVar(&o.passes, "passes", 0, "passes that count, fewer where the machine is slow (default 9, quick 3)")
	f.BoolVar(&o.quick, "quick", false, "small and few: to try it out")
	only := f.String("only", "", "parts to run, separated by commas")
	f.BoolVar(&o.user, "user", false, "measure as an ordinary user (uid 65534) although root runs this")
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "Usage: scripts/bench [flags]\n\nPrints a report in Markdown, says on standard error what it is doing.\nParts:")
		for _, p := range parts {
			fmt.Fprintf(f.Output(), "  %-12s%s\n", p.name, p.what)
		}
		fmt.Fprintln(f.Output(), "Flags:")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is not understood; see --help", f.Arg(0))
	}
	for name := range strings.SplitSeq(*only, ",") {
		if name == "" {
			continue
		}
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return o, fmt.Errorf("no part %q; see --help", name)
		}
		o.only = append(o.only, name)
	}
	if o.mib == 0 {
		o.mib = 256
		if o.quick {
			o.mib = 64
		}
	}
	if o.passes == 0 {
		o.passes = 9
		if o.quick {
			o.passes = 3
		}
	}
	if o.mib < 16 || o.mib > 1<<16 || o.passes < 1 {
		return o, errors.New("--size goes from 16 to 65536 MiB, --passes from 1")
	}
	return o, nil
}

// wants reports whether a part is to be run.
func (o *options) wants(part string) bool { return o.only == nil || slices.Contains(o.only, part) }

// bench is one run.
type bench struct {
	*options
	ctx      context.Context
	dir      string // models and mount points
	shm      string // in a tmpfs; empty where there is none
	tensorfs string // the program
	out      io.Writer
	models   map[string]*model
	servers  []*server
	mounted  string // where tensorfs mount was run, if it still is
}

// run measures. The first process of a run has the programs to itself and
// removes them.
func run(args []string, first bool) (err error) {
	o, err := parse(args)
	if first && o.programs != "" {
		defer func() { err = errors.Join(err, os.RemoveAll(o.programs)) }()
	}
	if err != nil {
		return err
	}
	if o.user && os.Geteuid() == 0 {
		return startUser(o, args)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	b := &bench{options: o, ctx: ctx, out: os.Stdout, models: make(map[string]*model)}
	if b.tensorfs, err = filepath.Abs(filepath.Join(o.programs, "tensorfs")); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.cleanUp())
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything is cleaned up")
		}
	}()
	return b.measure()
}

func (b *bench) measure() error {
	started := time.Now()
	if err := b.makeRoom(); err != nil {
		return err
	}
	b.describe()
	if b.wantsMounts() {
		b.say("touching memory")
		_, _, memory := b.rooms()
		if err := b.touch(memory); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if !b.wants(p.name) {
			continue
		}
		b.say("%s: %s", p.name, p.what)
		before := loadAverage()
		if err := p.run(b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(b.out, "\nLoad average before and after this part: %s, %s.\n", before, loadAverage())
		if err := b.unmountAll(); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, "\nThe run took %.0f s.\n", time.Since(started).Seconds())
	return nil
}

// wantsMounts reports whether any part takes more than the kernels.
func (o *options) wantsMounts() bool {
	return slices.ContainsFunc(parts[1:], func(p part) bool { return o.wants(p.name) })
}

// say tells whoever waits what is going on.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// cleanUp unmounts and removes everything.
func (b *bench) cleanUp() error {
	err := errors.Join(b.unmountAll(), b.unmountCommand())
	for _, dir := range []string{b.dir, b.shm} {
		if dir != "" {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// command prepares a child that ends with this process and does not hear Ctrl-C
// by itself.
func (b *bench) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	return cmd
}

// runs runs a program to its end and returns what it took.
func (b *bench) runs(name string, args ...string) (wall, cpu time.Duration, err error) {
	cmd := b.command(name, args...)
	var said strings.Builder
	cmd.Stderr = &said
	start := time.Now()
	err = cmd.Run()
	wall = time.Since(start)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(said.String()))
	}
	return wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
