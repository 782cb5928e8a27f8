// Package merged opens the model that a recipe of mergekit describes, without writing it.
//
// A merge is a virtual directory in Hugging Face's layout: model.safetensors is composed of
// tensors that package mix computes when they are read, config.json is the base's with the
// number of layers and the type of the numbers, and the tokenizer is taken from one of the
// models. It is opened as any other directory, so it has every view and conversion of a
// directory.
//
// Models of other formats take part as their hf/ directories: the merge equals mergekit's
// merge of these.
package merged
