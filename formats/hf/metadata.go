package hf

import (
	"slices"

	"github.com/tensorfs/tensorfs"
)

// metadata fills in what doc.go promises.
func (b *builder) metadata(label string) {
	objects := []struct {
		prefix string
		object object
	}{{"config.", b.config}, {"generation_config.", b.generation}, {"hf_quant_config.", b.modelOpt}}
	if b.set.index != nil {
		objects = append(objects, struct {
			prefix string
			object object
		}{"index.", b.set.index.metadata})
	}
	seen := make(map[string]any)
	add := func(key string, value any) {
		if _, dup := seen[key]; !dup {
			seen[key] = value
			b.model.Metadata = append(b.model.Metadata, tensorfs.Meta{Key: key, Value: value})
		}
	}
	for _, o := range objects {
		for _, k := range o.object.keys {
			add(o.prefix+k, metaValue(o.object.values[k]))
		}
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
