// Package diff compares two models tensor by tensor and prints where and by how much they
// differ: a table, a grid of kinds and layers, or JSON.
package diff
