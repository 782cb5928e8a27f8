package ollama

import (
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs/formats/names"
)

// labelConfig is the label of the manifest's config, which is no layer.
const labelConfig = "image-config"

// lastOne has the kinds of which Ollama uses the last layer only, with their labels.
var lastOne = map[kind]string{
	kindModel:    "model.gguf",
	kindDraft:    "draft.gguf",
	kindTemplate: "template",
	kindSystem:   "system",
	kindParams:   "params",
	kindMessages: "messages",
}

// severalOf has the kinds of which every layer counts, with what stands before
// and behind the number of the second and later ones in their labels.
var severalOf = map[kind][2]string{
	kindProjector: {"projector", ".gguf"},
	kindAdapter:   {"adapter", ".gguf"},
	kindLicense:   {"license", ""},
}

// labels returns the names of the layers below source/, "" for layers that are
// not used. Names with .json at the end are those of json layers only.
func (m *manifest) labels() []string {
	labels := make([]string, len(m.layers))
	last := make(map[kind]int)
	count := make(map[kind]int)
	for i := range m.layers {
		l := &m.layers[i]
		label, single := lastOne[l.kind]
		parts, several := severalOf[l.kind]
		switch {
		case single:
			if j, ok := last[l.kind]; ok {
				labels[j] = ""
			}
			last[l.kind] = i
			labels[i] = label
		case several:
			labels[i] = parts[0] + nth(count[l.kind]) + parts[1]
			count[l.kind]++
		case l.kind == kindTensor:
			labels[i] = "tensors/" + names.Escape(l.name) + ".safetensors"
		case strings.HasSuffix(l.name, ".json"): // others are not written by Ollama
			elems := strings.Split(l.name, "/")
			for k, e := range elems {
				elems[k] = names.Escape(e)
			}
			labels[i] = strings.Join(elems, "/")
		}
	}
	return labels
}

// nth is what tells the second and later ones of something apart: .1, .2, ...
func nth(i int) string {
	if i == 0 {
		return ""
	}
	return "." + strconv.Itoa(i)
}
