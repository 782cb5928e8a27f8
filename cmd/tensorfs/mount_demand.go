package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/demand"
	"github.com/tensorfs/tensorfs/internal/libdir"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/server"
)

// openOnDemand looks through a store, whose server is asked for further models when programs look up
// their names.
func (o *mountOptions) openOnDemand(name, mountpoint string) (*server.Content, error) {
	usage := func(format string, args ...any) error { return cli.UsageError{Err: fmt.Errorf(format, args...)} }
	var orgs []string
	for _, list := range o.library.orgs {
		orgs = append(orgs, strings.FieldsFunc(list, func(c rune) bool { return c == ',' })...)
	}
	switch {
	case !o.library.demand:
		return nil, usage("--allow-orgs restricts --on-demand; give that flag too")
	case len(orgs) == 0 && len(o.library.orgs) > 0:
		return nil, usage("--allow-orgs: name an organisation, such as Qwen")
	case o.library.as != "":
		return nil, usage("--on-demand shows ORG/NAME directories, and --as %s other ones; leave one of the two out", o.library.as)
	case o.inside != "":
		return nil, usage("--inside is for one model, and --on-demand shows many")
	case !slices.Contains(demand.Stores(), name):
		return nil, usage("--on-demand is for a store with a server: name %s instead of %s", near.Either(demand.Stores()), conceal.Printable(name))
	case o.remote.cacheSize.Given && o.remote.cacheSize.ByteSize == 0:
		return nil, usage("--on-demand opens models again from the cache, and --cache-size 0 keeps nothing there; leave it out")
	}
	names, err := demand.NewNames(name, orgs)
	if err != nil {
		return nil, usage("--allow-orgs: %w", err)
	}
	l, err := library.Open(name, library.Options{Skip: isOurs, Missing: true})
	if err != nil {
		return nil, err
	}
	if err := o.checkLibrary(l, mountpoint); err != nil {
		return nil, err
	}
	client := o.remote.open()
	if client.Formats(context.Background()).Offline == "" {
		if err := o.remote.checkCache(); err != nil {
			return nil, err
		}
	}
	models := &demand.Models{OpenTree: o.openAmong, Idle: o.library.idle, Logger: o.remote.logger}
	lookups := demand.New(demand.Options{Names: names, Open: models.Open})
	c := o.libraryContent(l, name, (&libdir.OnDemand{Trees: treesOf(l, "on-demand", o.openListed), Lookups: lookups, Began: time.Now()}).Root)
	c.Library.OnDemand = lookups
	c.Options.Waits, c.Options.Traffic = true, client.Traffic
	if library.Absent(name) != nil { // such a mount needs no models on this machine
		c.Warnings = func() []string { return nil }
	}
	return c, nil
}

// checkCache returns an error if the cache cannot be kept on a disk.
func (f *remoteFlags) checkCache() error {
	store, err := cache.Open(cache.Options{Dir: f.cache, Budget: int64(f.cacheSize.ByteSize), Scope: f.scope, OnDisk: true})
	if err != nil {
		return fmt.Errorf("--on-demand opens models again from the cache: %w", err)
	}
	return store.Close()
}

var _ fs.OnDemand = (*demand.Lookups)(nil)
