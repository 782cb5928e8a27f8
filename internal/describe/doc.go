// Package describe collects the facts about a model and its tensors that commands print: types,
// parameters, quantisation, adapters, names.
package describe
