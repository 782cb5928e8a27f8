package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/sizes"
	"golang.org/x/sys/unix"
)

// release is the version; who builds a package sets it with -ldflags "-X main.release=...".
var release string

// version is the release, else what the Go tool recorded.
func version() string {
	if info, ok := debug.ReadBuildInfo(); release == "" && ok && info.Main.Version != "" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	if release == "" {
		return "(devel)"
	}
	return release
}

// Options are the command line.
type options struct {
	endpoint, node, dir, cacheSize, metrics, program, local, keeper, proxy, register, kubeletSocket string
	controller, debug, version                                                                      bool
	linger                                                                                          time.Duration
}

func (o *options) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("tensorfs-csi", pflag.ContinueOnError)
	f.StringVar(&o.endpoint, "endpoint", "unix:///csi/csi.sock", "socket where kubelet finds the driver, `unix://PATH`")
	f.StringVar(&o.node, "node", "", "`NAME` of the node")
	f.StringVar(&o.dir, "dir", "/var/lib/tensorfs", "`DIR` for mounts, records and the cache, which other containers have to see under the same path")
	f.StringVar(&o.cacheSize, "cache-size", "", "how large the cache of the node may be, a `SIZE` such as 200G (default: a tenth of the disk, at most 100 GB)")
	f.StringVar(&o.metrics, "metrics", "", "`ADDRESS` of /metrics and /healthz, such as :9808")
	f.BoolVar(&o.controller, "controller", false, "make volumes of StorageClasses too")
	f.DurationVar(&o.linger, "linger", time.Minute, "how long a server stays that no volume needs")
	f.StringVar(&o.program, "tensorfs", defaultProgram(), "`PROGRAM` of the servers")
	f.StringVar(&o.local, "local", "", "`DIR` of the node whose models volumes may name by their paths")
	f.StringVar(&o.keeper, "keeper", "", "`SOCKET` of tensorfs keep, with which mounts outlive their servers")
	f.StringVar(&o.proxy, "proxy", "", "`URL` of the proxy by which servers ask other machines")
	f.StringVar(&o.register, "register", "", "`SOCKET` in kubelet's directory plugins_registry, to be registered without another program")
	f.StringVar(&o.kubeletSocket, "kubelet-socket", "", "`PATH` of --endpoint as kubelet sees it (default: --endpoint's)")
	f.BoolVar(&o.debug, "debug", false, "log every call")
	f.BoolVar(&o.version, "version", false, "print the version")
	return f
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tensorfs-csi: "+tensorfs.OneLine(err.Error()))
		os.Exit(1)
	}
}

// run is the program. It returns when ctx ends; servers go on.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := new(options)
	flags := o.flags()
	flags.SetOutput(stdout)
	flags.Usage = func() {
		fmt.Fprintf(stdout, "tensorfs-csi is a CSI driver of Kubernetes: it shows models as volumes.\n\nUsage:\n  tensorfs-csi --node NAME [flags]\n\nFlags:\n%s", flags.FlagUsages())
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("%s: there are only flags; tensorfs-csi --help lists them", tensorfs.Quote(flags.Arg(0)))
	case o.version:
		fmt.Fprintf(stdout, "tensorfs-csi %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	level := slog.LevelInfo
	if o.debug {
		level = slog.LevelDebug
	}
	d, err := o.driver(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})), stderr)
	if err != nil {
		return err
	}
	return d.run(ctx, o)
}

// driver checks the options.
func (o *options) driver(log *slog.Logger, stderr io.Writer) (*driver, error) {
	switch {
	case o.node == "":
		return nil, errors.New("give --node NAME, which kubelet knows the node by (spec.nodeName)")
	case !filepath.IsAbs(o.dir) || filepath.Clean(o.dir) == "/":
		return nil, fmt.Errorf("--dir %s: want an absolute path", tensorfs.Quote(o.dir))
	case o.local != "" && !filepath.IsAbs(o.local):
		return nil, fmt.Errorf("--local %s: want an absolute path", tensorfs.Quote(o.local))
	case o.linger < 0:
		return nil, fmt.Errorf("--linger %v: want no less than 0", o.linger)
	}
	// The table of mounts has no links in its paths.
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	dir, err := filepath.EvalSymlinks(o.dir)
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	program, err := exec.LookPath(o.program)
	if err != nil {
		return nil, fmt.Errorf("--tensorfs: %w", err)
	}
	if o.proxy != "" {
		for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY"} {
			if err := os.Setenv(name, o.proxy); err != nil {
				return nil, fmt.Errorf("--proxy: %w", err)
			}
		}
	}
	f := &fleet{
		dir: layout(dir), program: program, keeper: o.keeper, local: o.local, since: time.Now(), linger: o.linger, log: log, counters: newCounters(), all: map[string]*server{},
		output: func(key, line string) { fmt.Fprintf(stderr, "%s %s\n", key, line) },
	}
	if o.cacheSize != "" {
		var ok bool
		if f.cacheSize, ok = sizes.Parse(o.cacheSize); !ok {
			return nil, fmt.Errorf("--cache-size %s: want a size like 512M or 200G", tensorfs.Quote(o.cacheSize))
		}
		f.flags = append(f.flags, "--cache-size="+strconv.FormatInt(f.cacheSize, 10))
	}
	if err := f.dir.prepare(); err != nil {
		return nil, err
	}
	d := &driver{fleet: f, node: o.node}
	if o.controller {
		d.controller = newController(o.local)
	}
	return d, nil
}

// run serves until ctx ends, or something cannot be served.
func (d *driver) run(ctx context.Context, o *options) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may mount; the container has to be privileged")
	}
	if _, err := mountTable(); err != nil {
		return err
	}
	unlock, err := d.dir.lock()
	if err != nil {
		return err
	}
	defer unlock()
	l, err := listenUnix(o.endpoint)
	if err != nil {
		return fmt.Errorf("--endpoint: %w", err)
	}
	defer l.Close()
	if err := d.probe(); err != nil { // kubelet asks again
		d.log.Error("no volume can be published", "error", err)
	}
	if err := d.restore(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go d.sweep(ctx)
	ended := make(chan error, 3)
	if o.metrics != "" {
		h, err := net.Listen("tcp", o.metrics)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		go func() { ended <- d.serveHTTP(ctx, h, d.registry()) }()
	}
	if o.register != "" {
		socket := o.kubeletSocket
		if socket == "" {
			socket = l.Addr().String()
		}
		go func() {
			if err := register(ctx, o.register, socket, d.log); err != nil {
				ended <- fmt.Errorf("--register: %w", err)
			}
		}()
	}
	go func() { ended <- d.serve(ctx, l) }()
	d.log.Info("the driver is ready", "version", version(), "node", d.node, "endpoint", o.endpoint)
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	}
}

// lock keeps a second driver away from the same directory, because locks are within a
// process.
func (d layout) lock() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(d.run(), "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(aloneTime); ; time.Sleep(100 * time.Millisecond) { // the last one may be ending
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("%s: another driver uses it: %w", string(d), err)
		}
	}
}

const aloneTime = 5 * time.Second
