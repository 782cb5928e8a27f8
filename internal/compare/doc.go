// Package compare finds the tensors of two models that belong together, and compares
// them.
//
//	A  Hugging Face   q_proj.weight --moved--> layers.0.attention.q.weight --+
//	                                                                         +--> Pair
//	B  GGUF           attn_q.weight ---------> layers.0.attention.q.weight --+
//
// Tensors pair by canonical name. If the layouts of the models differ, the tensors of the
// model in Hugging Face's are converted as package whole converts them for a GGUF file, or
// the other model's as hfdir does for a directory: these packages have the tables. If
// neither knows the model, or if both have the same layout, tensors are compared as they
// are stored. If one model has a tensor joined or stacked and the other in parts, the parts
// are joined for the comparison.
//
// Nothing is guessed: a tensor without a partner is returned as a tensor of only one model.
package compare
