package web

import "time"

// pace sets how many parts of a file are fetched concurrently: it adds parts for as long as
// that raises the bytes per second. Many servers limit each connection. If all connections
// share one limit, more of them would only take from each other.
type pace struct {
	parts   int64
	settled bool

	rate  float64   // bytes a second with fewer parts
	bytes int64     // that came since; below 0 they do not count: connections have to begin
	since time.Time // zero: nothing is measured
}

const (
	moreParts = 4
	sample    = 4 * part // what is measured of each number of parts
	gain      = 1.1      // of the rate, for which more parts are kept
)

func newPace() pace { return pace{parts: firstOfFile} }

// came notes that n bytes came while so many parts are under way.
func (p *pace) came(n, under int64, now time.Time) {
	switch {
	case p.settled:
		return
	case under < p.parts/2: // who reads is slow, and not the server
		p.since = time.Time{}
		return
	case p.since.IsZero():
		p.bytes, p.since = -part, now
	}
	if p.bytes < 0 {
		p.since = now
	}
	p.bytes += n
	took := now.Sub(p.since)
	if p.bytes < sample || took <= 0 {
		return
	}
	rate := float64(p.bytes) / took.Seconds()
	p.since = time.Time{}
	switch {
	case rate < gain*p.rate:
		p.parts -= moreParts
		p.settled = true
	case p.parts == maxOfFile:
		p.settled = true
	default:
		p.rate = rate
		p.parts += moreParts
	}
}
