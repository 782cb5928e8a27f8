// Package recipe reads recipes of mergekit: YAML that says how a model is made of others.
//
// A recipe is known by its key merge_method. What is read is a subset, and everything
// outside of it is refused by its key: a merge is mergekit's or it is none. [Parse] reads
// the text and checks it against the contract of its method; [Recipe.Plan] says of each
// tensor what it is made of, and with which numbers. The package opens no model and reads
// no tensor.
//
// Keys, defaults and their precedence are those of mergekit 0.1.5.
package recipe
