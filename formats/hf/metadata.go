package hf

import (
	"slices"

	"github.com/tensorfs/tensorfs"
)

// metadata fills in what doc.go promises.
func (b *builder) metadata(label string) {
	var fromJSON []tensorfs.Meta
	fromJSON = b.config.Meta(fromJSON, "config.")
	fromJSON = b.generation.Meta(fromJSON, "generation_config.")
	fromJSON = b.modelOpt.Meta(fromJSON, "hf_quant_config.")
	fromJSON = b.adapter.Meta(fromJSON, "adapter_config.")
	if b.set.index != nil {
		fromJSON = b.set.index.metadata.Meta(fromJSON, "index.")
	}
	seen := make(map[string]any)
	add := func(key string, value any) {
		if _, dup := seen[key]; !dup {
			seen[key] = value
			b.model.Metadata = append(b.model.Metadata, tensorfs.Meta{Key: key, Value: value})
		}
	}
	for _, m := range fromJSON {
		add(m.Key, m.Value)
	}
	for i, f := range b.files {
		for _, kv := range f.Metadata {
			key := "safetensors." + kv[0]
			if before, dup := seen[key]; dup && before != any(kv[1]) {
				key = "safetensors." + b.set.weights[i] + "." + kv[0]
			}
			add(key, kv[1])
		}
	}
	if label != "" {
		add("tensorfs.quantization", label)
	}
}

// headerSays reports whether the metadata of a weight file has a value.
func (b *builder) headerSays(key, value string) bool {
	for _, f := range b.files {
		if slices.Contains(f.Metadata, [2]string{key, value}) {
			return true
		}
	}
	return false
}
