// Package assemble makes a model of the tensors that a parser found: what the
// formats have in common after their files are read.
//
// A parser adds its tensors to [Tensors], has them named, and asks for what
// follows from the names: the config, and which joined tensors hold their parts
// apart. [Tensors.Attach] ties codes to their scales and biases. [Finish] hands
// the files to the model.
//
// The facts of MLX are here too, because Hugging Face directories and Ollama's
// blobs have them alike: [Params] are the modes, bits and group sizes that exist
// and the shapes that they ask for, [Settings] what a config.json says of them.
//
// The package reads no file and knows none of the formats: who says which tensor
// belongs to which, and what a file says of itself, are its callers.
package assemble
