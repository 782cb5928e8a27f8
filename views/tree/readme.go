package tree

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views"
)

// ViewHelp describes each view in a line, by the view's name.
var ViewHelp = map[string]string{
	"raw":       "the stored bytes, as in the model's files",
	"packed":    "for GPU kernels: blocks as stored, floats as F16",
	"f16":       "numbers in half precision, row-major",
	"bf16":      "numbers as bfloat16: fewer digits, the range of F32",
	"f32":       "numbers as F32, not rounded",
	"fused":     "q+k+v, gate+up, ... of packed/ as one matrix",
	"fused-f16": "the same groups of f16/",
	"npy":       "f16/ as NumPy files",
	"npy-f32":   "f32/ as NumPy files",
}

// layoutHelp explains Model.Layout if the order of rows depends on it.
var layoutHelp = map[string]string{
	"gguf": "rows of q and k in GGUF's order (rotary pairs 2i, 2i+1)",
	"hf":   "rows of q and k in Hugging Face's order (pairs i, i+D/2)",
}

// LayoutNote explains how the model's layout affects the rows of its tensors, "" if they
// are the same in both layouts.
func (t *Tree) LayoutNote() string {
	m := t.Model
	if !architectures.Reordered(m.Architecture, "layers.0.attention.q.weight") {
		return "" // most architectures, without a look at their tensors
	}
	for i := range m.Tensors {
		if architectures.Reordered(m.Architecture, m.Tensors[i].Weight()) {
			return layoutHelp[m.Layout]
		}
	}
	return ""
}

// examples are commands to try, and the views that they need.
var examples = []struct{ view, line string }{
	{"f16", "ls -l f16"},
	{"raw", "getfattr -d raw/* | head"},
	{"npy", `python3 -c 'import glob, numpy as np; f = sorted(glob.glob("npy/*.npy"))[0]; print(f, np.load(f, mmap_mode="r"))'`},
	{"f32", `python3 -c 'import glob, numpy as np; f = sorted(glob.glob("f32/*"))[0]; print(f, np.fromfile(f, "<f4"))'`},
}

// readme is the text of README in the tree. It does not name the mount point.
func readme(t *Tree) []byte {
	m := t.Model
	var b bytes.Buffer
	fmt.Fprintf(&b, "This directory is a model, shown as files by tensorfs. It is read-only.\n\n")
	fmt.Fprintf(&b, "model         %s\n", tensorfs.Printable(m.Path))
	fmt.Fprintf(&b, "format        %s\n", m.Format)
	fmt.Fprintf(&b, "architecture  %s\n", tensorfs.Printable(m.Architecture))
	for _, a := range m.Adapters {
		fmt.Fprintf(&b, "adapter       %s\n", tensorfs.Printable(a.String()))
	}
	layout := m.Layout
	if note := t.LayoutNote(); note != "" {
		layout += ": " + note
	}
	fmt.Fprintf(&b, "layout        %s\n", layout)
	fmt.Fprintf(&b, "tensors       %d\n\nViews have a file for each tensor, with the same name in each view:\n\n", len(m.Tensors))
	for _, v := range t.Views {
		fmt.Fprintf(&b, "  %-10s %6d files   %s\n", v.Name+"/", v.Tensors.Len(), ViewHelp[v.Name])
	}
	b.WriteString("\nThe whole model, as other programs load it (tensorfs.json lists the content):\n\n")
	for _, w := range t.Whole {
		fmt.Fprintf(&b, "  %-10s %s\n", w.Name+"/", WholeHelp[w.Name])
	}
	b.WriteString(`
Also:

  index.json      every file with its dtype, shape (row-major) and size, its name
                  and place in the model, and "may_overflow" if F16 may be
                  infinite; under "absent", what a view leaves out and why;
                  views/NAME.json is the same for one view
  config.json     the model's dimensions, in one schema for all formats
  metadata/       a file for each metadata key; metadata.json has them all
  source/         links to the files that the model consists of

To try in this directory:

`)
	for _, x := range examples {
		if slices.ContainsFunc(t.Views, func(v views.Built) bool { return v.Name == x.view }) {
			fmt.Fprintf(&b, "  %s\n", x.line)
		}
	}
	if len(m.Warnings) > 0 {
		b.WriteString("\nWarnings:\n\n")
		for _, w := range m.Warnings {
			fmt.Fprintf(&b, "  %s\n", tensorfs.OneLine(w))
		}
	}
	return b.Bytes()
}
