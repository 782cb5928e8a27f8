package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
	"github.com/tensorfs/tensorfs/internal/term"
)

type catOptions struct {
	modelFlags
	force bool
}

func catCommand() *cobra.Command {
	o := &catOptions{}
	c := &cobra.Command{
		Use:   "cat [-f] MODEL PATH",
		Short: "Print one file of a model's tree without mounting it",
		Long: `cat writes one file of the tree to standard output. PATH is a path as printed
by tensorfs ls. gguf/model.gguf is the whole model as one GGUF file, so this
converts a model:

  tensorfs cat --gguf-type q8_0 DIRECTORY gguf/model.gguf > model.gguf

Without --force, a file that is not text is not written to a terminal.`,
		Example: `  tensorfs cat model.gguf config.json
  tensorfs cat model.gguf f16/output_norm.weight | od -A d -t x2 | head`,
		Args: between(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.OutOrStdout(), args[0], args[1]) },
	}
	c.Flags().BoolVarP(&o.force, "force", "f", false, "write to a terminal even what is not text")
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
		return noPath(t, model, path)
	}
	guarded := term.Is(stdout) && !o.force
	switch {
	case e.Dir != nil:
		return fmt.Errorf("%s is a directory; tensorfs ls %s %s lists it", tensorfs.Printable(path), printableName(model), tensorfs.Printable(path))
	case e.Link != "":
		return catFile(stdout, path, e.Link, guarded)
	case guarded && (e.Attrs != nil || !isText(e.Data, e.Data.Size())): // every tensor has attributes, and could look like text
		return notText(path, e.Data.Size())
	}
	return copyData(stdout, e.Data)
}

// catFile writes the file that a link of the tree leads to.
func catFile(stdout io.Writer, path, link string, guarded bool) error {
	f, err := os.Open(link)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); guarded && err == nil && !isText(f, info.Size()) {
		return notText(path, info.Size())
	}
	_, err = io.Copy(stdout, f)
	return ignorePipe(err)
}

// notText is the error for a file that would leave a terminal in disorder.
func notText(path string, bytes int64) error {
	return fmt.Errorf("%s is not text (%s), and this is a terminal; add | od -t x1 | head to look at it, > FILE to keep it, or --force", tensorfs.Printable(path), size(bytes))
}

// isText reports whether a terminal can show a file, going by its beginning: it is
// UTF-8 without control characters.
func isText(f io.ReaderAt, size int64) bool {
	b := make([]byte, min(size, 64<<10))
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return true // so that writing it says what is wrong
	}
	for text := b[:n]; len(text) > 0; {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			return int64(len(b)) < size && !utf8.FullRune(text) // cut off by the end of b
		case unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r':
			return false
		}
		text = text[n:]
	}
	return true
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
