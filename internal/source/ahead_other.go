//go:build !linux && !darwin

package source

// bringIn is left to the kernel's own read-ahead.
func bringIn(int, int64, int64, int64) {}

// advise is left to the reads that follow.
func advise(int, int64, int64, int64) {}

func readAheadOf(int) int64 { return leastAdvised }
