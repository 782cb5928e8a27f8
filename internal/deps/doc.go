// Package deps holds the directions of imports by its test: which package may
// import which of this module, and why not more. A new import needs a line there.
//
// It has no code of its own.
package deps
