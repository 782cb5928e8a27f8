//go:build !purego

package kernel

// nativeMoments adds whole runs of eight numbers, and returns how many bytes these have. Calls by name let sums stay on
// the stack.
func nativeMoments(m *Moments, b []byte) int {
	n := len(b) / 32
	if n == 0 || !hasAVX2 {
		return 0
	}
	momentsAVX2(&m.sum[0], &b[0], n)
	return 32 * n
}

// nativeDistances is the same for pairs.
func nativeDistances(d *Distances, x, y []byte) int {
	n := len(x) / 32
	if n == 0 || !hasAVX2 {
		return 0
	}
	distancesAVX2(&d.most[0], &x[0], &y[0], n)
	return 32 * n
}
