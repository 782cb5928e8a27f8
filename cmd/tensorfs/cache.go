package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
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
		Short: "Show and prune the cache of remote files and converted models",
		Long: `The cache keeps what was read of models on other machines, in pieces of 128 KiB,
and what engines that open models themselves converted and were told to keep.
All programs of a user share it, and nothing in it is needed: what is removed is
fetched or converted again.

It is in the directory --cache DIR, else TENSORFS_CACHE, else tensorfs below
XDG_CACHE_HOME or ~/.cache; /var/cache/tensorfs for a service of root. The
directory has to be on a local disk. The cache takes a tenth of that disk, at
most 100 GB, and leaves a twentieth of it free. Converted models may take a
quarter of what is free besides.`,
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
		Args:  between(0, 0),
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
verified), whether a process has it open, and when it was used last. A converted
model is one line, with the model's path or name as its source.`,
		Args: between(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.list(cmd.OutOrStdout(), json) },
	}
	c.Flags().BoolVar(&json, "json", false, "print a JSON array of objects: source, bytes, cached, disk, whole, in_use, last_use, digest, converted")
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
		return printJSON(stdout, list)
	}
	yes := map[bool]string{true: "yes", false: "-"}
	disk := int64(0)
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CACHED\tSIZE\tWHOLE\tIN USE\tLAST USE\tSOURCE")
	for _, f := range list {
		disk += f.Disk
		note := ""
		if f.Converted {
			note = " (converted)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s%s\n", size(f.Cached), size(f.Bytes), yes[f.Whole], yes[f.InUse], f.LastUse.Local().Format(time.DateTime), tensorfs.Printable(f.Source), note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\n%s, %s on the disk\n", filesAndModels(nFiles, len(models)), size(disk))
	return err
}

// files counts files in words.
func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// filesAndModels counts both in words; of models only if there are any.
func filesAndModels(n, models int) string {
	switch models {
	case 0:
		return files(n)
	case 1:
		return files(n) + " and 1 converted model"
	}
	return fmt.Sprintf("%s and %d converted models", files(n), models)
}

type pruneOptions struct {
	*cacheOptions
	all  bool
	size byteSize
}

func cachePruneCommand(o *cacheOptions) *cobra.Command {
	p := &pruneOptions{cacheOptions: o}
	c := &cobra.Command{
		Use:        "prune [--all | --size SIZE | PATTERN]",
		SuggestFor: []string{"purge", "clean", "clear", "delete", "rm", "remove", "gc"},
		Short:      "Remove files and converted models from the cache",
		Long: `prune removes files and converted models from the cache that no process has
open: with --all each of them, with --size SIZE those that were not used for
longest until the cache has no more than SIZE, with PATTERN those whose source
(see tensorfs cache list) matches it or is below it. * matches any characters
(slashes too), ? matches one, [abc] matches one of a set. Without any of these it
brings the cache back to its usual limits.

What is in use stays, and is counted. --all also forgets what the names
of models stood for when they were opened last.`,
		Example: `  tensorfs cache prune --size 20G
  tensorfs cache prune hf:acme/tiny
  tensorfs cache prune '*.gguf'`,
		Args: between(0, 1),
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
	swept, models, err := prune(s, options)
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
	_, err = fmt.Fprintf(stdout, "%s removed, %s%s\n", filesAndModels(swept.Entries, models.Entries), size(swept.Bytes+models.Bytes), left)
	return err
}

// prune prunes remote files and converted models.
func prune(s *cache.Store, o cache.PruneOptions) (swept, models cache.Swept, err error) {
	c, err := s.Converted()
	if err != nil {
		return swept, models, err
	}
	ofModels := o
	if o.Size > 0 && o.Match == nil {
		if o.Size, ofModels.Size, err = shares(s, c, o.Size); err != nil {
			return swept, models, err
		}
	}
	if swept, err = s.Prune(o); err != nil {
		return swept, models, err
	}
	models, err = c.Prune(ofModels)
	return swept, models, err
}

// shares says how much of a size remote files and converted models take where both
// together keep what was used last.
func shares(s *cache.Store, c *cache.Converted, limit int64) (ofFiles, ofModels int64, err error) {
	list, err := s.List()
	if err != nil {
		return 0, 0, err
	}
	list = append(list, c.List()...)
	slices.SortStableFunc(list, func(a, b cache.Info) int { return b.LastUse.Compare(a.LastUse) })
	total := int64(0)
	for _, f := range list {
		if f.Converted && total+f.Disk <= limit {
			ofModels += f.Disk
		}
		total += f.Disk
	}
	return limit - ofModels, ofModels, nil
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
