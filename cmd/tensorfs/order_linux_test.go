package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cli"
)

// layered is a model with a number of layers whose tensors are 1, or value in layer 7.
func layered(t *testing.T, layers int, value float64) string {
	t.Helper()
	tensors := map[string][]float64{}
	for i := range layers {
		v := 1.0
		if i == 7 {
			v = value
		}
		tensors[fmt.Sprintf("model.layers.%d.self_attn.o_proj.weight", i)] = []float64{v, 1}
	}
	return oneTensor(t, tensors)
}

// TestOrderOfLayers holds that commands show people layer 2 before layer 10, with
// whole names, on a narrow terminal too, and programs the order of bytes.
func TestOrderOfLayers(t *testing.T) {
	a, b, ones := layered(t, 12, 1), layered(t, 1, 1), []string{}
	for i := range 12 {
		ones = append(ones, fmt.Sprintf("layers.%d.attention.output.weight", i))
	}
	sorted := slices.Sorted(slices.Values(ones))
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"stat", a}, ones},
		{[]string{"diff", a, b}, ones[1:]},
		{[]string{"ls", a, "raw"}, ones},
		{[]string{"ls", "-l", a, "raw"}, ones},
		{[]string{"stat", "--json", a}, sorted},
		{[]string{"diff", "--json", a, b}, sorted},
		{[]string{"ls", "--json", a, "raw"}, sorted},
		{[]string{"cat", a, "index.json"}, sorted},
	} {
		check := func(how, out string) {
			t.Helper()
			var got []string
			for word := range strings.FieldsFuncSeq(out, func(r rune) bool { return strings.ContainsRune(" \n\",/", r) }) {
				if strings.HasPrefix(word, "layers.") && len(got) < len(c.want) && !slices.Contains(got, word) {
					got = append(got, word)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q %s: %s\nwant %s", c.args, how, got, c.want)
			}
		}
		_, out, _ := command(c.args...)
		check("in a pipe", out)
		if !strings.HasPrefix(c.args[1], "--") && c.args[0] != "cat" {
			for _, columns := range []uint16{40, 80, 200} {
				_, out, _ := onTerminal(t, columns, c.args...)
				check(fmt.Sprint("in ", columns, " columns"), out)
				for line := range strings.Lines(out) {
					if n := cli.Cells(strings.TrimSuffix(line, "\n")); n > int(columns) && !strings.Contains(line, "/") {
						t.Errorf("%q in %d columns: %q", c.args, columns, line)
					}
				}
			}
		}
	}
}
