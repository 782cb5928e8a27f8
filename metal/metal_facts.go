package metal

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// What follows from the numbers that Metal and macOS give. It has no system call in
// it, so that it is tested wherever the tests run.

// engineReserve is what an engine and its command buffers need beside the weights.
const engineReserve = 1 << 30

// leftOf returns how much of the recommended memory is left when so much is allocated: at
// least 1 if the recommendation is known, because 0 means unknown.
func leftOf(recommended, allocated int64) int64 {
	if recommended <= 0 {
		return 0
	}
	return max(recommended-allocated-engineReserve, 1)
}

// clampInt64 returns a number of Metal, which may be the largest there is.
func clampInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// sysctlNumber reads a number of a sysctl, whose width depends on the system; 0 if it is
// not a number.
func sysctlNumber(b []byte) int64 {
	switch len(b) {
	case 4:
		return int64(binary.LittleEndian.Uint32(b))
	case 8:
		return clampInt64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// noSuchDevice is the error that there is no GPU with a registry ID, or no GPU at all.
func noSuchDevice(registryID uint64, seen []uint64) error {
	if registryID == 0 {
		return fmt.Errorf("metal: %w on this machine", ErrNoDevice)
	}
	there := "this machine has none"
	if len(seen) > 0 {
		ids := make([]string, len(seen))
		for i, id := range seen {
			ids[i] = fmt.Sprint(id)
		}
		there = "this machine's have " + strings.Join(ids, ", ")
	}
	return fmt.Errorf("metal: no GPU with the registry ID %d (%s): %w", registryID, there, ErrNoDevice)
}
