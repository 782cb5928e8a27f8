//go:build !purego

package kernel

// nativePowers adds whole runs of eight numbers if all of these are finite, and returns how many bytes they have.
func nativePowers(p *Powers, b []byte, columns []float64) int {
	n := len(b) / 32
	if n == 0 || !hasAVX2 {
		return 0
	}
	any, largest := bitsAVX2(&b[0], n)
	if largest >= 0x7F80_0000 {
		return 0
	}
	_ = columns[8*n-1]
	p.any |= any
	powersAVX2(&p.sum[0], &columns[0], &b[0], n)
	return 32 * n
}

// nativeLosses adds blocks until one has numbers for which arithmetic is special, and returns how many bytes they have.
func nativeLosses(l *Losses, b []byte) int {
	n := len(b) / 128
	if n == 0 || !hasAVX2 {
		return 0
	}
	return 128 * (n - lossesAVX2(&l.q4[0], &b[0], n))
}
