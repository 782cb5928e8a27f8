package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/server"
)

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

// checkBackend refuses what the backend does not have. extra are the options of -o that
// change something and are no flags.
func (o *mountOptions) checkBackend(extra []string) error {
	if !slices.Contains(backendNames, o.spec.Backend) {
		return cli.UsageError{Err: fmt.Errorf("--backend %s: want %s", o.spec.Backend, strings.Join(backendNames, " or "))}
	}
	if o.spec.Backend == mounts.BackendFUSE {
		return nil
	}
	if server.NFSClients[runtime.GOOS] == nil {
		return cli.UsageError{Err: fmt.Errorf("--backend %s is for macOS; leave it out: FUSE mounts here, for any user, and tensorfs serve MODEL serves NFS without a mount", o.spec.Backend)}
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
		return cli.UsageError{Err: fmt.Errorf("%s only for --backend fuse, and this is %s", what, o.spec.Backend)}
	}
	return nil
}
