// Package demand opens models of a server when a program looks up their names in a mount.
//
// A name becomes a request only if it is well-formed, such as ORG/NAME of the Hub: see
// [Names]. Programs look up many other names, because they search each directory for files
// of their own. [Lookups] bounds the requests: a few at a time, one for each name, and none
// for a name that the server refused a moment ago.
//
// [Models] keeps a model that a look-up opened, and opens it again when it is needed.
//
// The package serves no files, and its caller tells it how to open a model.
package demand
