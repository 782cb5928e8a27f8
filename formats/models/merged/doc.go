// Package merged opens the model that a recipe of mergekit describes, without writing it.
//
// A merge is a directory of Hugging Face's kind that is not on any disk: model.safetensors is
// composed of tensors that package mix makes when they are read, config.json is the base's
// with the number of layers and the type of the numbers, and the tokenizer is that of one of
// the models. It is opened as any other directory, so everything that can be had of one can
// be had of a merge.
//
// Models of other formats take part as their hf/ directories: a merge is what mergekit makes
// of these.
package merged
