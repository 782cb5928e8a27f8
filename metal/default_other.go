//go:build !darwin

package metal

// DefaultDevice returns a [Host]: only macOS has Metal.
func DefaultDevice() (Device, error) { return NewHost(HostOptions{}) }
