package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// repairReport is what --repair did to the copies of a model, in the output of --json.
type repairReport struct {
	Model     string   `json:"model"`
	Directory string   `json:"directory,omitempty"`
	Compared  int      `json:"compared"`
	Repaired  []string `json:"repaired"`
	Fetched   int64    `json:"fetched"`
	Error     string   `json:"error,omitempty"` // why it was not repaired
}

// mend fetches the broken copies of a model's files again: the copies in dir, or in the
// stores if dir is empty.
func (o *modelFlags) mend(ctx context.Context, model, dir string) (r remote.Repaired, err error) {
	if !formats.IsName(model) {
		return r, cli.UsageError{Err: fmt.Errorf("%s: the origin of a local file is not known; --repair takes a name, such as hf:ORG/NAME, and for a directory of hf download --local-dir its name and the directory", conceal.Printable(model))}
	}
	if err := o.check(); err != nil {
		return r, err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	if dir == "" {
		r, err = o.remote.open().Repair(ctx, model)
	} else {
		r, err = o.remote.open().RepairDirectory(ctx, model, dir)
	}
	if err != nil && ctx.Err() != nil {
		return r, fmt.Errorf("%s: interrupted; the same command goes on there", conceal.Printable(model))
	}
	return r, err
}

// mended is the line about what a repair did.
func mended(model string, r remote.Repaired) string {
	what := "none is broken"
	if n := len(r.Broken); n > 0 {
		what = fmt.Sprintf("%d broken, and fetched again (%s): %s", n, cli.Size(r.Bytes), tensorfs.Printable(strings.Join(r.Broken, ", ")))
	}
	return fmt.Sprintf("%s: %s compared, %s", conceal.Printable(model), cli.Plural(r.Compared, "digest"), what)
}

// repairDirectory repairs the files of a repository that "hf download --local-dir" put into a directory.
func (o *fetchOptions) repairDirectory(cmd *cobra.Command, model, dir string) error {
	if !o.repair {
		return cli.UsageError{Err: errors.New("a directory follows the model only with --repair; what is fetched is in the caches, and tensorfs export MODEL DIR hf writes a directory of it")}
	}
	if !strings.HasPrefix(model, hub.Prefix) {
		return cli.UsageError{Err: fmt.Errorf("%s: only directories of hf download --local-dir are repaired; name the repository, as in tensorfs fetch --repair hf:ORG/NAME %s", conceal.Printable(model), tensorfs.Printable(dir))}
	}
	o.remote.download = !o.remote.offline
	r, err := o.mend(cmd.Context(), model, dir)
	switch {
	case err != nil:
		return err
	case r.Compared == 0:
		return fmt.Errorf("%s: it has no file of %s whose download hf download --local-dir has noted there, and that was not written to since", tensorfs.Printable(dir), conceal.Printable(model))
	case o.json:
		return cli.PrintJSON(cmd.OutOrStdout(), repairReport{conceal.Printable(model), dir, r.Compared, append([]string{}, r.Broken...), r.Bytes, ""})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), cli.Folded(cmd.OutOrStdout(), mended(model, r)))
	return err
}

// repairLibrary repairs all models of a store, and goes on after one that cannot be.
func (o *fetchOptions) repairLibrary(cmd *cobra.Command, store string) error {
	if store != hub.Prefix && store != "ollama:" {
		return cli.UsageError{Err: fmt.Errorf("%s does not record where its files came from; --repair takes hf: or ollama: instead", store)}
	}
	o.remote.download = !o.remote.offline
	l, err := library.Open(store, library.Options{Skip: isOurs})
	if err != nil {
		return err
	}
	var names []string
	for _, m := range l.Now().Models {
		name := m.Call
		if n, err := hub.ParseName(strings.TrimPrefix(name, hub.Prefix)); err == nil && store == hub.Prefix {
			name = hub.Name{Repository: n.Repository, Revision: n.Revision}.String()
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	stdout, painter := cmd.OutOrStdout(), cli.PainterOf(cmd.OutOrStdout())
	const sound, repaired, failed = 0, 1, 2
	counts, err := eachModel(ctx, stdout, o.json, len(names), func(i int) (modelOutcome, error) {
		name := names[i]
		r, err := o.mend(ctx, name, "")
		if ctx.Err() != nil {
			return modelOutcome{}, errors.New("the same command begins again")
		}
		row, line, kind := repairReport{Model: name, Compared: r.Compared, Repaired: append([]string{}, r.Broken...), Fetched: r.Bytes}, mended(name, r), sound
		switch {
		case err != nil:
			kind = failed
			row.Error, line = modelFailed(name, err, painter.Paint(cli.Bad, "not repaired"))
		case len(r.Broken) > 0:
			kind = repaired
		}
		return modelOutcome{row, []string{line}, kind}, nil
	}, func(n [maxKinds]int) string {
		return fmt.Sprintf("%d repaired, %d sound, %d not repaired", n[repaired], n[sound], n[failed])
	})
	if err == nil && counts[failed] > 0 {
		return cli.Reported{Err: errors.New("not all models are repaired")}
	}
	return err
}
