package ollama

import (
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs/formats/names"
)

// labelConfig is the label of the manifest's config, which is not a layer.
const labelConfig = "image-config"

// labels returns the names of the layers below source/, "" for layers that are
// not used. Only json layers have names that end in .json.
func (m *manifest) labels() []string {
	labels := make([]string, len(m.layers))
	count := make(map[layerKind]int)
	last := make(map[layerKind]int)
	for i := range m.layers {
		l := &m.layers[i]
		row := l.kind.row()
		switch {
		case l.kind == kindTensor:
			labels[i] = "tensors/" + names.Escape(l.name) + ".safetensors"
		case l.kind == kindJSON:
			if !strings.HasSuffix(l.name, ".json") { // not written by Ollama
				continue
			}
			elems := strings.Split(l.name, "/")
			for k, e := range elems {
				elems[k] = names.Escape(e)
			}
			labels[i] = strings.Join(elems, "/")
		default:
			labels[i] = row.name
			if j, ok := last[l.kind]; ok && row.last {
				labels[j] = ""
			} else if n := count[l.kind]; n > 0 {
				labels[i] += "." + strconv.Itoa(n)
			}
			if row.gguf {
				labels[i] += ".gguf"
			}
			last[l.kind] = i
			count[l.kind]++
		}
	}
	return labels
}
