package ollama

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// member is a tensor of a blob and its name in the model.
type member struct {
	key       string // in the blob's header
	source    string // in the model
	weightKey string // key of the weight that it is a companion of; "" for other tensors
}

// Companions of a weight W are next to it in the blob as W.scale, W.bias (the
// offset of affine quantisation) and W.global_scale.
const (
	suffixScale  = ".scale"
	suffixBias   = ".bias"
	suffixGlobal = ".global_scale"
)

// Since February 2026 the header key of a blob is a tensor's name; in January
// it was always this, and companions had layers of their own.
const keyData = "data"

// members tells which tensors of the model a blob holds, from the layer's name
// and the keys of the blob's header:
//
//  1. a key is the layer's name: that tensor
//  2. all keys start with the layer's name and a dot: a group, such as the
//     experts of a layer, with the keys' names
//  3. the layer is COMPONENT/REST and a key is REST: that tensor, with the
//     layer's name
//  4. the only key is "data": that tensor, with the layer's name
//
// Companions come along. codes reports whether a key's tensor can hold quantised codes.
// problem is empty unless no rule fits.
func members(layer string, keys []string, codes func(key string) bool) (ms []member, problem string) {
	if len(keys) == 0 {
		return nil, "its blob holds no tensor"
	}
	has := make(map[string]bool, len(keys))
	for _, k := range keys {
		if p := nameProblem(k); p != "" {
			return nil, "the name of a tensor in its blob " + p
		}
		has[k] = true
	}
	ms = make([]member, len(keys))
	grouped := !strings.HasSuffix(layer, ".weight") && !strings.HasSuffix(layer, suffixBias) && !strings.HasSuffix(layer, suffixScale)
	other := "" // a key that does not belong to the layer
	for i, k := range keys {
		ms[i] = member{key: k, source: k, weightKey: companionOf(k, has, codes)}
		if ms[i].weightKey == "" {
			if other == "" && !strings.HasPrefix(k, layer+".") {
				other, grouped = k, false
			}
		}
	}
	component, rest, _ := strings.Cut(layer, "/")
	single := ""
	switch {
	case has[layer]:
		single = layer
	case grouped:
		return ms, ""
	case rest != "" && has[rest]:
		single = rest
		for i := range ms {
			ms[i].source = component + "/" + ms[i].key
		}
	case len(keys) == 1 && keys[0] == keyData:
		ms[0].source = layer
		return ms, ""
	case other != "":
		return nil, fmt.Sprintf("its blob has a tensor %s and none of its name", tensorfs.Quote(other))
	default: // a weight's name, and keys that go on after it
		return nil, "its blob has no tensor of its name"
	}
	for i := range ms {
		if ms[i].weightKey != single && ms[i].key != single || ms[i].key == single && ms[i].weightKey != "" {
			return nil, fmt.Sprintf("its blob has a tensor %s that does not belong to it", tensorfs.Quote(ms[i].key))
		}
	}
	return ms, ""
}

// companionOf returns the key whose companion k is, "" where k is a tensor of
// its own: real tensors may end in .bias or .scale, too.
func companionOf(k string, has map[string]bool, codes func(key string) bool) string {
	for _, suffix := range [...]string{suffixScale, suffixBias, suffixGlobal} {
		base, ok := strings.CutSuffix(k, suffix)
		if !ok || !has[base] || !has[base+suffixScale] {
			continue
		}
		if strings.HasSuffix(base, ".weight") || codes(base) && !strings.HasSuffix(base, suffixScale) && !strings.HasSuffix(base, suffixBias) && !strings.HasSuffix(base, suffixGlobal) {
			return base
		}
	}
	return ""
}
