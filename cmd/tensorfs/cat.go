package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

type catOptions struct{ modelFlags }

func catCommand() *cobra.Command {
	o := &catOptions{}
	c := &cobra.Command{
		Use:   "cat MODEL PATH",
		Short: "Print one file of a model's tree without mounting it",
		Long: `cat writes one file of the tree to standard output. PATH is a path as printed
by tensorfs ls. gguf/model.gguf is the whole model as one GGUF file, so this
converts a model:

  tensorfs cat --gguf-type q8_0 DIRECTORY gguf/model.gguf > model.gguf`,
		Example: `  tensorfs cat model.gguf config.json
  tensorfs cat model.gguf f16/output_norm.weight | od -A d -t x2 | head`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.OutOrStdout(), args[0], args[1]) },
	}
	o.add(c)
	return c
}

func (o *catOptions) run(stdout io.Writer, model, path string) error {
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	path = strings.Trim(path, "/")
	e, err := fs.Find(t.Root, path)
	if shown, unquoted := strconv.Unquote(path); err != nil && unquoted == nil { // as ls prints what is not printable
		path = strings.Trim(shown, "/")
		e, err = fs.Find(t.Root, path)
	}
	if err != nil {
		why := t.WhyAbsent(path)
		if why != "" {
			view, _, _ := strings.Cut(path, "/")
			why = fmt.Sprintf(" (%s/ leaves it out: %s)", view, tensorfs.OneLine(why))
		}
		return fmt.Errorf("%s in the tree of %s; tensorfs ls %s shows the paths%s", err, tensorfs.Printable(model), tensorfs.Printable(model), why)
	}
	switch {
	case e.Dir != nil:
		return fmt.Errorf("%s is a directory; tensorfs ls %s '%s/*' lists it", path, tensorfs.Printable(model), path)
	case e.Link != "":
		return catFile(stdout, e.Link)
	}
	return copyData(stdout, e.Data)
}

func catFile(stdout io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(stdout, f)
	return ignorePipe(err)
}

// copyData writes all of d.
func copyData(stdout io.Writer, d tensorfs.Data) error {
	b := make([]byte, min(1<<20, max(d.Size(), 1)))
	for off := int64(0); off < d.Size(); {
		n := min(int64(len(b)), d.Size()-off)
		if err := tensorfs.ReadFull(d, b[:n], off); err != nil {
			return err
		}
		if _, err := stdout.Write(b[:n]); err != nil {
			return ignorePipe(err)
		}
		off += n
	}
	return nil
}

// ignorePipe lets a reader like head stop early.
func ignorePipe(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
