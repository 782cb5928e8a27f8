package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/cli"
)

// cacheOptions are the flags of all commands about the cache.
type cacheOptions struct{ dir string }

func (s system) cache() *cobra.Command {
	o := &cacheOptions{}
	c := s.command("cache", func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return notACommand(cmd, args[0])
	}, flags{"cache": &o.dir}, func(cmd *cobra.Command, _ []string) error { return cmd.Help() })
	c.SuggestionsMinimumDistance = 2
	c.PersistentFlags().AddFlag(c.Flags().Lookup("cache"))
	c.AddCommand(s.cacheList(o), s.cachePrune(o), s.cacheDir(o))
	return c
}

// path returns the directory of the cache, which need not exist.
func (o *cacheOptions) path() (string, error) {
	if o.dir == "" {
		return cache.DefaultDir()
	}
	return filepath.Abs(o.dir)
}

// open opens the cache. One that was never used is empty, and is not made.
func (o *cacheOptions) open() (*cache.Store, error) {
	dir, err := o.path()
	if err != nil {
		return nil, err
	}
	return cache.Open(cache.Options{Dir: dir, OnDisk: true, Exists: true})
}

func (s system) cacheDir(o *cacheOptions) *cobra.Command {
	return s.command("cache-dir", between(0, 0), flags{}, func(cmd *cobra.Command, _ []string) error {
		dir, err := o.path()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
		return err
	})
}

func (s system) cacheList(o *cacheOptions) *cobra.Command {
	json := false
	c := s.command("cache-list", between(0, 0), flags{"json": &json}, func(cmd *cobra.Command, _ []string) error {
		return o.list(cmd.OutOrStdout(), json)
	})
	c.SuggestFor = []string{"size", "du", "usage", "info", "show", "status"}
	return c
}

func (o *cacheOptions) list(stdout io.Writer, json bool) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	defer s.Close()
	list, err := s.List()
	if err != nil {
		return err
	}
	c, err := s.Converted()
	if err != nil {
		return err
	}
	models := c.List()
	nFiles := len(list)
	list = append(list, models...)
	if json {
		return cli.PrintJSON(stdout, list)
	}
	yes := map[bool]string{true: "yes", false: "-"}
	disk := int64(0)
	rows := cli.Table{Right: make([]bool, 6), NameLast: true}
	rows.Add("CACHED", "SIZE", "WHOLE", "IN USE", "LAST USE", "SOURCE")
	for _, f := range list {
		disk += f.Disk
		note := ""
		if f.Converted {
			note = " (converted)"
		}
		rows.Add(cli.Size(f.Cached), cli.Size(f.Bytes), yes[f.Whole], yes[f.InUse], f.LastUse.Local().Format(time.DateTime), tensorfs.Printable(f.Source)+note)
	}
	rows.Print(stdout, cli.TableWidth(stdout))
	_, err = fmt.Fprintf(stdout, "\n%s, %s on the disk\n", filesAndModels(nFiles, len(models)), cli.Size(disk))
	return err
}

// filesAndModels counts both in words; of models only if there are any.
func filesAndModels(n, models int) string {
	if models == 0 {
		return cli.Plural(n, "file")
	}
	return cli.Plural(n, "file") + " and " + cli.Plural(models, "converted model")
}

type pruneOptions struct {
	*cacheOptions
	all  bool
	size cli.ByteSize
}

func (s system) cachePrune(o *cacheOptions) *cobra.Command {
	p := &pruneOptions{cacheOptions: o}
	c := s.command("cache-prune", between(0, 1), flags{"all": &p.all, "size": &p.size}, func(cmd *cobra.Command, args []string) error {
		if sized := cmd.Flags().Changed("size"); len(args) > 0 && (p.all || sized) {
			return cli.UsageError{Err: errors.New("--all, --size and PATTERN exclude each other")}
		}
		return p.run(cmd.OutOrStdout(), cmd.Flags().Changed("size"), args)
	})
	c.SuggestFor = []string{"purge", "clean", "clear", "delete", "rm", "remove", "gc"}
	return c
}

func (p *pruneOptions) run(stdout io.Writer, sized bool, patterns []string) error {
	options := cache.PruneOptions{Size: -1}
	switch {
	case p.all:
		options = cache.PruneOptions{Names: true}
	case sized:
		options.Size = int64(p.size)
	case len(patterns) > 0:
		if _, err := cli.MatchGlob(patterns[0], ""); err != nil {
			return cli.UsageError{Err: err}
		}
		options = cache.PruneOptions{Size: math.MaxInt64, Match: func(source string) bool { return matchSource(patterns[0], source) }}
	}
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	swept, models, err := s.PruneAll(options)
	if err != nil {
		return fmt.Errorf("%s: %w", tensorfs.Printable(s.Dir()), err)
	}
	if options.Match != nil && swept == (cache.Swept{}) && models == (cache.Swept{}) {
		return fmt.Errorf("no file in the cache matches %q; tensorfs cache list shows all", patterns[0])
	}
	left := ""
	if swept.InUse+models.InUse > 0 {
		left = fmt.Sprintf("; %s in use left", filesAndModels(swept.InUse, models.InUse))
	}
	_, err = fmt.Fprintf(stdout, "%s removed, %s%s\n", filesAndModels(swept.Entries, models.Entries), cli.Size(swept.Bytes+models.Bytes), left)
	return err
}

// matchSource reports whether a source matches a glob or is below one that does.
func matchSource(glob, source string) bool {
	for _, g := range []string{glob, glob + "/*"} {
		if ok, _ := cli.MatchGlob(g, source); ok { // the caller looked at its form
			return true
		}
	}
	return false
}
