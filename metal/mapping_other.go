//go:build !linux

package metal

// advise has no counterpart here.
func (m *mapping) advise() {}
