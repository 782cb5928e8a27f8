package remote

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Options are what a protocol needs to find a model: with what it asks, and whether it
// may.
type Options struct {
	Client  *web.Client
	Store   *cache.Store
	Offline string // the setting that forbids requests, "" if they are allowed; names then keep their last meaning
	// Known takes the last meaning of a name without asking whether it is still the same. Bytes are
	// fetched all the same.
	Known bool
	// Download has brought into the cache what cannot be read in parts: a file of a server without
	// ranges, however large it is, and what a compressed layer unpacks to.
	Download bool
	// HubCache is the cache of Hugging Face's own programs, which is only read; "" for
	// none.
	HubCache string
	// Progress, if not nil, is told of long operations: a description and the number of
	// bytes, 0 if unknown. Of the returned functions, add counts bytes as they arrive, and
	// end runs at the end.
	Progress func(what string, total int64) (add func(n int64), end func())
	Env      func(name string) string // nil: os.Getenv
}

// Getenv returns a variable of the environment.
func (o *Options) Getenv(name string) string {
	if o.Env == nil {
		return os.Getenv(name)
	}
	return o.Env(name)
}

// Listing returns a listing of items, whose directories are of a time. note is what the
// user of the answer should know. See NewListing.
func (o *Options) Listing(name string, items []Item, at time.Time, note string) (*Listing, error) {
	l, err := NewListing(name, items, o.Client, o.Store)
	if err != nil {
		return nil, err
	}
	l.ModTime, l.Note, l.Progress = at, note, o.Progress
	return l, nil
}

// Scheme returns how a host is asked, which may have a port: "https", or "http" if it is
// surely this machine, which needs no protection.
func Scheme(host string) string {
	host = (&url.URL{Host: host}).Hostname()
	if a, err := netip.ParseAddr(host); host == "localhost" || err == nil && a.IsLoopback() {
		return "http"
	}
	return "https"
}

// Gigabytes is a size in words.
func Gigabytes(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
