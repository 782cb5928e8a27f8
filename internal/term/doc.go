// Package term knows the terminal that people read the output on: whether there is
// one, how wide it is, whether it shows more than ASCII, and how a fraction looks
// as a bar.
package term
