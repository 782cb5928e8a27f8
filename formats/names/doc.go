// Package names gives tensors one name whatever file they come from.
//
// "blk.3.attn_q.weight" in GGUF and "model.layers.3.self_attn.q_proj.weight" in
// a Hugging Face, MLX or Ollama model are both "layers.3.attention.q.weight".
// [Map] translates all names of a model at once, because some spellings mean
// different things in different models: it looks at the other names of the
// layer, at shapes and at the architecture.
//
// The known names are in tables/*.txt, one fact per line, spelled as in the files
// themselves. A new architecture takes new lines, not code:
//
//	conditional.txt     spellings that depend on the rest of the model, and the columns
//	attention.txt ...   all other spellings, by the part of the model
//	wrappers.txt        prefixes that some exports put in front of every name
//	companions.txt      suffixes of tensors that belong to another: scales, offsets, LoRA
//	joined.txt          tensors of some architectures that join several others, see [Apart]
//
// A name that no line knows is kept, escaped by [Escape] so that any bytes can
// name a file. So is the name of the loser when two tensors of a file mean the
// same thing.
//
// The package renames and does nothing else: values and shapes of two formats may
// differ under one name (rows of q and k). It imports nothing from the module.
package names
