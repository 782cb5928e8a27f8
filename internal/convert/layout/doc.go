// Package layout brings the tensors of a model from one layout to another: from that of
// Hugging Face to that of GGUF files, and back to that of Hugging Face or of mlx-lm. The
// tensors have other names there, and some of them other rows: which, the descriptions
// of architectures say (formats/architectures).
//
// A [Walk] goes through a description once, for all layers. It finds the model's tensors,
// asks conditions, holds shapes to the sizes of the model, and sees to it that every tensor
// is used or known to be of no use. What is made goes to a [Sink], which knows the types of
// numbers that its files have.
//
// What becomes of the numbers of a tensor is a [Move], one value with both halves, in one
// table (moves.go) by the name that descriptions have for it. The halves stand beside each
// other, in a file for each family: heads.go, qkv.go, parts.go (several modules in one),
// shapes.go, experts.go, alternate.go (those of gpt-oss), latent.go, tokens.go, rope.go,
// states.go, linear.go, towers.go. To add a move:
//
//	modules.txt   a line "move NAME  what differs"
//	moves.go      a row of the table, with the halves that it has
//	a family      To, From: one tensor for one; Find, All: several for one, and one for several
//
// and the test of the table asks for what is missing. The walker does not change.
//
// The package reads no config.json and no keys of GGUF files: whoever walks gives the facts,
// which have the names of formats/architectures/keys.txt.
package layout
