package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/fs/tree"
)

type infoOptions struct {
	modelFlags
	json bool
}

func infoCommand() *cobra.Command {
	o := &infoOptions{}
	c := &cobra.Command{
		Use:   "info [--json] MODEL",
		Short: "Describe a model on one screen",
		Long: `info prints a model's format, architecture and dimensions, the types of its
tensors with their share of the bytes, and which views and whole-model files exist.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.OutOrStdout(), args[0]) },
	}
	c.Flags().BoolVar(&o.json, "json", false, "print a JSON object")
	o.add(c)
	return c
}

// typeShare adds up the tensors of one stored type.
type typeShare struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

// viewCount says how much of a model a view shows.
type viewCount struct {
	Name   string `json:"name"`
	Files  int    `json:"files"`
	Absent int    `json:"absent"`
}

type modelInfo struct {
	Path         string          `json:"path"`
	Format       string          `json:"format"`
	Architecture string          `json:"architecture"`
	Layout       string          `json:"layout"`
	Tensors      int             `json:"tensors"`
	Elements     int64           `json:"elements"`
	Bytes        int64           `json:"bytes"`
	Files        int             `json:"files"`
	MetadataKeys int             `json:"metadata_keys"`
	Types        []typeShare     `json:"types"`
	Views        []viewCount     `json:"views"`
	Whole        []wholeInfo     `json:"whole"`
	Config       json.RawMessage `json:"config"`
	Warnings     []string        `json:"warnings"`
}

func (o *infoOptions) run(stdout io.Writer, model string) error {
	t, err := o.open(model)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	info := describe(t)
	if o.json {
		return printJSON(stdout, info)
	}
	return info.print(stdout, t.Model.Config)
}

func describe(t *tree.Tree) *modelInfo {
	m := t.Model
	info := &modelInfo{
		Path: m.Path, Format: m.Format, Architecture: m.Architecture, Layout: m.Layout, Tensors: len(m.Tensors),
		Files: len(m.Sources), MetadataKeys: len(m.Metadata), Config: t.ConfigJSON(), Warnings: append([]string{}, m.Warnings...),
	}
	byType := map[string]*typeShare{}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		info.Bytes += t.Data.Size()
		if t.Owner == "" {
			n, _ := tensorfs.Elements(t.Numbers())
			info.Elements += n
		}
		name := storedType(t)
		s := byType[name]
		if s == nil {
			s = &typeShare{Type: name}
			byType[name] = s
		}
		s.Tensors++
		s.Bytes += t.Data.Size()
	}
	info.Types = []typeShare{}
	for _, s := range byType {
		info.Types = append(info.Types, *s)
	}
	slices.SortFunc(info.Types, func(a, b typeShare) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	})
	for _, v := range t.Views {
		info.Views = append(info.Views, viewCount{v.Name, v.Tensors.Len(), len(v.Absent)})
	}
	info.Whole = describeWhole(t)
	return info
}

// storedType names the type that a tensor is stored as; companions count as a
// part of their scheme.
func storedType(t *tensorfs.Tensor) string {
	switch q := t.Quant; {
	case t.Owner != "":
		return t.DType.String() + " (scales)"
	case q != nil && q.GroupSize > 0:
		return fmt.Sprintf("%s %d-bit, groups of %d", q.Mode, q.Bits, q.GroupSize)
	case q != nil:
		return t.DType.String() + " with scales"
	}
	return t.DType.String()
}

// screen is the maximum number of rows that info prints of a table, so that
// everything fits on one screen.
const screen = 12

func (info *modelInfo) print(stdout io.Writer, config []tensorfs.Field) error {
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	row := func(key, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", key, fmt.Sprintf(format, args...)) }
	row("model", "%s", tensorfs.Printable(info.Path))
	row("format", "%s", info.Format)
	row("architecture", "%s", tensorfs.Printable(info.Architecture))
	row("layout", "%s (%s)", info.Layout, tree.LayoutHelp[info.Layout])
	row("tensors", "%d tensors, %s numbers, %s", info.Tensors, count(info.Elements), size(info.Bytes))
	row("files", "%d, %d metadata keys", info.Files, info.MetadataKeys)
	if line := configLine(config); line != "" {
		row("config", "%s", line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(info.Types) > 0 {
		fmt.Fprintln(w, "\ntypes\ttensors\tbytes\tshare")
	}
	for i, s := range info.Types {
		if i == screen {
			fmt.Fprintf(w, "  and %d more\n", len(info.Types)-screen)
			break
		}
		fmt.Fprintf(w, "  %s\t%d\t%s\t%.1f %%\n", tensorfs.Printable(s.Type), s.Tensors, size(s.Bytes), 100*float64(s.Bytes)/float64(max(info.Bytes, 1)))
	}
	fmt.Fprintln(w, "\nviews\tfiles\tabsent\t")
	for _, v := range info.Views {
		fmt.Fprintf(w, "  %s/\t%d\t%d\t%s\n", v.Name, v.Files, v.Absent, tree.ViewHelp[v.Name])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nwhole models")
	for _, x := range info.Whole {
		fmt.Fprintf(w, "  %s/\t%s\n", x.Name, x.line())
	}
	for i, warning := range info.Warnings {
		if i == 0 {
			fmt.Fprintln(w, "\nwarnings")
		}
		if i == screen {
			fmt.Fprintf(w, "  and %d more\n", len(info.Warnings)-screen)
			break
		}
		fmt.Fprintf(w, "  %s\n", tensorfs.OneLine(warning))
	}
	return w.Flush()
}

// configFields are the fields that say most about a model's size.
var configFields = []string{"dim", "n_layers", "n_heads", "n_kv_heads", "head_dim", "ffn_dim", "vocab_size", "max_seq_len", "n_experts", "n_experts_used"}

func configLine(config []tensorfs.Field) string {
	var parts []string
	for _, name := range configFields {
		for _, f := range config {
			if f.Name == name && f.Value != int64(0) {
				parts = append(parts, fmt.Sprintf("%s %v", name, f.Value))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// size prints bytes with a unit of powers of 1024.
func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < 3 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[unit])
}

// count prints a number with a unit of powers of 1000.
func count(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	f, unit := float64(n)/1000, 0
	for f >= 1000 && unit < 3 {
		f, unit = f/1000, unit+1
	}
	return fmt.Sprintf("%.1f%c", f, "KMBT"[unit])
}
