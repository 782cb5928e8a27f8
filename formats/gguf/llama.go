package gguf

// LlamaReads reports whether llama.cpp reads files of the version that the first eight bytes
// of a file say: 2 or 3, little-endian.
func LlamaReads(head []byte) bool {
	return len(head) == 8 && string(head[:4]) == "GGUF" && (head[4] == 2 || head[4] == 3) && string(head[5:]) == "\x00\x00\x00"
}
