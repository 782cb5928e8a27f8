// Package config describes a model's dimensions in one schema, whatever its
// file calls them: "llama.embedding_length" in GGUF and "hidden_size" in a
// Hugging Face config.json are both "dim".
//
// The schema is the table in schema.go: for each field its kind, the value when none of its
// keys is present, and the keys of both ecosystems in the order they are tried. Keys of
// facts that conversions write are in keys.txt of package architectures. [FromGGUF] and
// [FromHF] read it; [AppendJSON] writes the fields out.
//
// The rules:
//
//   - The first key that is present wins. If its value makes no sense (another
//     type, negative, not finite, above 2^32-1) the field is left out: neither a
//     later key nor a default replaces what the file says.
//   - A field whose value cannot be known is left out, too.
//   - A count that a file gives for each layer becomes the largest of them; the list
//     is kept in a field of its own, FIELD_per_layer.
//   - Floats have the precision of F32, so 1e-05 in a text and the float in
//     a GGUF file are one value.
//   - Defaults are what the usual runtimes assume; the file does not contain them.
//
// Numbers from a file are copied and multiplied with overflow checks, nothing
// else: none of them sizes an allocation or a loop. What a quantised MLX module
// overrides for itself is its parser's business.
package config
