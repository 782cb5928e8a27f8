package source

import "golang.org/x/sys/unix"

// Slow is asked only for passthrough and direct reads, which Macs lack.
func (m *Mapped) Slow() bool { return false }

// bringIn has the kernel read a range of the file into its cache.
func (m *Mapped) bringIn(from, to int64) { advise(m.fd, m.step(), from, to) }

// maxAdvised is how much one advice is for: its count has 32 bits.
const maxAdvised = 1 << 30

// advise has the kernel read the pages of a range that are not in its cache.
func advise(fd int, _, from, to int64) {
	for ; from < to; from += maxAdvised {
		// F_RDADVISE takes a struct radvisory: an offset of 64 bits and a count of 32,
		// which are Start and the lower half of Len.
		_ = unix.FcntlFlock(uintptr(fd), unix.F_RDADVISE, &unix.Flock_t{Start: from, Len: min(to-from, maxAdvised)}) // it is only advice
	}
}

// cached is unknown on this system. Only the kernel reads the mapping, and a page that has
// to come from the disk stops no other goroutine.
func (*Mapped) cached(int64, int64) bool { return true }

func readAheadOf(int) int64 { return leastAdvised }
