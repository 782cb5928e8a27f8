package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/libdir"
	"github.com/tensorfs/tensorfs/internal/verify"
)

type catOptions struct {
	modelFlags
	force bool
}

func (s system) cat() *cobra.Command {
	o := &catOptions{}
	c := s.command("cat", between(2, 2, "cat prints one file; tensorfs export MODEL DIR PATTERN... writes several"), flags{"force": &o.force}, o.run)
	o.add(s, c)
	return c
}

func (o *catOptions) run(cmd *cobra.Command, args []string) error {
	model, path, stdout := args[0], cli.TreePath(args[1]), cmd.OutOrStdout()
	if path == "" || path == "." {
		return cli.UsageError{Err: fmt.Errorf("%s is the tree itself; tensorfs ls %s lists it", tensorfs.Quote(args[1]), conceal.Printable(model))}
	}
	if p := pipelineOf(model); p != nil {
		switch m, rest := p.At(path); {
		case m != nil && rest == "":
			return fmt.Errorf("%s is a directory; tensorfs ls %s lists it", tensorfs.Printable(path), conceal.Printable(m.Call))
		case m != nil:
			model, path = m.Call, rest
		case path == libdir.ReadmeName:
			_, err := io.WriteString(stdout, libraryReadme("library", p.Library))
			return cli.IgnorePipe(err)
		default:
			return fmt.Errorf("%s is not in the tree; tensorfs ls %s shows the paths", tensorfs.Printable(path), conceal.Printable(model))
		}
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	e, err := tensorfs.Find(t.Root, path)
	if shown, unquoted := strconv.Unquote(path); err != nil && unquoted == nil { // unprintable paths, as ls prints them
		path = strings.Trim(shown, "/")
		e, err = tensorfs.Find(t.Root, path)
	}
	if own, ok := describe.CanonicalPath(t.Model, path); err != nil && ok { // Hugging Face's or GGUF's name of a tensor
		if named, nerr := tensorfs.Find(t.Root, own); nerr == nil || t.WhyAbsent(own) != "" {
			path, e, err = own, named, nerr
		}
	}
	if err != nil {
		return noPath(t, model, path)
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	out := &output{ctx: ctx, stdout: stdout, stderr: cmd.ErrOrStderr(), name: conceal.Printable(model) + ", " + tensorfs.Printable(path)}
	guarded := cli.IsTerminal(stdout) && !o.force
	switch {
	case e.Dir != nil:
		return fmt.Errorf("%s is a directory; tensorfs ls %s %s lists it", tensorfs.Printable(path), conceal.Printable(model), tensorfs.Printable(path))
	case e.Link != "":
		return out.file(path, e.Link, guarded)
	case guarded && (e.Attrs != nil || !isText(e.Data, e.Data.Size())): // every tensor has attributes, and could look like text
		return notText(path, e.Data.Size())
	}
	return out.verified(t.Model, path, e.Data)
}

// output is where a file goes.
type output struct {
	ctx            context.Context // ended by Ctrl-C
	stdout, stderr io.Writer
	name           string
	written        counter
}

// counter counts what is written, and gives it to another, if there is one.
type counter struct {
	n    int64
	also io.Writer
}

func (c *counter) add(b []byte) {
	c.n += int64(len(b))
	if c.also != nil {
		_, _ = c.also.Write(b) // a hash, which never fails
	}
}

// verified writes a file of a model's tree, and fails if its fetched bytes are wrong. A
// whole file of the model is compared while it is written, because the cache may be too
// small to have all of it at the end.
func (o *output) verified(m *tensorfs.Model, path string, d tensorfs.Data) error {
	name, ok := strings.CutPrefix(path, "source/")
	want, u := verify.UnverifiedSource(m, name)
	if !ok || want == "" {
		err := o.data(d)
		if err == nil {
			_, err = verify.Confirm(o.ctx, m)
		}
		return err
	}
	h, sum := want.Hash(u.Bytes)
	o.written.also = h
	if err := o.data(d); err != nil {
		return err
	}
	if got := sum(); o.written.n == u.Bytes && got != want {
		_, err := verify.Confirm(o.ctx, m) // the cache forgets them, if it has all
		return cmp.Or(err, want.Differs(path, got))
	}
	return nil
}

// copy copies a file in parts, each by part, which returns 0 where it ends.
func (o *output) copy(total int64, part func(off int64) (int64, error)) error {
	stderr := o.stderr
	mode := os.ModeNamedPipe // or something else that no bar is drawn beside
	if f, ok := cli.File(o.stdout); ok && !cli.IsTerminal(f) {
		if info, err := f.Stat(); err == nil {
			mode = info.Mode()
		}
	}
	if mode&(os.ModeNamedPipe|os.ModeSocket) != 0 { // its reader may be on the same terminal
		stderr = io.Discard
	}
	progress := cli.ProgressLater(stderr, "cat", total)
	for off := int64(0); ; {
		n, err := part(off)
		progress.Add(n)
		off += n
		switch {
		case o.ctx.Err() != nil && off < total:
			progress.Clear()
			result := "what was written is not complete"
			if mode.IsRegular() {
				result = "the output file is not complete, and tensorfs does not know its name: remove it"
			}
			return progress.Interrupted(o.name, result)
		case err != nil || n == 0:
			progress.Clear()
			return cli.IgnorePipe(err)
		}
	}
}

// file writes the file that a link of the tree leads to.
func (o *output) file(path, link string, guarded bool) error {
	f, err := os.Open(link)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if guarded && !isText(f, info.Size()) {
		return notText(path, info.Size())
	}
	const part = 64 << 20 // at a time, so that the kernel may copy it
	return o.copy(info.Size(), func(int64) (int64, error) {
		return io.Copy(o.stdout, io.LimitReader(f, part))
	})
}

// notText is the error for a file that would leave a terminal in disorder.
func notText(path string, bytes int64) error {
	return fmt.Errorf("%s is not text (%s), and this is a terminal; add | od -t x1 | head to look at it, > FILE to keep it, or --force", tensorfs.Printable(path), cli.Size(bytes))
}

// isText reports whether a terminal can show a file, going by its beginning: it is
// UTF-8 without control characters.
func isText(f io.ReaderAt, size int64) bool {
	b := make([]byte, min(size, 64<<10))
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return true // so that writing it reports what is wrong
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

// data writes all of d.
func (o *output) data(d tensorfs.Data) error {
	b := make([]byte, min(1<<20, max(d.Size(), 1)))
	return o.copy(d.Size(), func(off int64) (int64, error) {
		n := min(int64(len(b)), d.Size()-off)
		if n == 0 {
			return 0, nil
		}
		if err := tensorfs.ReadFullContext(o.ctx, d, b[:n], off); err != nil {
			return 0, err
		}
		written, err := o.stdout.Write(b[:n])
		o.written.add(b[:written])
		return int64(written), err
	})
}
