package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
)

// allTypes is what --gguf-type is to be for a table of all sizes.
const allTypes = "all"

// printSizes prints how large gguf/ would be with each type.
func (o *infoOptions) printSizes(cmd *cobra.Command, path string) error {
	if o.AsksMLX() {
		return cli.UsageError{Err: errors.New("--gguf-type all prints only sizes of gguf/; leave the flags about mlx/ out")}
	}
	if o.TypesFrom != "" {
		return cli.UsageError{Err: errors.New("--gguf-type all prints the sizes of presets; leave --tensor-types-from out")}
	}
	any := slices.IndexFunc(preset.All, func(p preset.Preset) bool { return !(&preset.Options{Preset: p}).MayNeedImportance() })
	types := modelFlags{Options: models.Options{Convert: models.Convert{GGUFType: preset.All[any].Name, Pure: o.Pure, TensorTypes: o.TensorTypes, Requantise: o.Requantise, Imatrix: o.Imatrix}}}
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
		return fmt.Errorf("%s: gguf/ is left out: %w", conceal.Printable(path), err)
	case len(sizes) == 0:
		return fmt.Errorf("%s: --gguf-type all: no type changes anything: its weights are quantised already; name a model in F16, BF16 or F32, or add --requantise", conceal.Printable(path))
	}
	list, err := o.memory.ofSizes(made, sizes)
	if err != nil {
		return fmt.Errorf("%s: %w", conceal.Printable(path), err)
	}
	if o.json {
		return cli.PrintJSON(cmd.OutOrStdout(), struct {
			Model string        `json:"model"`
			Sizes []sizedMemory `json:"sizes"`
		}{conceal.Name(path), list})
	}
	slices.SortStableFunc(list, func(a, b sizedMemory) int { return cmp.Compare(a.Bytes, b.Bytes) })
	out := bufio.NewWriter(cmd.OutOrStdout())
	rows := cli.Table{Right: []bool{1: true, 2: true, 3: true, 4: true, 5: true}}
	head := []string{"type       ", "gguf/model.gguf", "bits per weight"}
	if o.memory.asked {
		head = append(head, "      read", "  repacked", "     total")
	}
	rows.Right = rows.Right[:len(head)]
	rows.Add(head...)
	for _, s := range list {
		cells := []string{s.Name, cli.Size(s.Bytes), fmt.Sprintf("%.2f", s.BitsPerWeight)}
		if n := s.Memory; n != nil {
			cells = append(cells, cli.Size(n.Resident), cli.Size(n.Repacked), cli.Size(n.Total))
		}
		rows.Add(cells...)
	}
	rows.Print(out, cli.TableWidth(cmd.OutOrStdout()))
	return out.Flush()
}
