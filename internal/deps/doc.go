// Package deps has a test that fixes the directions of imports: which packages of
// this module may import which, and why no others. A new import needs a line
// there.
//
// It has no code of its own.
package deps
