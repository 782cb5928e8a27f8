package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/internal/verify"
)

type fetchOptions struct {
	modelFlags
	fetchHow
}

// fetchHow is what fetch is asked for.
type fetchHow struct {
	json      bool
	repair    bool // what is broken of the copies on this machine comes again
	forOthers bool // it fails if the programs of Hugging Face would not find the model
}

func (s system) fetch() *cobra.Command {
	o := &fetchOptions{}
	c := s.command("fetch", between(1, 2), flags{"json": &o.json, "repair": &o.repair, "lora": &o.LoRA}, o.run)
	o.remote.add(s, c)
	return c
}

// fetchReport is what fetch did.
type fetchReport struct {
	Model   string `json:"model"`   // as it was found
	Files   int    `json:"files"`   // on other machines
	Bytes   int64  `json:"bytes"`   // of them
	Fetched int64  `json:"fetched"` // bytes that came from servers, also to find the model
	Digests int    `json:"digests"` // files that were compared with one
	Cache   string `json:"cache"`   // its directory, "" where nothing is on another machine
	// HuggingFace is the cache of Hugging Face's own programs, if it has the model now.
	HuggingFace string `json:"hugging_face,omitempty"`
	// Repaired are the files of --repair that were broken, and came again. It is not null with --repair.
	Repaired []string `json:"repaired,omitzero"`
}

// farFiles returns a model's remote files.
func farFiles(m *tensorfs.Model) (list []verify.FarFile, err error) {
	for i := range m.Sources {
		if m.Sources[i].Local() {
			continue
		}
		d, err := m.File(m.Sources[i].Name)
		if err != nil {
			return nil, err
		}
		if f, ok := d.(verify.FarFile); ok {
			list = append(list, f)
		}
	}
	return list, nil
}

// fetched is how many files are fetched concurrently: each comes in several parts, small
// ones in one.
const fetched = 4

func (o *fetchOptions) run(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 2:
		return o.repairDirectory(cmd, args[0], args[1])
	case o.repair && slices.Contains(library.Stores, args[0]):
		return o.repairLibrary(cmd, args[0])
	}
	return o.fetch(cmd, args[0], o.fetchHow)
}

// fetch brings in a model and prints what it did.
func (o *modelFlags) fetch(cmd *cobra.Command, model string, how fetchHow) error {
	stdout := cmd.OutOrStdout()
	o.remote.download = !o.remote.offline // that is what fetch is for
	var repaired remote.Repaired
	if how.repair {
		var err error
		if repaired, err = o.mend(cmd.Context(), model, ""); err != nil {
			return err
		}
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	if how.forOthers && t.Model.Layout == "gguf" {
		return fmt.Errorf("%s: it has GGUF files, and hf/ of it is another model: choose another ORG/NAME", conceal.Printable(model))
	}
	list, err := farFiles(t.Model)
	if err != nil {
		return err
	}
	report := fetchReport{Model: t.Model.Path, Files: len(list), Fetched: repaired.Bytes}
	if how.repair {
		report.Repaired = append([]string{}, repaired.Broken...)
	}
	if !how.json && repaired.Compared > 0 {
		if _, err := fmt.Fprintln(stdout, cli.Folded(stdout, mended(model, repaired))); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		if report.Cache = o.remote.client.CacheDir(); report.Cache == "" {
			return errors.New("there is no cache on a disk to fetch into; name a local directory with --cache")
		}
	}
	for _, f := range list {
		report.Bytes += f.Size()
		if f.Digest() != "" {
			report.Digests++
		}
	}
	bar := cli.ProgressLater(cmd.ErrOrStderr(), "fetch", report.Bytes)
	if len(list) > 0 {
		before, _ := o.remote.client.Traffic()
		bar.From, bar.Moved = storedOf(list), func() int64 { now, _ := o.remote.client.Traffic(); return now - before }
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	err = fetchFiles(ctx, list, bar.Add)
	bar.Clear()
	if len(list) > 0 {
		report.Fetched, _ = o.remote.client.Traffic()
	}
	stored := storedOf(list)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted after %s of %s; the same command goes on there", conceal.Printable(model), cli.Size(stored), cli.Size(report.Bytes))
	case errors.Is(err, cache.ErrAbsent), err == nil && stored < report.Bytes:
		return fmt.Errorf("%s: only %s of its %s are on the disk: %s", conceal.Printable(model), cli.Size(stored), cli.Size(report.Bytes), noRoom(o.remote.client))
	case err != nil:
		return err
	}
	beside := ""
	if len(list) > 0 {
		if report.HuggingFace, err = o.remote.client.Share(ctx, model); err != nil {
			return fmt.Errorf("the model is in tensorfs's cache, but not in the cache of Hugging Face's programs: %w", err)
		}
	}
	if how.forOthers && len(list) > 0 && report.HuggingFace == "" {
		return fmt.Errorf("%s: it is in tensorfs's cache, but it is not a complete repository, or the Hugging Face cache cannot be written; name another ORG/NAME to write hf/ of it there", conceal.Printable(model))
	}
	if report.HuggingFace != "" {
		beside = ", also in the Hugging Face cache " + tensorfs.Printable(report.HuggingFace)
	}
	say := func(format string, args ...any) error {
		_, err := fmt.Fprintln(stdout, cli.Folded(stdout, fmt.Sprintf(format, args...)))
		return err
	}
	switch {
	case how.json:
		return cli.PrintJSON(stdout, report)
	case len(list) == 0 && formats.IsName(model):
		err = say("%s: all of it is on this machine, in %s", conceal.Printable(model), tensorfs.Printable(t.Model.Path))
	case len(list) == 0:
		err = say("%s: all of it is on this machine", conceal.Printable(model))
	default:
		err = say("%s, %s in the cache %s: %s fetched, %s compared%s", cli.Plural(report.Files, "file"), cli.Size(report.Bytes), tensorfs.Printable(report.Cache), cli.Size(report.Fetched), cli.Plural(report.Digests, "digest"), beside)
	}
	return err
}

// storedOf is how much of files is on the disk.
func storedOf(list []verify.FarFile) (n int64) {
	for _, f := range list {
		n += f.Stored()
	}
	return n
}

// noRoom explains why a cache did not keep everything, and what to do.
func noRoom(c *remote.Client) string {
	dir := tensorfs.Printable(c.CacheDir())
	if limit, full := c.CacheRoom(); !full {
		return fmt.Sprintf("the cache %s may have %s; give it more with --cache-size", dir, cli.Size(limit))
	}
	return fmt.Sprintf("the disk of the cache %s is full; make room on it, or name a directory on another with --cache", dir)
}

// fetchFiles fetches files, several concurrently, until one fails.
func fetchFiles(ctx context.Context, list []verify.FarFile, came func(n int64)) error {
	return parallel.Each(ctx, fetched, len(list), func(ctx context.Context, i int) error { return list[i].Verify(ctx, came) })
}
