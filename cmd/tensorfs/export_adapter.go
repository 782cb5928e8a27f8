package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// adapterForms are the values of --adapter: the layout of the base, and what makes the files.
var adapterForms = map[string]struct {
	layout, base string
	files        func(base *tensorfs.Model, a *adapter.Adapter, parts []lora.Part) (tensorfs.Entries, error)
}{
	"gguf": {"gguf", "a GGUF file of the base, such as gguf/model.gguf of its mount", lora.GGUF},
	"peft": {"hf", "the base as a directory of Hugging Face or MLX", lora.PEFT},
}

// exportAdapter writes the adapter of --lora in another form.
func (o *exportOptions) exportAdapter(cmd *cobra.Command, args []string) error {
	form, ok := adapterForms[o.to.adapter]
	switch {
	case !ok:
		return cli.UsageError{Err: fmt.Errorf("--adapter %s: want %s", tensorfs.Quote(o.to.adapter), near.Either([]string{"gguf", "peft"}))}
	case len(o.LoRA) != 1:
		return cli.UsageError{Err: errors.New("--adapter writes one adapter in another form; name it once with --lora")}
	}
	dir, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	t, err := o.openPlain(args[0])
	if err != nil {
		return err
	}
	defer t.Model.Close()
	if t.Model.Layout != form.layout {
		return tensorfs.Unsupported(t.Model.Path, "--adapter "+o.to.adapter+" takes names and the order of rows from the base, which has another format", "name "+form.base)
	}
	m, by, err := o.remote.open().Formats(context.Background()).OpenAdapter(o.LoRA[0])
	if err != nil {
		return fmt.Errorf("--lora: %w", err)
	}
	defer m.Close()
	parts, a, err := lora.Parts(t.Model, views.Options{I2S: o.I2S}, lora.Use{Model: m, Adapter: by})
	if err != nil {
		return fmt.Errorf("--lora: %w", err)
	}
	made, err := form.files(t.Model, a, parts)
	if err != nil {
		return fmt.Errorf("--adapter %s: %w", o.to.adapter, err)
	}
	var files []export.File
	for _, x := range made {
		files = append(files, export.File{Path: x.Name, Data: x.Data})
	}
	facts := []export.Fact{{What: "--adapter", Is: o.to.adapter}, {What: "scale", Is: fmt.Sprint(by.Scale)}, {What: factVersion, Is: version()}}
	var never []os.FileInfo
	for name, of := range map[string]*tensorfs.Model{"base": t.Model, "adapter": m} {
		more, own, err := sourceFacts(of, "file of the "+name+", ")
		if err != nil {
			return exportAdvice(err)
		}
		facts, never = append(facts, more...), append(never, own...)
	}
	slices.SortFunc(facts, func(a, b export.Fact) int { return strings.Compare(a.What, b.What) })
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	done, err := export.Run(ctx, dir, files, export.Options{Facts: facts, ModTime: m.ModTime, Jobs: o.jobs, Force: o.force, Never: never, Check: m.Check, Free: o.free})
	if err != nil {
		return exportAdvice(err)
	}
	if o.json {
		return cli.PrintJSON(cmd.OutOrStdout(), exportReport{Directory: dir, Files: done.Files, Bytes: done.Bytes, Written: done.Written})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), cli.Plural(done.Files, "file")+", "+cli.Size(done.Bytes))
	return err
}
