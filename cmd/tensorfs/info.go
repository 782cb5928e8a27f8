package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/describe"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/internal/verify"
)

type infoOptions struct {
	modelFlags
	json          bool
	architectures bool
	metadata      string // the glob of --metadata, "" without
	memory        memoryFlags
}

func (s system) info() *cobra.Command {
	o := &infoOptions{}
	args := func(c *cobra.Command, args []string) error {
		if o.architectures {
			return between(0, 0, "info --architectures takes no model")(c, args)
		}
		return between(1, maxModels)(c, args)
	}
	c := s.command("info", args, flags{"json": &o.json, "architectures": &o.architectures, "metadata": &o.metadata}, o.run)
	c.Flags().Lookup("metadata").NoOptDefVal = "*"
	o.add(s, c)
	o.memory.add(s, c)
	return c
}

func (o *infoOptions) run(cmd *cobra.Command, args []string) error {
	if o.architectures {
		return printArchitectures(cmd.OutOrStdout(), o.json)
	}
	if err := o.memory.check(cmd); err != nil {
		return err
	}
	if strings.EqualFold(o.GGUFType, allTypes) {
		if len(args) > 1 {
			return cli.UsageError{Err: errors.New("--gguf-type all is for one model")}
		}
		return o.printSizes(cmd, args[0])
	}
	if o.metadata == "*" && len(args) > 1 && strings.ContainsAny(args[0], "*?[") && !isPath(args[0]) { // the glob without =
		o.metadata, args = args[0], args[1:]
	}
	all := []any{}
	failed := false
	for i, name := range args {
		info, err := o.printOne(cmd.OutOrStdout(), name, i > 0 && !o.json, len(args) > 1)
		switch {
		case err != nil && len(args) == 1:
			return err
		case err != nil: // the remaining models are still described
			failed = true
			cli.PrintError(cmd.ErrOrStderr(), err, args)
		default:
			all = append(all, info)
		}
	}
	if o.json {
		var what any = all
		if len(args) == 1 {
			what = all[0]
		}
		if err := cli.PrintJSON(cmd.OutOrStdout(), what); err != nil {
			return err
		}
	}
	if failed {
		return cli.Reported{Err: errors.New("some models are not described")}
	}
	return nil
}

// maxModels is how many models a command takes at a time.
const maxModels = 10_000

// printOne describes a model: on a screen, below others after an empty line, or as the JSON that it returns.
func (o *infoOptions) printOne(stdout io.Writer, name string, below, several bool) (what any, err error) {
	defer rescue.To(&err, conceal.Printable(name))
	if p := pipelineOf(name); p != nil && o.metadata == "" && !o.memory.asked && len(o.LoRA) == 0 { // which are about one model
		return o.printPipeline(stdout, p, name, below)
	}
	t, err := o.open(name)
	if err != nil {
		return nil, err
	}
	defer t.Model.Close()
	if o.metadata != "" {
		if err := o.separate(stdout, below); err != nil {
			return nil, err
		}
		return o.printMetadataOf(stdout, t.Model, conceal.Name(name), several)
	}
	info := describe.Tree(t, conceal.Name(name))
	info.Unverified = verify.UnverifiedOf(t.Model)
	need, err := o.memory.of(t, !o.json)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", conceal.Printable(name), err)
	}
	if need != nil {
		info.Memory.Need = need.Need
		info.Warnings = append(info.Warnings, need.Warnings...)
	}
	if o.json { // now, while the model is open
		text, err := json.Marshal(info)
		return json.RawMessage(text), err
	}
	if err := o.separate(stdout, below); err != nil {
		return nil, err
	}
	return nil, (&infoScreen{info: info, memory: need, config: t.Model.Config, width: max(cli.Width(stdout), cli.Narrowest)}).print(stdout)
}

// separate prints an empty line above a model that is below others.
func (o *infoOptions) separate(stdout io.Writer, below bool) error {
	if !below {
		return nil
	}
	_, err := fmt.Fprintln(stdout)
	return err
}

// printPipeline is printOne for a pipeline of diffusers.
func (o *infoOptions) printPipeline(stdout io.Writer, p *library.Pipeline, name string, below bool) (what any, err error) {
	info, err := describe.PipelineOf(p, name, o.openListed)
	if err != nil || o.json {
		return info, err
	}
	if err := o.separate(stdout, below); err != nil {
		return nil, err
	}
	return nil, printPipeline(stdout, info)
}
