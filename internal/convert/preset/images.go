package preset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
)

// forImages are the presets of ComfyUI-GGUF's llama-quantize.
var forImages = strings.Fields("Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_0 Q4_1 Q4_K_S Q4_K_M Q5_0 Q5_1 Q5_K_S Q5_K_M Q6_K Q8_0 F16 BF16")

// imageRoles are parts of names of weights that some presets give another type. All parts of a
// word with "+" have to be there.
var imageRoles = []struct {
	parts []string
	types map[string]tensorfs.DType
	first map[string]several // of the first weights, as they come
}{
	{
		strings.Fields("attn_v.weight .to_v.weight .v.weight .attn.w1v.weight .attn.w2v.weight _attn.v_proj.weight"),
		map[string]tensorfs.DType{"Q2_K": tensorfs.Q3_K, "Q3_K_M": tensorfs.Q4_K, "Q3_K_L": tensorfs.Q5_K, "Q4_K_M": tensorfs.Q6_K, "Q5_K_M": tensorfs.Q6_K},
		map[string]several{"Q3_K_M": {2, tensorfs.Q5_K}, "Q4_K_S": {4, tensorfs.Q5_K}},
	},
	{
		strings.Fields("attn_qkv.weight attn.qkv.weight attention.qkv.weight"),
		map[string]tensorfs.DType{"Q3_K_M": tensorfs.Q4_K, "Q3_K_L": tensorfs.Q4_K, "Q4_K_M": tensorfs.Q5_K, "Q5_K_M": tensorfs.Q6_K}, nil,
	},
	{
		strings.Fields("ffn_down experts.+.w2.weight .ffn.2.weight .ff.net.2.weight .mlp.layer2.weight .adaln_modulation_mlp.2.weight .feed_forward.w2.weight"),
		map[string]tensorfs.DType{"Q3_K_M": tensorfs.Q4_K, "Q3_K_L": tensorfs.Q5_K, "Q4_K_S": tensorfs.Q5_K, "Q4_K_M": tensorfs.Q6_K, "Q5_K_M": tensorfs.Q6_K, "Q4_0": tensorfs.Q4_1, "Q5_0": tensorfs.Q5_1}, nil,
	},
}

// several is the type of a number of weights.
type several struct {
	count int
	to    tensorfs.DType
}

// ForImage returns an error unless a preset is for image models.
func (o *Options) ForImage() error {
	switch {
	case o.From != nil:
		return nil
	case !slices.Contains(forImages, o.Name):
		return fmt.Errorf("ComfyUI-GGUF's llama-quantize makes no %s of image models; it makes %s", o.Name, strings.Join(forImages, ", "))
	}
	return nil
}

// ImageTypes is Types for an image model's denoiser, whose tensors are in the order of the file,
// by ComfyUI-GGUF's patch of llama-quantize, which leaves a matrix of one row unchanged.
func (o Options) ImageTypes(a *images.Architecture, tensors []Tensor) []tensorfs.DType {
	types := make([]tensorfs.DType, len(tensors))
	counts := make([]int, len(imageRoles))
	for i, t := range tensors {
		types[i] = t.Type
		kind := t.Type.Kind()
		if kind != tensorfs.KindFloat && (!o.Requantise || kind == tensorfs.KindInteger) || len(t.Shape) != 2 || t.Shape[0] == 1 || a.Kept(t.Name) {
			continue
		}
		to := o.imageType(t.Name, counts)
		if asked, ok := o.asked(t); ok {
			to = asked
		}
		if types[i] = to; !fitsBlocks(to, t.Shape) {
			types[i] = tensorfs.F16
		}
	}
	return types
}

// imageType is the type of a weight by its role. counts have how many of each role came before.
func (o Options) imageType(name string, counts []int) tensorfs.DType {
	for i, role := range imageRoles {
		if !slices.ContainsFunc(role.parts, func(part string) bool { return hasAll(name, strings.Split(part, "+")) }) {
			continue
		}
		n := counts[i]
		counts[i]++
		if x := role.first[o.Name]; n < x.count {
			return x.to
		}
		if to, ok := role.types[o.Name]; ok {
			return to
		}
		break
	}
	return o.Type
}

func hasAll(name string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(name, part) })
}
