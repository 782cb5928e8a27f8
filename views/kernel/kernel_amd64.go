//go:build !purego

package kernel

// native returns this machine's accelerated implementation, nil without one.
func native() *implementation { return nil }
