package web

import "time"

// pace says how many parts of a file are under way at the same time: more of them for as
// long as more bytes come in a second by it. Many servers limit each connection. Where all
// share one limit, more connections would only take from others.
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
