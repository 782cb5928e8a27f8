//go:build !linux

package library

// device returns the device that a path is on, where the table of mounts shows any.
func device(string) (string, error) { return "", nil }
