//go:build !linux && !darwin

package source

// bringIn is left to the kernel's own read-ahead.
func (*Mapped) bringIn(int64, int64) {}

// advise is left to the reads that follow.
func advise(int, int64, int64, int64) {}

func (*Mapped) cached(int64, int64) bool { return true }

func readAheadOf(int) int64 { return leastAdvised }

// Slow is asked only for passthrough and direct reads, which only Linux has.
func (m *Mapped) Slow() bool { return false }
