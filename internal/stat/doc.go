// Package stat measures the numbers of tensors, selected by name, and prints their range, mean,
// spread and histogram.
package stat
