package main

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/views/tree"
)

// served is a tree that is served until it is unmounted.
type served interface {
	Wait()
	Done() <-chan struct{}
	Unmount() error
	UnmountLazy() error
	Logger() *slog.Logger
}

// backends are the ways to mount the tree of a model.
var backends = map[string]func(o *mountOptions, t *tree.Tree, at string, opts fs.Options) (served, error){
	fs.BackendFUSE: mountFUSE,
	fs.BackendNFS:  mountNFS,
}

// backendNames are those that --backend takes.
var backendNames = []string{fs.BackendFUSE, fs.BackendNFS}

// defaultBackend is that of a system: macOS has FUSE only with an extension of its
// kernel.
func defaultBackend(goos string) string {
	if goos == "darwin" {
		return fs.BackendNFS
	}
	return fs.BackendFUSE
}

func (o *mountOptions) addBackend(f *pflag.FlagSet) {
	f.StringVar(&o.backend, "backend", defaultBackend(runtime.GOOS), "how the system reads the mount: fuse, or nfs without an extension of the kernel")
}

func mountFUSE(_ *mountOptions, t *tree.Tree, at string, opts fs.Options) (served, error) {
	return servedBy(fs.Mount(t.Root, at, opts))
}

// servedBy keeps a nil server from being one.
func servedBy(s *fs.Server, err error) (served, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fuseFlags are the flags of mount that only FUSE has.
var fuseFlags = []string{"debug", "hot", "read-ahead"}

// checkBackend refuses what the backend does not have. extra are the options of -o that
// change something and are no flags.
func (o *mountOptions) checkBackend(extra []string) error {
	if !slices.Contains(backendNames, o.backend) {
		return usageError{fmt.Errorf("--backend %s: want %s", o.backend, strings.Join(backendNames, " or "))}
	}
	if o.backend == fs.BackendFUSE {
		return nil
	}
	for _, name := range fuseFlags {
		if f := o.set.Lookup(name); f.Value.String() != f.DefValue {
			return usageError{fmt.Errorf("--%s is for --backend fuse alone, and this is %s", name, o.backend)}
		}
	}
	if len(extra) > 0 {
		return usageError{errors.New("-o " + strings.Join(extra, ",") + ": for --backend fuse alone, and this is " + o.backend)}
	}
	return nil
}
