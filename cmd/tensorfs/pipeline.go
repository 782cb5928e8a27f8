package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/describe"
)

// pipelineOf returns the pipeline of diffusers that a name leads to, or nil.
func pipelineOf(name string) *library.Pipeline {
	return library.OpenPipeline(name, library.Options{Skip: isOurs})
}

// printPipeline prints a pipeline for people.
func printPipeline(stdout io.Writer, info *describe.Pipeline) error {
	w := bufio.NewWriter(stdout)
	s := &infoScreen{width: max(cli.Width(stdout), cli.Narrowest), out: w}
	s.line("name", info.Name)
	s.line("path", info.Path)
	s.line("pipeline", info.Class)
	var without, missing []string
	t := cli.Table{Right: []bool{2: true, 4: true, 5: false}, Spare: []int{3, 2}}
	t.Add("PART", "CLASS", "PARAMS", "QUANT", "SIZE", "WHOLE MODELS")
	for i := range info.Parts {
		switch p := &info.Parts[i]; {
		case p.Error != "":
			why := cli.Wrap(p.Error, s.width-2, errorLines)
			for k := range why {
				why[k] = "  " + why[k]
			}
			t.Rows = append(t.Rows, cli.TableRow{Cells: []string{tensorfs.Printable(p.Name)}, Below: why})
		case p.Info != nil:
			parameters, class := "-", "-"
			if p.Info.Parameters != nil {
				parameters = cli.About(*p.Info.Parameters)
			}
			if p.Class != "" {
				class = tensorfs.Printable(p.Class)
			}
			t.Add(tensorfs.Printable(p.Name), class, parameters, shortQuant(p.Info.Quant), cli.Size(p.Info.Bytes), p.WholeModels())
		case p.Missing:
			missing = append(missing, fmt.Sprintf("%s (%s)", tensorfs.Printable(p.Name), tensorfs.Printable(p.Class)))
		default:
			without = append(without, fmt.Sprintf("%s (%s)", tensorfs.Printable(p.Name), tensorfs.Printable(p.Class)))
		}
	}
	fmt.Fprintln(w)
	t.Print(w, s.width)
	fmt.Fprintln(w)
	const lines = 4
	if without != nil {
		s.row("no weights", lines, "%s", strings.Join(without, ", "))
	}
	if missing != nil {
		s.row("missing", lines, "%s", strings.Join(missing, ", "))
	}
	for _, warning := range info.Warnings {
		s.row("warning", 2, "%s", warning)
	}
	s.row("one part", 2, "tensorfs info %s/%s", conceal.Printable(strings.TrimSuffix(info.Model, "/")), tensorfs.Printable(firstModel(info.Parts)))
	return w.Flush()
}

// firstModel returns the name of the first part that is a model.
func firstModel(parts []describe.PipelinePart) string {
	i := slices.IndexFunc(parts, func(p describe.PipelinePart) bool { return p.Info != nil || p.Error != "" })
	return parts[max(i, 0)].Name
}

// comparedPart is a part in the output of diff --json for two pipelines.
type comparedPart struct {
	Part   string `json:"part"`
	OnlyIn string `json:"only_in,omitempty"` // A or B
	Report any    `json:"report,omitempty"`
}

// parts compares two pipelines part by part.
func (o *diffOptions) parts(cmd *cobra.Command, a, b *library.Pipeline, glob string) error {
	stdout, equal, rows := cmd.OutOrStdout(), true, []comparedPart{}
	for i, name := range partNames(a, b) {
		x, y := a.Model(name), b.Model(name)
		row := comparedPart{Part: name}
		if x == nil || y == nil {
			equal = false
			row.OnlyIn = "A"
			if x == nil {
				row.OnlyIn = "B"
			}
		}
		if !o.json {
			head := "==> " + tensorfs.Printable(name) + " <=="
			if i > 0 {
				head = "\n" + head
			}
			if row.OnlyIn != "" {
				head += "\nonly in " + row.OnlyIn
			}
			if _, err := fmt.Fprintln(stdout, head); err != nil {
				return cli.IgnorePipe(err)
			}
		}
		if row.OnlyIn == "" {
			r, err := o.compare(cmd.Context(), cmd.ErrOrStderr(), x.Call, y.Call, glob)
			if err == nil && o.json {
				row.Report = r.JSON()
			} else if err == nil {
				err = cli.IgnorePipe(r.Print(stdout, o.all))
			}
			if err != nil {
				return outcome(err, false)
			}
			equal = equal && r.Equal()
		}
		rows = append(rows, row)
	}
	var err error
	if o.json {
		err = cli.PrintJSON(stdout, struct {
			Equal bool           `json:"equal"`
			Parts []comparedPart `json:"parts"`
		}{equal, rows})
	}
	return outcome(err, equal)
}

// partNames returns the names of the models of two pipelines, each once, sorted.
func partNames(a, b *library.Pipeline) (names []string) {
	for _, p := range []*library.Pipeline{a, b} {
		for _, m := range p.Now().Models {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
