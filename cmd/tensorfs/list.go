package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/internal/rescue"
)

type listOptions struct {
	json bool
}

func (s system) list() *cobra.Command {
	o := &listOptions{}
	return s.command("list", between(0, 1), flags{"json": &o.json}, o.run)
}

// listedModel is a line of the list.
type listedModel struct {
	Name         string `json:"name"`  // below the mount point of the library
	Model        string `json:"model"` // as other commands take it
	Path         string `json:"path"`
	Format       string `json:"format,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	Parameters   *int64 `json:"parameters,omitempty"`
	Quant        string `json:"quant,omitempty"`
	Bytes        *int64 `json:"bytes,omitempty"`
	Error        string `json:"error,omitempty"`

	shown string // in the table
}

func (o *listOptions) run(cmd *cobra.Command, args []string) error {
	libraries, err := openLibraries(args)
	if err != nil {
		return err
	}
	rows := []listedModel{}
	var notes []string
	for _, l := range libraries {
		list := l.Now()
		models := slices.Clone(list.Models)
		if !o.json { // which has the order of names
			slices.SortStableFunc(models, func(a, b *library.Model) int { return near.Compare(a.Name, b.Name) })
		}
		rows = append(rows, describeAll(l, models)...)
		notes = append(notes, list.Warnings...)
	}
	if o.json {
		for _, note := range notes {
			rows = append(rows, listedModel{Error: note})
		}
		return cli.PrintJSON(cmd.OutOrStdout(), rows)
	}
	if len(rows) == 0 {
		notes = append(notes, "no models "+where(libraries, args))
	}
	return printModels(cmd.OutOrStdout(), rows, notes)
}

// where names the place that has no models.
func where(libraries []*library.Library, args []string) string {
	if len(args) > 0 {
		return "in " + tensorfs.Printable(args[0])
	}
	var names []string
	for _, l := range libraries {
		names = append(names, l.Name)
	}
	if names == nil {
		return "on this machine: there is no Ollama store (OLLAMA_MODELS) and no Hugging Face cache (HF_HOME); name a folder"
	}
	return "in " + strings.Join(names, " and ")
}

// openLibraries looks through the library that is named, or through all stores.
func openLibraries(args []string) (all []*library.Library, err error) {
	names := args
	if len(args) == 0 {
		names = library.Stores
	}
	for _, name := range names {
		l, err := library.Open(name, library.Options{Skip: isOurs})
		if len(args) == 0 && errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// describeAll opens the models of a library, on all cores, and describes them.
func describeAll(l *library.Library, models []*library.Model) []listedModel {
	rows := make([]listedModel, len(models))
	_ = parallel.Each(context.Background(), runtime.GOMAXPROCS(0), len(models), func(_ context.Context, i int) error {
		rows[i] = describeListed(l, models[i])
		return nil
	})
	return rows
}

func describeListed(l *library.Library, m *library.Model) (row listedModel) {
	row = listedModel{Name: m.Name, Model: m.Call, Path: m.Path(), shown: m.Call}
	if rel, err := filepath.Rel(l.Name, m.Call); err == nil && filepath.IsAbs(m.Call) {
		row.shown = rel
	}
	if err := row.describe(m); err != nil {
		row.Error = tensorfs.OneLine(err.Error())
	}
	return row
}

// describe opens a model and notes what it is.
func (row *listedModel) describe(m *library.Model) (err error) {
	defer rescue.To(&err, m.Path())
	opened, err := models.OpenListed(m, models.Options{})
	if err != nil {
		return err
	}
	defer opened.Close()
	info := describe.Model(opened.Model, m.Call)
	row.Format, row.Architecture, row.Parameters, row.Quant, row.Bytes = info.Format, info.Architecture, info.Parameters, info.Quant, &info.Bytes
	return nil
}

// The widths to which texts of a model are shortened.
const (
	widestArchitecture = 12
	widestQuant        = 12
	errorLines         = 3
)

// printModels prints the table and, below a model that cannot be opened, why.
func printModels(stdout io.Writer, rows []listedModel, notes []string) error {
	width := max(cli.Width(stdout), 40)
	t := cli.Table{Right: []bool{3: true, 5: true}, Spare: []int{1, 2}}
	if len(rows) > 0 {
		t.Add("NAME", "FORMAT", "ARCHITECTURE", "PARAMS", "QUANT", "SIZE")
	}
	for i := range rows {
		r := &rows[i]
		name := tensorfs.Printable(r.shown)
		if r.Error != "" {
			why := cli.Wrap(r.Error, width-2, errorLines)
			for k := range why {
				why[k] = "  " + why[k]
			}
			t.Rows = append(t.Rows, cli.TableRow{Cells: []string{name}, Below: why})
			continue
		}
		parameters := "-"
		if r.Parameters != nil {
			parameters = cli.About(*r.Parameters)
		}
		t.Add(name, r.Format, cli.Shorten(tensorfs.Printable(r.Architecture), widestArchitecture), parameters, shortQuant(r.Quant), cli.Size(*r.Bytes))
	}
	w := bufio.NewWriter(stdout)
	t.Print(w, width)
	for _, note := range notes {
		fmt.Fprintln(w, strings.Join(cli.Wrap(note, width, errorLines), "\n"))
	}
	return w.Flush()
}

// shortQuant is the part of a quantisation that the table has room for: what most
// parameters have, without what is in parentheses or after a comma.
func shortQuant(quant string) string {
	quant, _, _ = strings.Cut(strings.TrimPrefix(quant, "mostly "), " (")
	quant, _, _ = strings.Cut(quant, ",")
	return cli.Shorten(tensorfs.Printable(quant), widestQuant)
}
