// Package assemble makes a model from the tensors that a parser found. It holds
// what the formats have in common once their files are read.
//
// A parser adds its tensors to [Tensors], has them named, and asks for what
// follows from the names: the config, and which joined tensors do not hold their
// parts one after the other. [Attach] ties codes to their scales and
// biases.
//
// The facts of MLX are here too, because Hugging Face directories and Ollama's
// blobs share them: [Params] are the modes, bits and group sizes that exist and
// the shapes that they require, [Settings] what a config.json says about them.
//
// The package reads no files and knows none of the formats: its callers say which
// tensors belong together and what a file says about itself.
package assemble
