package hub_test

import (
	"testing"

	"github.com/tensorfs/tensorfs/formats/hub"
)

// Addresses that people copy from their browser are names.
func TestFromAddress(t *testing.T) {
	for _, x := range []struct{ endpoint, address, want string }{
		{"", "https://huggingface.co/org/name", "hf:org/name"},
		{"", "https://huggingface.co/org/name/", "hf:org/name"},
		{"", "https://HuggingFace.co/org/name?library=x#files", "hf:org/name"},
		{"", "https://hf.co/org/name", "hf:org/name"},
		{"", "https://huggingface.co/gpt2", "hf:gpt2"},
		{"", "https://huggingface.co/org/name:Q4_K_M", "hf:org/name:Q4_K_M"},
		{"", "https://huggingface.co/org/name@v1", "hf:org/name@v1"},
		{"", "https://huggingface.co/org/name/tree/main", "hf:org/name"},
		{"", "https://huggingface.co/org/name/tree/v1.0", "hf:org/name@v1.0"},
		{"", "https://huggingface.co/org/name/tree/refs%2Fpr%2F1", "hf:org/name@refs/pr/1"},
		{"", "https://huggingface.co/org/name/commit/0123456789012345678901234567890123456789", "hf:org/name@0123456789012345678901234567890123456789"},
		{"", "https://huggingface.co/org/name/tree/main/unet", "hf:org/name/unet"},
		{"", "https://huggingface.co/org/name/tree/v1/unet/sub", "hf:org/name@v1:unet/sub"},
		{"", "https://huggingface.co/org/name/blob/main/a%20b.gguf", "hf:org/name/a b.gguf"},
		{"", "https://huggingface.co/org/name/resolve/main/sub/x.gguf?download=true", "hf:org/name/sub/x.gguf"},
		{"", "https://huggingface.co/org/name/raw/v1/model.safetensors", "hf:org/name@v1:model.safetensors"},
		{"", "https://huggingface.co/org/name/blob/main/config.json", "hf:org/name/config.json"},
		{"https://hub.test/hf/", "https://hub.test/hf/org/name", "hf:org/name"},
		{"http://127.0.0.1:8777", "http://127.0.0.1:8777/org/name/blob/main/x.gguf", "hf:org/name/x.gguf"},
		// others
		{"", "http://huggingface.co/org/name", ""},
		{"", "https://huggingface.co:444/org/name", ""},
		{"", "https://me@huggingface.co/org/name", ""},
		{"", "https://huggingface.co.test/org/name", ""},
		{"", "https://cdn.huggingface.co/org/name", ""},
		{"", "https://huggingface.co", ""},
		{"", "https://huggingface.co/", ""},
		{"", "https://huggingface.co/datasets/org/name", ""},
		{"", "https://huggingface.co/spaces/org/name", ""},
		{"", "https://huggingface.co/org/name/discussions", ""},
		{"", "https://huggingface.co/org/name/discussions/1", ""},
		{"", "https://huggingface.co/org/name/blob/main", ""},
		{"", "https://huggingface.co/org/name/tree", ""},
		{"", "https://huggingface.co/org/name/blob/main/..%2F..%2Fx", ""},
		{"", "https://huggingface.co/org/name/tree/%2e%2e", ""},
		{"", "https://huggingface.co/../x", ""},
		{"", "https://huggingface.co/org/na%0ame", ""},
		{"", "org/name", ""},
		{"https://hub.test/hf", "https://hub.test/org/name", ""},
		{"https://hub.test", "https://huggingface.co/org/name", ""},
		{"https://hub.test", "https://hf.co/org/name", ""},
		{"https://hub.test", "https://hub.test/models/m.gguf", ""},
		{"https://hub.test", "https://hub.test/m.safetensors?x", ""},
		{"", "https://huggingface.co/org/name.gguf", "hf:org/name.gguf"},
		{"nowhere", "https://huggingface.co/org/name", ""},
	} {
		n, ok := hub.FromAddress(x.address, x.endpoint)
		if ok != (x.want != "") || ok && n.String() != x.want {
			t.Errorf("%s at %q: %s, %v; want %q", x.address, x.endpoint, n, ok, x.want)
		}
	}
}
