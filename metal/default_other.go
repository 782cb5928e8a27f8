//go:build !darwin

package metal

// DefaultDevice returns the Metal device of the machine, or a [Host] where there
// is none.
func DefaultDevice() (Device, error) { return NewHost(HostOptions{}) }
