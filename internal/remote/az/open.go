package az

import (
	"context"
	"fmt"
	"strings"

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
	return s.objects(p).Open(ctx, shown, p.ObjectName, o)
}

// objects returns how the blobs of a name are found.
func (s *store) objects(p place) remote.Objects[blob] {
	return remote.Objects[blob]{
		Pin:   fmt.Sprintf("%s%s/%s at %s", Scheme, p.container, p.Key, s.at.String()),
		Find:  func(ctx context.Context) ([]blob, error) { return s.findBlobs(ctx, p) },
		Item:  func(x blob) (remote.Object, error) { return s.item(x, p.at(x.Key)), nil },
		Wrong: func(problem string) error { return wrong(p.ObjectName, problem) },
	}
}

// findBlobs asks the server.
func (s *store) findBlobs(ctx context.Context, p place) ([]blob, error) {
	if p.IsDir() {
		return s.list(ctx, p)
	}
	return remote.Shards(ctx, p.ObjectName, func(ctx context.Context, key string) (blob, error) { return s.look(ctx, p.at(key)) })
}

// item describes a blob for a listing.
func (s *store) item(x blob, p place) remote.Object {
	return remote.Object{
		Key:    x.Key,
		ID:     cache.ID{Key: fmt.Sprintf("az %q %q %q %q", s.at.String(), p.container, x.Key, x.ETag), Size: x.Size, Digest: x.digest(), ModTime: x.Time},
		Host:   s.at.Host,
		Origin: &blobOrigin{s: s, b: x, p: p},
	}
}
