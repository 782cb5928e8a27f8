package main

import (
	"path/filepath"
	"testing"
)

func llama() attrs { return attrs{"model": filepath.Join(models, "gguf/llama-xs.q8_0.gguf")} }

func with(a attrs, pairs ...string) attrs {
	b := attrs{}
	for k, v := range a {
		b[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		b[pairs[i]] = pairs[i+1]
	}
	return b
}

// Pods share the server of a model, whichever part of it they see.
func TestSharing(t *testing.T) {
	r := newRig(t)
	r.mustPublish(with(llama(), "path", "hf"), nil, "a", "a")
	r.mustPublish(with(llama(), "path", "gguf"), nil, "b")
	r.mustPublish(with(llama(), "views", "f32"), nil, "c")
	if a, b, c := r.device("a"), r.device("b"), r.device("c"); a != b || a == c {
		t.Errorf("devices of a, b, c: %s, %s, %s; want the first two equal", a, b, c)
	}
	model := llama()["model"]
	if got, want := r.digest("a", "model.safetensors"), wanted(t, model, "hf/model.safetensors"); got != want {
		t.Errorf("hf: %s, want %s", got, want)
	}
	if got, want := r.digest("b", "model.gguf"), wanted(t, model, "gguf/model.gguf"); got != want {
		t.Errorf("gguf: %s, want %s", got, want)
	}
	r.mustUnpublish("a", "c", "b", "b")
	r.mustBeClean()
}
