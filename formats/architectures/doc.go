// Package architectures describes what an architecture looks like on both sides of a
// conversion: in a GGUF file and in a directory of Hugging Face. The descriptions are
// text, read in both directions, so that a new architecture takes lines and no code:
//
//	architectures.txt   a block for each architecture: its tensors, in the order of GGUF files, and what
//	                    config.json and the keys of GGUF files say
//	names.txt           names and orders of rows that no description has, because nothing is converted
//	modules.txt         a line for each module of tensors: its shape, and how each side spells it; the
//	                    sizes that shapes are made of, and the moves of numbers between the sides
//	keys.txt            a line for each fact that has a key and a field: its kind, and both names
//	projectors.txt      a block for each vision tower with its projector, which GGUF has in a file of its own
//	sounds.txt          the same for audio towers
//	fields.txt          fields of config.json that change nothing, of any class
//	config_fields.txt   the fields that transformers and llama.cpp's converter read for each model type
//	towers.txt          what modules.txt is, for projectors.txt and sounds.txt
//	mlx_needs.txt       the model types that mlx-lm has, and the fields of config.json without which it refuses one
//	mlx.txt             a line for each of them that takes more than a release has, or does other things
//	mlx_reasons.txt     why a class does not load a model, or computes something else
//
// A block begins with "arch NAME", or "arch NAME like OTHER", at the start of a line.
// Indented lines follow: a word, and the items that it has. Lines that are indented
// deeper go on with the items. A word may have several lines, and "#" begins a comment.
//
//	arch qwen2
//	  prefix  model.layers.
//	  layer   attention_norm attention.q+b attention.k+b attention.v+b attention.output
//	          ffn_norm ffn.gate ffn.up ffn.down
//
// A block that is like another begins with the other's lines. A word that is repeated
// replaces the other's, unless all of its items are changes:
//
//	-NAME     the other's items of that name are taken away
//	+ITEM     the item is put in the place of the other's item of its name, or at the end
//	@NAME     the items that follow are put after that of this name, and not at the end
//
// The name of an item is its beginning: letters, digits, "_" and ".", up to any other
// character.
//
// A condition in brackets holds for the items after it, up to the next one or the end of
// the line: "[experts]" is a number other than 0, "[!experts]" is 0 or missing, "[rope
// llama3 yarn]" is one of these words, "[layer < leading]" compares; "[]" ends a condition.
// See [Expr].
//
// The tables are part of the program: [All] and its companions panic on an error in them,
// and a test reads them all.
//
// The package knows no model and imports only the names of tensors.
package architectures
