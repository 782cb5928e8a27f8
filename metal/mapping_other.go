//go:build !linux

package metal

// advise has no counterpart here.
func (m *mapping) advise() {}

// populate has no counterpart here: the file is read instead.
func (m *mapping) populate(int64, int64) (bool, error) { return false, nil }
