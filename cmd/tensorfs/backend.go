package main

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
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

// backends are the ways to serve the tree of a model. Only macOS mounts what the second one serves.
var backends = map[string]func(o *mountOptions, t *tree.Tree, at string, opts fs.Options) (served, error){
	mounts.BackendFUSE: mountFUSE,
	mounts.BackendNFS:  mountNFS,
}

// backendNames are the values of --backend.
var backendNames = []string{mounts.BackendFUSE, mounts.BackendNFS}

// defaultBackend is a system's default: macOS has FUSE only with an extension of its
// kernel.
func defaultBackend(goos string) string {
	if goos == "darwin" {
		return mounts.BackendNFS
	}
	return mounts.BackendFUSE
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

// checkBackend refuses what the backend does not have. extra are the options of -o that
// change something and are no flags.
func (o *mountOptions) checkBackend(extra []string) error {
	if !slices.Contains(backendNames, o.backend) {
		return cli.UsageError{Err: fmt.Errorf("--backend %s: want %s", o.backend, strings.Join(backendNames, " or "))}
	}
	if o.backend == mounts.BackendFUSE {
		return nil
	}
	if nfsClients[runtime.GOOS] == nil {
		return cli.UsageError{Err: fmt.Errorf("--backend %s is for macOS; leave it out: FUSE mounts here, for any user, and tensorfs serve MODEL serves NFS without a mount", o.backend)}
	}
	what := ""
	if len(extra) > 0 {
		what = "-o " + strings.Join(extra, ",") + ":"
	}
	o.set.VisitAll(func(f *pflag.Flag) {
		if marked(f, markFUSE) && isSet(f) {
			what = "--" + f.Name + " is"
		}
	})
	if what != "" {
		return cli.UsageError{Err: fmt.Errorf("%s for --backend fuse alone, and this is %s", what, o.backend)}
	}
	return nil
}
