// Package layout converts the tensors of a model between layouts: from Hugging Face's to
// GGUF's, and back to Hugging Face's or mlx-lm's. The tensors have other names there, and
// some have rows in another order, as the descriptions of architectures specify
// (formats/architectures).
//
// A [Walk] goes through a description once, for all layers. It finds the model's tensors,
// asks conditions, holds shapes to the sizes of the model, and sees to it that every tensor
// is used or known to be of no use. What is made goes to a [Sink], which knows the types of
// numbers that its files have.
//
// A permutation or conversion of a tensor's numbers is a [Move], one value with both
// directions, in one table (moves.go) by its name in descriptions. Both directions are side
// by side, in a file for each family: heads.go, qkv.go, parts.go (several modules in one),
// shapes.go, experts.go, alternate.go (gpt-oss's experts), latent.go, tokens.go, rope.go,
// states.go, linear.go, towers.go. To add a move:
//
//	modules.txt   a line "move NAME  what differs"
//	moves.go      a row of the table, with the halves that it has
//	a family      To, From: one tensor for one; Find, All: several for one, and one for several
//
// and the test of the table asks for what is missing. The walker does not change.
//
// The package reads no config.json and no keys of GGUF files: the caller of a walk supplies
// the facts, by their names in formats/architectures/keys.txt.
package layout
