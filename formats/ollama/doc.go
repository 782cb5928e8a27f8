// Package ollama opens models of an Ollama store, where Ollama keeps them for its
// own use: nothing is fetched and nothing is written.
//
//	STORE/manifests/HOST/NAMESPACE/MODEL/TAG     JSON: media types, digests, sizes, names
//	STORE/blobs/sha256-HEX                       what the manifests refer to
//
// [OpenName] takes a name as 'ollama run' does, [OpenFS] a manifest. Opening a
// model does not read its data.
//
// # Two kinds of models
//
// A model with a GGUF layer is that GGUF file: see package gguf. Further GGUF
// layers are added to it. A projector's tensors keep canonical names that start
// with "vision.", "audio." or "projector."; all other names get the layer's
// kind before them ("adapter.layers.0.attention.q.lora_a", "draft.output.weight"),
// the second adapter "adapter.1." and so on. So do their metadata keys.
//
// A model with tensor layers is a checkpoint of safetensors blobs, one tensor or one group
// of experts in each: member.go derives the names of tensors from their layer and the keys
// of its blob. Components of a pipeline ("text_encoder/...") and the draft model
// ("draft....") keep their prefix. Quantised weights have companions:
//
//	since February 2026    W, W.scale, W.bias, W.global_scale in one blob
//	January 2026           layers W, W_scale, W_qbias, each with the key "data"
//
// The type and the group size come from the blob's metadata, from config.json or from the
// shapes, in this order, and shapes and types must agree with them; see quant.go. If they
// do not, or if more than one reading is possible, the stored bytes are shown and Opaque
// gives the reason. Nothing is guessed.
//
// # Metadata
//
//	config.KEY            top-level keys of config.json; tensor models
//	KEY                   the keys of the GGUF file
//	ollama.template, ollama.system, ollama.params, ollama.messages
//	ollama.license        the second one is ollama.license.1
//	ollama.config.KEY     what Ollama itself says about the model
//
// # Trust
//
// A manifest comes from a registry and may contain anything. Paths are built only
// from checked names and from the 64 digits of a digest; blobs are opened below
// their directory without following a link out of it; sizes must be the sizes of
// the files. These are accepted, although they are odd: upper-case digests, links
// inside the store, a missing config blob, any schemaVersion, layers of unknown
// types (not opened), a layer that is listed twice. These are refused: text
// after the JSON or a byte order mark before it, a key that occurs twice, a
// model layer beside tensor layers, names with control characters, with empty
// path elements or with "." and "..". Of several model, template, system,
// params and messages layers the last one counts, as for Ollama.
//
// Every blob stays open and mapped, because Ollama may prune it. A blob that Ollama touches
// has not changed.
package ollama
