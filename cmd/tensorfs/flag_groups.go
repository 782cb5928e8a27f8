package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// flagGroup is flags that help and manual list under a title of their own.
type flagGroup struct{ title, names string }

// flagGroups places each flag that several commands have, all flags of mount and the
// related ones of info. Other flags are a command's own, and come first.
var flagGroups = []flagGroup{
	{"What is shown", "views lora set unset dequantise mmproj i2s follow-links"},
	{"Types in gguf/", "gguf-type pure tensor-type tensor-types-from imatrix requantise"},
	{"Types in mlx/", "mlx-bits mlx-group mlx-mode mlx-recipe mlx-device"},
	{"Memory in llama.cpp", "context parallel unified cache-type-k cache-type-v swa-full batch ubatch flash-attn outputs gpu"},
	{"The mount", "as on-demand allow-orgs foreground option backend allow-other nonempty no-mkdir no-passthrough read-ahead"},
	{"The server", "warm log debug max-open idle takeover secrets"},
	{"Models on other machines", "offline remote cache cache-size timeout connections download plain-http"},
}

// grouped returns the flags of a command as they are listed: its own, without a title, and
// then each group that it has flags of.
func grouped(all *pflag.FlagSet) (titles []string, sets []*pflag.FlagSet) {
	titles = []string{""}
	for _, g := range flagGroups {
		titles = append(titles, g.title)
	}
	for range titles {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.SortFlags = all.SortFlags
		sets = append(sets, set)
	}
	all.VisitAll(func(f *pflag.Flag) { sets[1+groupOf(f.Name)].AddFlag(f) })
	for i := len(sets) - 1; i > 0; i-- {
		if !sets[i].HasAvailableFlags() {
			titles, sets = slices.Delete(titles, i, i+1), slices.Delete(sets, i, i+1)
		}
	}
	return titles, sets
}

// groupOf is the place of a flag's group in flagGroups, -1 for none.
func groupOf(name string) int {
	return slices.IndexFunc(flagGroups, func(g flagGroup) bool { return slices.Contains(strings.Fields(g.names), name) })
}
