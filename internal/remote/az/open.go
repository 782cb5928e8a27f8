package az

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Options say how names are looked up.
type Options = remote.Options

// Open looks up a blob, or the blobs below a prefix, and returns them, and the model among them:
// "." means all of them. Errors are one line, without anything secret.
func Open(ctx context.Context, name string, o Options) (*remote.Listing, string, error) {
	p, err := parse(name)
	if err != nil {
		return nil, "", err
	}
	a, err := readSettings(p, o.Getenv)
	if err != nil {
		return nil, "", err
	}
	s := &store{access: a, client: o.Client, container: p.container}
	if a.bearer && a.key == nil {
		s.keys = newKeys(o)
	}
	shown, _, _ := strings.Cut(name, "?")
	return remote.Objects[blob]{
		Pin:  fmt.Sprintf("%s%s/%s at %s", Scheme, p.container, p.Key, a.at.String()),
		Find: func(ctx context.Context) ([]blob, error) { return s.findBlobs(ctx, p) },
		List: func(a remote.Answer[[]blob]) (*remote.Listing, error) { return listing(a, p, s, o) },
	}.Open(ctx, shown, p.ObjectName, o)
}

// findBlobs asks the server.
func (s *store) findBlobs(ctx context.Context, p place) ([]blob, error) {
	if p.IsDir() {
		return s.list(ctx, p)
	}
	return remote.Shards(ctx, p.ObjectName, func(ctx context.Context, key string) (blob, error) { return s.look(ctx, p.at(key)) })
}

// listing makes a listing of what was found.
func listing(a remote.Answer[[]blob], p place, s *store, o Options) (*remote.Listing, error) {
	name := p.At(p.Folder()).String()
	items := make([]remote.Item, len(a.Value))
	for i, x := range a.Value {
		rel, ok := p.Below(x.Key)
		if !ok {
			return nil, wrong(p.ObjectName, tensorfs.Quote(x.Key)+" is not below it")
		}
		items[i] = remote.Item{
			Name:   rel,
			ID:     cache.ID{Key: fmt.Sprintf("az %q %q %q %q", s.at.String(), p.container, x.Key, x.ETag), Size: x.Size, Digest: x.digest(), Source: name + "/" + rel, ModTime: x.Time},
			Host:   s.at.Host,
			Origin: a.Origin(&blobOrigin{s: s, b: x, p: p.at(x.Key)}),
		}
	}
	return o.Listing(name, items, time.Now(), a.Note)
}
