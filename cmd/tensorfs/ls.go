package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	iofs "io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs"
)

type lsOptions struct {
	modelFlags
	long, json bool
}

func lsCommand() *cobra.Command {
	o := &lsOptions{}
	c := &cobra.Command{
		Use:   "ls [-l | --json] MODEL [GLOB]",
		Short: "List the tree of a model without mounting it",
		Long: `ls prints the files and links that a mount of MODEL would show, one path per line.
A path with unprintable characters is quoted; cat accepts the quoted form.
GLOB selects paths: * matches any characters (slashes too), ? matches one,
[abc] matches one of a set.`,
		Example: `  tensorfs ls model.gguf
  tensorfs ls -l model.gguf 'f16/*attention*'
  tensorfs ls --json model.gguf 'raw/*'`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.long && o.json {
				return usageError{fmt.Errorf("-l and --json exclude each other")}
			}
			glob := "*"
			if len(args) == 2 {
				glob = args[1]
			}
			return o.run(cmd.OutOrStdout(), args[0], glob)
		},
	}
	c.Flags().BoolVarP(&o.long, "long", "l", false, "print bytes, dtype and shape before the path")
	c.Flags().BoolVar(&o.json, "json", false, "print a JSON array of objects: path, bytes, dtype, shape, link")
	o.add(c)
	return c
}

// skipUnmatched returns iofs.SkipDir for a directory in which no path can match a
// glob, so that gguf/ is not made to list raw/.
func skipUnmatched(glob, dir string) error {
	literal, dir := glob, dir+"/"
	if i := strings.IndexAny(glob, `*?[\`); i >= 0 {
		literal = glob[:i]
	}
	if strings.HasPrefix(dir, literal) || strings.HasPrefix(literal, dir) {
		return nil
	}
	return iofs.SkipDir
}

// lsRow is one line of the listing.
type lsRow struct {
	Path  string          `json:"path"`
	Bytes *int64          `json:"bytes,omitempty"`
	DType string          `json:"dtype,omitempty"`
	Shape json.RawMessage `json:"shape,omitempty"`
	Link  string          `json:"link,omitempty"`
}

func (o *lsOptions) run(stdout io.Writer, model, glob string) error {
	if _, err := matchGlob(glob, ""); err != nil {
		return usageError{err}
	}
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	w := bufio.NewWriter(stdout)
	n := 0
	err = fs.Walk(t.Root, func(name string, e fs.Entry) error {
		if e.Dir != nil {
			return skipUnmatched(glob, name)
		}
		if ok, err := matchGlob(glob, name); !ok || err != nil {
			return err
		}
		n++
		switch {
		case o.json:
			b, err := json.Marshal(o.row(name, e))
			if err != nil {
				return err
			}
			open := ",\n"
			if n == 1 {
				open = "[\n"
			}
			_, err = fmt.Fprintf(w, "%s%s", open, escapeJSON(b))
			return err
		case o.long:
			r := o.row(name, e)
			size := int64(0)
			if r.Bytes != nil {
				size = *r.Bytes
			}
			suffix := ""
			if r.Link != "" {
				suffix = " -> " + tensorfs.Printable(r.Link)
			}
			_, err := fmt.Fprintf(w, "%14d  %-8s  %-20s  %s%s\n", size, orDash(r.DType), orDash(string(r.Shape)), tensorfs.Printable(name), suffix)
			return err
		}
		_, err := fmt.Fprintln(w, tensorfs.Printable(name))
		return err
	})
	if err == nil && o.json {
		if n == 0 {
			fmt.Fprint(w, "[")
		}
		fmt.Fprint(w, "\n]\n")
	}
	if err != nil {
		return err
	}
	if n == 0 && glob != "*" && !o.json {
		return fmt.Errorf("no path of the tree matches %q; tensorfs ls %s shows all", glob, tensorfs.Printable(model))
	}
	return w.Flush()
}

// row describes an entry. Only here are sizes asked for, because the size of a
// text takes rendering it.
func (o *lsOptions) row(path string, e fs.Entry) lsRow {
	r := lsRow{Path: path}
	if e.Link != "" {
		r.Link = e.Link
		return r
	}
	size := e.Data.Size()
	r.Bytes = &size
	if e.Attrs != nil {
		for _, a := range e.Attrs() {
			switch a.Name {
			case "user.tensorfs.dtype":
				r.DType = string(a.Value)
			case "user.tensorfs.shape":
				r.Shape = a.Value
			}
		}
	}
	return r
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// globPath turns a glob or a path into what path.Match takes, where * stands for
// slashes too: it knows none.
var globPath = strings.NewReplacer(`\\`, `\\`, `\[`, `\[`, "[!", "[^", "/", "\x00")

// matchGlob reports whether a path of the tree matches.
func matchGlob(glob, name string) (bool, error) {
	ok, err := path.Match(globPath.Replace(glob), strings.ReplaceAll(name, "/", "\x00"))
	if err != nil {
		return false, fmt.Errorf("glob %q: [ without ], or a backslash at the end", glob)
	}
	return ok, nil
}
