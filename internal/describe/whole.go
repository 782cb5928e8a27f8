package describe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/views/tree"
)

// wholeInfo describes a directory of whole-model files.
type wholeInfo struct {
	Name  string
	Files *convert.Files
}

// MarshalJSON returns the content of tensorfs.json, and the directory's name.
func (w wholeInfo) MarshalJSON() ([]byte, error) {
	name, err := json.Marshal(w.Name)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"name":`), name, []byte(","), w.Files.Describe()[1:]), nil
}

func describeWhole(t *tree.Tree) (all []wholeInfo) {
	for _, w := range t.Whole {
		all = append(all, wholeInfo{w.Name, w.Files()})
	}
	return all
}

// Line describes it in a line: "model.gguf, 1.2 GiB, exact (226 Q4_1, 65 F32)".
func (w wholeInfo) Line() string {
	f := w.Files
	if f.Reason != "" {
		return "left out: " + tensorfs.OneLine(f.Reason)
	}
	total := int64(0)
	for _, x := range f.List {
		total += x.Data.Size()
	}
	files := fmt.Sprintf("%d files", len(f.List))
	if len(f.List) == 1 {
		files = f.List[0].Path
	}
	types := slices.SortedFunc(maps.Keys(f.Types), func(a, b string) int { return cmp.Or(f.Types[b]-f.Types[a], strings.Compare(a, b)) })
	for i, t := range types {
		types[i] = fmt.Sprintf("%d %s", f.Types[t], t)
	}
	exact := "exact"
	if !f.Exact {
		exact = "rounded"
	}
	line := fmt.Sprintf("%s, %s, %s", tensorfs.Printable(files), cli.Size(total), exact)
	if f.BitsPerWeight > 0 {
		line += fmt.Sprintf(", %.2f bits per weight", f.BitsPerWeight)
	}
	if len(types) > 0 {
		line += " (" + strings.Join(types, ", ") + ")"
	}
	return line
}
