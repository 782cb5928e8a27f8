package gguf

import "github.com/tensorfs/tensorfs"

// LlamaReads reports whether llama.cpp reads files of the version that the first eight bytes
// of a file say: 2 or 3, little-endian.
func LlamaReads(head []byte) bool {
	return len(head) == 8 && string(head[:4]) == "GGUF" && (head[4] == 2 || head[4] == 3) && string(head[5:]) == "\x00\x00\x00"
}

// Limits of ggml for the tensors of a file, beyond which llama.cpp does not load it.
const (
	MaxName       = 63 // bytes of a name
	MaxDimensions = 4
)

// lastLlama is the last number of a type that llama.cpp v0.5.0 has.
const lastLlama = 42

// LlamaHas reports whether llama.cpp loads tensors of a type.
func LlamaHas(t tensorfs.DType) bool {
	return t.GGML() >= 0 && t.GGML() <= lastLlama && t.Kind() != tensorfs.KindOpaque && t.RowGroup() <= 1 && !t.Whole()
}
