// Package verify reads all numbers of a model, compares its files with their digests, and
// reports what is damaged: NaN and infinite values, weights of zeros, holes in files, wrong
// digests.
package verify
