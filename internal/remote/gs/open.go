package gs

import (
	"context"
	"fmt"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Options say how names are looked up.
type Options = remote.Options

// Open looks up gs://BUCKET/KEY or gs://BUCKET/PREFIX/ and returns the objects, and the
// model among them: "." means all of them. Errors are one line, without anything secret.
func Open(ctx context.Context, name string, o Options) (*remote.Listing, string, error) {
	p, err := parse(name)
	if err != nil {
		return nil, "", err
	}
	at, emulator, err := endpoint(o.Getenv)
	if err != nil {
		return nil, "", err
	}
	b := &bucket{client: o.Client, at: at, name: p.Bucket, payer: o.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT")}
	if !emulator {
		b.keys = newKeys(o)
	}
	return remote.Objects[object]{
		Pin:  fmt.Sprintf("%s%s/%s at %s", Scheme, p.Bucket, p.Key, at.String()),
		Find: func(ctx context.Context) ([]object, error) { return b.findObjects(ctx, p) },
		List: func(a remote.Answer[[]object]) (*remote.Listing, error) { return listing(a, p, b, o) },
	}.Open(ctx, name, p, o)
}

// findObjects asks the server.
func (b *bucket) findObjects(ctx context.Context, p remote.ObjectName) ([]object, error) {
	if p.IsDir() {
		return b.list(ctx, p)
	}
	return remote.Shards(ctx, p, b.look)
}

// listing makes a listing of what was found.
func listing(a remote.Answer[[]object], p remote.ObjectName, b *bucket, o Options) (*remote.Listing, error) {
	name := p.At(p.Folder()).String()
	items := make([]remote.Item, len(a.Value))
	for i, x := range a.Value {
		rel, ok := p.Below(x.Key)
		if !ok {
			return nil, wrong(p, tensorfs.Quote(x.Key)+" is not below it")
		}
		at := p.At(x.Key)
		items[i] = remote.Item{
			Name:   rel,
			ID:     cache.ID{Key: fmt.Sprintf("gs %q %q %q %s", b.at.String(), p.Bucket, x.Key, x.Generation), Size: x.Size, Digest: x.digest(), Source: name + "/" + rel, ModTime: x.Time},
			Host:   b.at.Host,
			Origin: a.Origin(&objectOrigin{b: b, o: x, p: at}),
		}
		if x.Packed {
			items[i].Origin = packed(at)
		}
	}
	return o.Listing(name, items, time.Now(), a.Note)
}
