package readahead

import "time"

// Pace finds how many parts of a file to have under way at a time: it adds parts for as long
// as that raises the bytes per second. A slow disk and a server that limits each connection
// give more bytes to more parts; other parts would only take from each other. The caller
// guards it.
type Pace struct {
	Parts int64 // under way at a time, at most
	More  int64 // how many are added at a time
	Most  int64 // never more than these
	Size  int64 // of a part, in bytes

	settled bool
	rate    float64   // bytes a second with fewer parts
	bytes   int64     // that came since; below 0 they do not count: more parts have to begin
	since   time.Time // zero: nothing is measured
}

const (
	sample = 4   // parts' bytes are measured of each number of parts
	gain   = 1.1 // of the rate, for which more parts are kept
)

// Came notes that n bytes came while so many parts are under way, and reports whether Parts
// has changed.
func (p *Pace) Came(n, under int64, now time.Time) bool {
	switch {
	case p.settled:
		return false
	case under < p.Parts/2: // the reader is slow, and not the server or the disk
		p.since = time.Time{}
		return false
	case p.since.IsZero():
		p.bytes, p.since = -p.Size, now
	}
	if p.bytes < 0 {
		p.since = now
	}
	p.bytes += n
	took := now.Sub(p.since)
	if p.bytes < sample*p.Size || took <= 0 {
		return false
	}
	rate, before := float64(p.bytes)/took.Seconds(), p.Parts
	p.since = time.Time{}
	switch {
	case rate < gain*p.rate:
		p.Parts -= p.More
		p.settled = true
	case p.Parts == p.Most:
		p.settled = true
	default:
		p.rate = rate
		p.Parts = min(p.Parts+p.More, p.Most)
	}
	return p.Parts != before
}
