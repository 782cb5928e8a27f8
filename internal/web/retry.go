package web

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// transient reports whether the same request may succeed later.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

const (
	firstWait = 250 * time.Millisecond
	maxWait   = 5 * time.Second
)

// wait returns how long to wait before the next attempt: as long as the server asks for,
// but at least as long as without its wish. It returns false if there is no next attempt:
// the error is permanent, or the deadline comes first.
func (c *Client) wait(ctx context.Context, tries int, resp *http.Response, err error) (time.Duration, bool) {
	if errors.Is(err, errPermanent) || ctx.Err() != nil {
		return 0, false
	}
	wait := min(firstWait<<min(tries, 10), maxWait)
	wait = time.Duration(float64(wait) * (0.5 + rand.Float64()))
	if resp != nil {
		if told, ok := Told(resp.Header); ok {
			wait = max(wait, told) // "at once" comes from servers that are busy, too
		}
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
		return wait, false
	}
	return wait, true
}

// Told is how long a server asks to wait: Retry-After in seconds or as a date, or
// the Hub's RateLimit: "resolvers";r=0;t=55.
func Told(h http.Header) (time.Duration, bool) {
	if s := h.Get("Retry-After"); s != "" {
		if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < 1<<20 {
			return time.Duration(n) * time.Second, true
		}
		if at, err := http.ParseTime(s); err == nil {
			return max(0, time.Until(at)), true
		}
	}
	limit := h.Get("RateLimit")
	if !strings.Contains(limit, ";r=0;") {
		return 0, false
	}
	for part := range strings.SplitSeq(limit, ";") {
		if s, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
			if n, err := strconv.Atoi(s); err == nil && n >= 0 && n < 1<<20 {
				return time.Duration(n+1) * time.Second, true
			}
		}
	}
	return 0, false
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// When is when to ask again, for advice: "in 55 s", or "later".
func When(h http.Header) string {
	if wait, ok := Told(h); ok && wait > 0 {
		return fmt.Sprintf("in %.0f s", wait.Seconds())
	}
	return "later"
}
