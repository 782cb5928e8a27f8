// Package report makes a picture of the weights of a model: a map of kinds of tensors by
// layers, what stands out in it, and a page to look at.
//
// It knows names, numbers and their differences. Where tensors come from, and how two models
// are brought together, is for its callers. The page is one file without a network: data, code
// and styles are in it, and text of a model is only ever set as text.
package report
