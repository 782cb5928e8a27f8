package cli

import (
	"math"
	"strings"
	"testing"
)

// TestTable prints one table at widths of terminals, and into a pipe.
func TestTable(t *testing.T) {
	x := Table{Right: []bool{2: true}}
	x.Add("tensors (2)", "type", "max")
	x.Add("  layers.0.norm.weight", "F32", "0.5")
	x.Add("  layers.10.attention.output.weight", "F16 Q5_0", "-0.25")
	x.Rows[1].Below = []string{"    a note"}
	for _, c := range []struct {
		width int
		want  string
	}{
		{math.MaxInt, `
tensors (2)                          type        max
  layers.0.norm.weight               F32         0.5
    a note
  layers.10.attention.output.weight  F16 Q5_0  -0.25
`}, {51, `
tensors (2)                         type        max
  layers.0.norm.weight              F32         0.5
    a note
  layers.10.attention.output.weight
                                    F16 Q5_0  -0.25
`}, {40, `
tensors (2)              type        max
  layers.0.norm.weight   F32         0.5
    a note
  layers.10.attention.output.weight
                         F16 Q5_0  -0.25
`}, {25, `
tensors (2)
    type        max
  layers.0.norm.weight
    F32         0.5
    a note
  layers.10.attention.output.weight
    F16 Q5_0  -0.25
`}, {14, `
tensors (2)
    type
      max
  layers.0.norm.weight
    F32
      0.5
    a note
  layers.10.attention.output.weight
    F16 Q5_0
    -0.25
`}} {
		var b strings.Builder
		x.Print(&b, c.width)
		if got := "\n" + b.String(); got != c.want {
			t.Errorf("%d columns:%swant%s", c.width, got, c.want)
		}
	}
	names := Table{Right: []bool{true, false, false}, NameLast: true}
	names.Add("8192", "F16", "a/name of blanks")
	names.Add("5", "F16", "b")
	spare := Table{Right: []bool{3: true}, Spare: []int{2, 1}}
	spare.Add("name", "format", "architecture", "size")
	spare.Add("a/long/name", "gguf", "llama", "2 KiB")
	why := Table{Right: make([]bool, 2)}
	why.Add("class", "why")
	why.Add("a", "it has no tokenizer that a program reads")
	for _, c := range []struct {
		table *Table
		want  string
	}{{&spare, `
name
  format   size
a/long/name
  gguf    2 KiB
`}, {&names, `
8192  F16
  a/name of blanks
   5  F16  b
`}, {&why, `
class
  why
a
  it has no tokenizer
  that a program reads
`}} {
		var b strings.Builder
		c.table.Print(&b, 24)
		if got := "\n" + b.String(); got != c.want {
			t.Errorf("24 columns:%swant%s", got, c.want)
		}
	}
	var b strings.Builder
	(&Table{Right: make([]bool, 3)}).Print(&b, 80)
	if b.Len() > 0 {
		t.Errorf("no rows: %q", b.String())
	}
}
