package metal

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/views"
)

// wholeViews are the directories of whole-model files whose tensors are a view, under
// the names in those files. They are there without being asked for, and among no names
// of views: most programs want canonical names.
var wholeViews = map[string]func(*tensorfs.Model, convert.Options) *convert.Files{"hf": hf.HF, "mlx": hf.MLX}

// wholeTensors are the tensors of whole-model files.
type wholeTensors []safetensors.Entry

func (w wholeTensors) Len() int          { return len(w) }
func (w wholeTensors) Name(i int) string { return w[i].Name }

func (w wholeTensors) At(i int) tensorfs.Tensor {
	x := w[i]
	return tensorfs.Tensor{Name: x.Name, Source: x.Name, DType: x.DType, Shape: x.Shape, Data: x.Data}
}

// buildWhole makes such a view. Where the model has no such files, the reason is why any
// tensor is absent.
func (t *tree) buildWhole(name string) *view {
	files := wholeViews[name](t.model, t.requested.Options.Whole)
	list, reason := wholeTensors{}, files.Reason
	for _, f := range files.List {
		if reason != "" || !strings.HasSuffix(f.Path, ".safetensors") {
			continue
		}
		parsed, err := safetensors.Parse(f.Data)
		if err != nil {
			reason = f.Path + ": " + err.Error()
			continue
		}
		// A composed file is not the model's, so its own sections would be taken for
		// sections of a file that has its name.
		data := tensorfs.Whole(f.Data)
		for _, x := range parsed.Tensors {
			x.Data = tensorfs.Section(data, x.Offset, x.Data.Size())
			list = append(list, x)
		}
	}
	if reason != "" {
		list = nil
	}
	slices.SortFunc(list, func(a, b safetensors.Entry) int { return cmp.Compare(a.Name, b.Name) })
	v := newView(views.Built{Name: name, Tensors: list})
	v.reason = reason
	return v
}
