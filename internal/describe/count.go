package describe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
)

// isParameters reports whether a tensor's numbers are parameters: not integers such
// as positions, and not a table that programs compute from the config.
func isParameters(t *tensorfs.Tensor) bool {
	return (t.Quant != nil || t.DType.Kind() != tensorfs.KindInteger) && !strings.HasSuffix(t.Weight(), "rope_freqs.weight")
}

// countParameters counts the numbers of the model's tensors by their shapes, and
// what is stored for each. Where codes are packed in a way that is not decoded, how
// many they are is not known.
func (info *Info) countParameters(m *tensorfs.Model) {
	parameters, bytes := int64(0), int64(0)
	by := map[string]int64{} // type: parameters
	for i := range m.Tensors {
		switch t := m.Tensors[i].Stored(); {
		case t.Owner != "":
			bytes += t.Data.Size()
		case t.Opaque != "" && m.Layout == "hf": // GGUF's shapes count numbers, for every type
			info.Packed++
		case isParameters(t):
			n, _ := tensorfs.Elements(t.Numbers())
			parameters, bytes = parameters+n, bytes+t.Data.Size()
			name := StoredType(t)
			by[name] += n
			info.Quantised = info.Quantised || t.Quant != nil || t.DType.Kind() != tensorfs.KindFloat || t.DType.Bits() < 16
		}
	}
	if info.Packed > 0 {
		info.Quantised = true
		info.Quant, _ = m.Meta(quantLabel).(string)
		return
	}
	info.Quant = quantOf(m, by)
	f16 := 2 * parameters
	info.Parameters, info.Memory.F16 = &parameters, &f16
	if parameters > 0 {
		bits := float64(bytes) * 8 / float64(parameters)
		info.BitsPerWeight = &bits
	}
}

// quantLabel is the metadata's key for the scheme of a config.json in a few words.
const quantLabel = "tensorfs.quantization"

// quantOf names how a model is quantised, or its type if it is not: a GGUF file's own name
// if its tensors agree, the scheme of a config.json, or the type of most parameters. by
// counts them by type.
func quantOf(m *tensorfs.Model, by map[string]int64) string {
	types := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), strings.Compare(a, b)) })
	mostly := ""
	if len(types) > 0 {
		mostly = types[0]
	}
	if len(types) > 1 {
		mostly = "mostly " + mostly
	}
	if number, ok := m.Meta("general.file_type").(uint32); ok && len(types) > 0 {
		name, fits := gguf.FileType(uint64(number), func(d tensorfs.DType) bool { return by[d.String()] > 0 })
		switch {
		case fits:
			return name
		case name != "":
			return fmt.Sprintf("%s (its file_type is %s)", mostly, name)
		}
	}
	if label, ok := m.Meta(quantLabel).(string); ok && m.Format != "mlx" {
		return label
	}
	return mostly
}
