// Package recipe reads recipes of mergekit: YAML that describes how a model is merged from
// others.
//
// A recipe is recognised by its key merge_method. A subset is supported, and every other
// key is refused by name: tensorfs merges exactly as mergekit does, or not at all. [Parse]
// reads the text and checks it against the contract of its method; [Recipe.Plan] lists the
// inputs and parameters of each tensor. The package opens no model and reads no tensor.
//
// Keys, defaults and their precedence are mergekit 0.1.5's.
package recipe
