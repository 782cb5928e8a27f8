package remote

import (
	"os"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Options are what a protocol needs to find a model: with what it asks, and whether it
// may.
type Options struct {
	Client  *web.Client
	Store   *cache.Store
	Offline string // what forbids asking, "" if nothing does: names stand for what they stood for the last time
	// Download has a file of a server without ranges brought into the cache, however
	// large it is.
	Download bool
	// HubCache is the cache of Hugging Face's own programs, which is only read; "" for
	// none.
	HubCache string
	// Progress, if it is not nil, is told of what takes long: what it is, and of how many
	// bytes. It returns what is called as they come, and at the end.
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

// Listing returns a listing of items. See NewListing.
func (o *Options) Listing(name string, items []Item) (*Listing, error) {
	l, err := NewListing(name, items, o.Client, o.Store)
	if err == nil {
		l.Progress = o.Progress
	}
	return l, err
}
