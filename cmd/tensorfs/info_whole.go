package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/views/tree"
)

// wholeInfo describes a directory of whole-model files.
type wholeInfo struct {
	Name  string
	Files *convert.Files
}

// MarshalJSON returns the content of tensorfs.json, and the directory's name.
func (w wholeInfo) MarshalJSON() ([]byte, error) {
	name, err := json.Marshal(w.Name)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"name":`), name, []byte(","), w.Files.Describe()[1:]), nil
}

func describeWhole(t *tree.Tree) (all []wholeInfo) {
	for _, w := range t.Whole {
		all = append(all, wholeInfo{w.Name, w.Files()})
	}
	return all
}

// line describes it in a line: "model.gguf, 1.2 GiB, exact (226 Q4_1, 65 F32)".
func (w wholeInfo) line() string {
	f := w.Files
	if f.Reason != "" {
		return "left out: " + tensorfs.OneLine(f.Reason)
	}
	total := int64(0)
	for _, x := range f.List {
		total += x.Data.Size()
	}
	files := fmt.Sprintf("%d files", len(f.List))
	if len(f.List) == 1 {
		files = f.List[0].Path
	}
	types := slices.SortedFunc(maps.Keys(f.Types), func(a, b string) int { return cmp.Or(f.Types[b]-f.Types[a], strings.Compare(a, b)) })
	for i, t := range types {
		types[i] = fmt.Sprintf("%d %s", f.Types[t], t)
	}
	exact := "exact"
	if !f.Exact {
		exact = "rounded"
	}
	line := fmt.Sprintf("%s, %s, %s", tensorfs.Printable(files), cli.Size(total), exact)
	if f.BitsPerWeight > 0 {
		line += fmt.Sprintf(", %.2f bits per weight", f.BitsPerWeight)
	}
	if len(types) > 0 {
		line += " (" + strings.Join(types, ", ") + ")"
	}
	return line
}

// allTypes is what --gguf-type is to be for a table of all sizes.
const allTypes = "all"

// printSizes prints how large gguf/ would be with each type.
func (o *infoOptions) printSizes(cmd *cobra.Command, path string) error {
	if o.AsksMLX() {
		return cli.UsageError{Err: errors.New("--gguf-type all prints only sizes of gguf/; leave the flags about mlx/ out")}
	}
	types := modelFlags{Options: models.Options{Convert: models.Convert{GGUFType: preset.All[0].Name, Pure: o.Pure, TensorTypes: o.TensorTypes, Requantise: o.Requantise, Imatrix: o.Imatrix}}}
	if err := types.check(); err != nil {
		return err
	}
	o.GGUFType, o.Pure, o.TensorTypes, o.Requantise, o.Imatrix = "", false, nil, false, ""
	t, err := o.open(path)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	if err := types.checked.WrongImportance(t.Model); err != nil {
		return err
	}
	sizes, made, err := convert.Sizes(t.Model, types.checked.Tree.Whole, preset.All)
	switch {
	case err != nil:
		return fmt.Errorf("%s: gguf/ is left out: %w", cli.PrintableName(path), err)
	case len(sizes) == 0:
		return fmt.Errorf("%s: --gguf-type all: no type changes anything: its weights are quantised already; name a model in F16, BF16 or F32, or add --requantise", cli.PrintableName(path))
	}
	list, err := o.memory.ofSizes(made, sizes)
	if err != nil {
		return fmt.Errorf("%s: %w", cli.PrintableName(path), err)
	}
	if o.json {
		return cli.PrintJSON(cmd.OutOrStdout(), struct {
			Model string        `json:"model"`
			Sizes []sizedMemory `json:"sizes"`
		}{conceal.Name(path), list})
	}
	slices.SortStableFunc(list, func(a, b sizedMemory) int { return cmp.Compare(a.Bytes, b.Bytes) })
	out := bufio.NewWriter(cmd.OutOrStdout())
	head := "type         gguf/model.gguf  bits per weight"
	if o.memory.asked {
		head += "        read    repacked       total"
	}
	fmt.Fprintln(out, head)
	for _, s := range list {
		fmt.Fprintf(out, "%-11s  %15s  %15.2f", s.Name, cli.Size(s.Bytes), s.BitsPerWeight)
		if n := s.Memory; n != nil {
			fmt.Fprintf(out, "  %10s  %10s  %10s", cli.Size(n.Resident), cli.Size(n.Repacked), cli.Size(n.Total))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}
