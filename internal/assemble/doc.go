// Package assemble makes a model from the tensors that a parser found. It holds
// what the formats have in common once their files are read.
//
// A parser adds its tensors to [Tensors], has them named, and asks for what
// follows from the names: the config, and which joined tensors do not hold their
// parts one after the other. [Attach] ties codes to their scales and
// biases.
//
// The facts of MLX are here too, because Hugging Face directories and Ollama's blobs share
// them: [Params] are the modes, bits and group sizes that exist and the shapes that they
// require, [Settings] are a config.json's parameters.
//
// The package reads no files and knows no format: its callers group the tensors and read
// the file's own description.
package assemble
