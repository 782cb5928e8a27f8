package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/stat"
	"github.com/tensorfs/tensorfs/internal/verify"
)

type statOptions struct {
	modelFlags
	json   bool
	opened func() // called with the model open; nil but for tests
}

func (s system) stat() *cobra.Command {
	o := &statOptions{}
	args := between(1, maxModels)
	c := s.command("stat", args, flags{"json": &o.json}, o.run)
	o.addReading(s, c)
	return c
}

func (o *statOptions) run(cmd *cobra.Command, args []string) error {
	models, want, err := o.split(args)
	if err != nil {
		return err
	}
	if _, err := cli.MatchGlob(want, ""); err != nil {
		return cli.UsageError{Err: err}
	}
	if len(models) == 1 {
		list, err := o.measureOne(cmd, models[0], want, nil)
		if err == nil && o.json {
			err = cli.PrintJSON(cmd.OutOrStdout(), list)
		}
		return err
	}
	failed := false
	all := []statModel{}
	for i, model := range models {
		list, err := o.measureOne(cmd, model, want, func() { // as head and tail print several files
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "==> %s <==\n", conceal.Printable(model))
		})
		if err != nil { // the remaining models are still described
			failed = true
			cli.PrintError(cmd.ErrOrStderr(), err, args)
			continue
		}
		all = append(all, statModel{conceal.Name(model), list})
	}
	if o.json {
		if err := cli.PrintJSON(cmd.OutOrStdout(), all); err != nil {
			return err
		}
	}
	if failed {
		return cli.Reported{Err: errors.New("some models are not described")}
	}
	return nil
}

// statModel is one of several models.
type statModel struct {
	Model   string         `json:"model"`
	Tensors []stat.RowJSON `json:"tensors"`
}

// split tells models from the NAME or GLOB after them: what is there, or names one in a store,
// is a model. Of two words the second one is a NAME where the first has such a tensor.
func (o *statOptions) split(args []string) (models []string, want string, err error) {
	models = args[:1]
	for i, word := range args[1:] {
		_, missing := os.Lstat(word)
		isModel := missing == nil || formats.IsName(word)
		switch last := i == len(args)-2; {
		case isModel && len(args) == 2:
			t, err := o.open(args[0])
			if err != nil { // which is said when it is opened again
				return models, word, nil
			}
			_, one, err := stat.Select(t.Model, args[0], word)
			t.Model.Close()
			if err == nil && one {
				return models, word, nil
			}
			models = args
		case isModel:
			models = args[:i+2]
		case last:
			want = word
		default:
			return nil, "", cli.UsageError{Err: fmt.Errorf("%s: no such model; stat takes models and then one NAME or GLOB: 'layers.0.*' in quotes selects several tensors", tensorfs.Quote(word))}
		}
	}
	return models, want, nil
}

// measureOne describes the tensors of a model. head runs before anything is printed; may be nil.
func (o *statOptions) measureOne(cmd *cobra.Command, model, want string, head func()) ([]stat.RowJSON, error) {
	t, err := o.open(model)
	if err != nil {
		return nil, err
	}
	defer t.Model.Close()
	if o.opened != nil {
		o.opened()
	}
	rows, one, err := stat.Select(t.Model, model, want)
	if err != nil {
		return nil, err
	}
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	progress, err := stat.Measure(ctx, cmd.ErrOrStderr(), rows, one, o.checked.Tree.Views)
	if err := verify.FinishRead(ctx, progress, err, conceal.Printable(model), "numbers", t.Model); err != nil {
		return nil, err
	}
	if o.json {
		list := []stat.RowJSON{}
		for _, r := range rows {
			list = append(list, r.JSON())
		}
		return list, nil
	}
	if head != nil {
		head()
	}
	if one {
		return nil, cli.IgnorePipe(rows[0].Print(cmd.OutOrStdout()))
	}
	return nil, cli.IgnorePipe(stat.Print(cmd.OutOrStdout(), rows))
}
