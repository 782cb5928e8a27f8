package testmodel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
)

// HF returns the files of a Hugging Face directory, by name: with an index if there are
// several shards. Tensors are dealt out to them in order.
func HF(config map[string]any, tensors []SafeTensor, shards int, metadata [][2]string) map[string][]byte {
	files := map[string][]byte{"config.json": mustJSON(config)}
	if shards == 1 {
		files["model.safetensors"] = Safetensors(tensors, metadata)
		return files
	}
	where, total := map[string]string{}, int64(0)
	for i := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		part := tensors[i*len(tensors)/shards : (i+1)*len(tensors)/shards]
		files[name] = Safetensors(part, metadata)
		for _, t := range part {
			where[t.Name] = name
			total += t.Size()
		}
	}
	files["model.safetensors.index.json"] = mustJSON(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": where})
	return files
}

// With returns config with one more key.
func With(config map[string]any, key string, value any) map[string]any {
	c := maps.Clone(config)
	c[key] = value
	return c
}

// OllamaLayer is a layer of an Ollama model: Kind is the end of its media type,
// such as "model", "tensor" or "json".
type OllamaLayer struct {
	Kind, Name string
	Content    []byte
}

// Ollama returns the files of an Ollama store with one model, by path below the
// store, and the path of its manifest.
func Ollama(name string, layers []OllamaLayer) (files map[string][]byte, manifest string) {
	type blob struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
		Name      string `json:"name,omitempty"`
	}
	files = map[string][]byte{}
	add := func(mediaType, name string, content []byte) blob {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		files[filepath.Join("blobs", "sha256-"+digest)] = content
		return blob{mediaType, "sha256:" + digest, len(content), name}
	}
	config := add("application/vnd.docker.container.image.v1+json", "", []byte(`{"model_format":"safetensors"}`))
	var blobs []blob
	for _, l := range layers {
		blobs = append(blobs, add("application/vnd.ollama.image."+l.Kind, l.Name, l.Content))
	}
	manifest = filepath.Join("manifests", "registry.ollama.ai", "library", name, "latest")
	files[manifest] = mustJSON(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json", "config": config, "layers": blobs})
	return files, manifest
}

// OllamaTensors returns a layer for each weight with its companions, which
// Ollama keeps in one blob: W, W.scale and W.bias. quantType is what the blobs
// of quantised weights say of them.
func OllamaTensors(tensors []SafeTensor, quantType string, group int) (layers []OllamaLayer) {
	for i := 0; i < len(tensors); i++ {
		t := tensors[i]
		in, meta := []SafeTensor{t}, [][2]string(nil)
		if i+2 < len(tensors) && t.DType.String() == "U32" {
			s, b := tensors[i+1], tensors[i+2]
			s.Name, b.Name = t.Name+".scale", t.Name+".bias"
			in = append(in, s, b)
			meta = [][2]string{{"quant_type", quantType}, {"group_size", fmt.Sprint(group)}}
			i += 2
		}
		layers = append(layers, OllamaLayer{"tensor", t.Name, Safetensors(in, meta)})
	}
	return layers
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // the test's bug
	}
	return b
}
