// Package compare finds the tensors of two models that belong together, and compares
// them.
//
//	A  Hugging Face   q_proj.weight --moved--> layers.0.attention.q.weight --+
//	                                                                         +--> Pair
//	B  GGUF           attn_q.weight ---------> layers.0.attention.q.weight --+
//
// Tensors pair by canonical name. Where the layouts of the models differ, the
// tensors of the one in Hugging Face's are those that package convert puts into a
// GGUF file of it, or those of the other are what internal/convert/hf puts into a directory:
// these have the tables. Where neither knows the model, and where both have the
// same layout, tensors are compared as they are stored. What one model has joined
// or stacked and the other in parts is joined for the comparison.
//
// Nothing is guessed: what does not pair is given as a tensor of one model alone.
package compare
