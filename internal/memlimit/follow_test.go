package memlimit

import "testing"

// A server of a small model is kept small, and one of many tensors is not collected
// again and again: before a collection it makes at least half of what it keeps.
func TestLimitFor(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[int64]int64{0: 40 * mib, 10 * mib: 40 * mib, 20 * mib: 50 * mib, 90 * mib: 155 * mib} {
		if got := limitFor(live); got != want {
			t.Errorf("the limit with %d MiB in use is %d MiB, want %d", live/mib, got/mib, want/mib)
		}
	}
}
