package memlimit

import "testing"

// A server of a small model stays small, and a server of many tensors is not collected too often:
// between collections it allocates at least half of what it keeps. Memory that is in use only for a few
// collections, such as buffers, changes nothing.
func TestFollower(t *testing.T) {
	const mib = 1 << 20
	for live, want := range map[int64]int64{0: 40 * mib, 10 * mib: 40 * mib, 20 * mib: 50 * mib, 90 * mib: 155 * mib} {
		var f follower
		for i := range 3 * window {
			now := live
			if i%window > 0 {
				now += 60 * mib
			}
			if got := f.next(now); got != want {
				t.Fatalf("the limit with %d MiB in use, and then %d, is %d MiB, want %d", live/mib, now/mib, got/mib, want/mib)
			}
		}
	}
	var f follower
	for i := range 2 * window {
		got := f.next(int64(10+80*min(1, i/window)) * mib)
		if want := int64(40+115*(i/(2*window-1))) * mib; got != want {
			t.Errorf("collection %d, as a model of 80 MiB was opened after %d: the limit is %d MiB, want %d", i, window, got/mib, want/mib)
		}
	}
}
