package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
)

// cacheOptions are the flags of all commands about the cache.
type cacheOptions struct{ dir string }

func cacheCommand() *cobra.Command {
	o := &cacheOptions{}
	c := &cobra.Command{
		Use:   "cache",
		Short: "Show and prune the cache of remote files",
		Long: `The cache keeps what was read of models on other machines, in pieces of 128 KiB.
It is shared by all commands and mounts of a user, and nothing in it is needed:
what is removed is fetched again.

It is in the directory --cache DIR, else TENSORFS_CACHE, else tensorfs below
XDG_CACHE_HOME or ~/.cache; /var/cache/tensorfs for a service of root. The
directory has to be on a local disk. The cache takes a tenth of that disk, at
most 100 GB, and leaves a twentieth of it free.`,
		Example: `  tensorfs cache list
  tensorfs cache prune --size 20G
  tensorfs cache prune 'hf:acme/*'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return notACommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.SuggestionsMinimumDistance = 2
	c.PersistentFlags().StringVar(&o.dir, "cache", "", "`DIR` of the cache (default: TENSORFS_CACHE, else one of the user)")
	c.AddCommand(cacheListCommand(o), cachePruneCommand(o), cacheDirCommand(o))
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
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return cache.Open(cache.Options{Budget: -1})
	}
	return cache.Open(cache.Options{Dir: dir, OnDisk: true})
}

func cacheDirCommand(o *cacheOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "dir",
		Short: "Print the directory of the cache",
		Long:  `dir prints the directory of the cache, whether it exists or not.`,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := o.path()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		},
	}
}

func cacheListCommand(o *cacheOptions) *cobra.Command {
	json := false
	c := &cobra.Command{
		Use:   "list [--json]",
		Short: "List the files in the cache",
		Long: `list prints the files in the cache, by source: how much of each is local, its
size, whether all of it is there (and, where the source names a digest,
verified), whether a process has it open, and when it was used last.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.list(cmd.OutOrStdout(), json) },
	}
	c.Flags().BoolVar(&json, "json", false, "print a JSON array of objects: source, bytes, cached, disk, whole, in_use, last_use, digest")
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
	if json {
		return printJSON(stdout, list)
	}
	yes := map[bool]string{true: "yes", false: "-"}
	disk := int64(0)
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CACHED\tSIZE\tWHOLE\tIN USE\tLAST USE\tSOURCE")
	for _, f := range list {
		disk += f.Disk
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", size(f.Cached), size(f.Bytes), yes[f.Whole], yes[f.InUse], f.LastUse.Local().Format(time.DateTime), tensorfs.Printable(f.Source))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\n%s, %s on the disk\n", files(len(list)), size(disk))
	return err
}

// files counts files in words.
func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

type pruneOptions struct {
	*cacheOptions
	all  bool
	size byteSize
}

func cachePruneCommand(o *cacheOptions) *cobra.Command {
	p := &pruneOptions{cacheOptions: o}
	c := &cobra.Command{
		Use:   "prune [--all | --size SIZE | PATTERN]",
		Short: "Remove files from the cache",
		Long: `prune removes files from the cache that no process has open: with --all each of
them, with --size SIZE those that were not used for longest until the cache has
no more than SIZE, with PATTERN those whose source (see tensorfs cache list)
matches it or is below it. * matches any characters (slashes too), ? matches
one, [abc] matches one of a set. Without any of these it brings the cache back
to its usual limit.

Files that are in use stay, and are counted. --all also forgets what the names
of models stood for when they were opened last.`,
		Example: `  tensorfs cache prune --size 20G
  tensorfs cache prune hf:acme/tiny
  tensorfs cache prune '*.gguf'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := len(args)
			for _, flag := range []string{"all", "size"} {
				if cmd.Flags().Changed(flag) {
					given++
				}
			}
			if given > 1 {
				return usageError{errors.New("--all, --size and PATTERN exclude each other")}
			}
			return p.run(cmd.OutOrStdout(), cmd.Flags().Changed("size"), args)
		},
	}
	c.Flags().BoolVar(&p.all, "all", false, "remove all files that are not in use")
	c.Flags().Var(&p.size, "size", "remove files until the cache has no more than this much")
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
		if _, err := matchGlob(patterns[0], ""); err != nil {
			return usageError{err}
		}
		options = cache.PruneOptions{Size: math.MaxInt64, Match: func(source string) bool { return matchSource(patterns[0], source) }}
	}
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close()
	swept, err := s.Prune(options)
	if err != nil {
		return fmt.Errorf("%s: %w", tensorfs.Printable(s.Dir()), err)
	}
	if options.Match != nil && swept == (cache.Swept{}) {
		return fmt.Errorf("no file in the cache matches %q; tensorfs cache list shows all", patterns[0])
	}
	left := ""
	if swept.InUse > 0 {
		left = fmt.Sprintf("; %s in use left", files(swept.InUse))
	}
	_, err = fmt.Fprintf(stdout, "%s removed, %s%s\n", files(swept.Entries), size(swept.Bytes), left)
	return err
}

// matchSource reports whether a source matches a glob or is below one that does.
func matchSource(glob, source string) bool {
	for _, g := range []string{glob, glob + "/*"} {
		if ok, _ := matchGlob(g, source); ok { // the caller looked at its form
			return true
		}
	}
	return false
}
