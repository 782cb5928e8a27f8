package gs

import (
	"context"
	"fmt"

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
	return b.objects(p).Open(ctx, name, p, o)
}

// objects returns how the objects of a name are found.
func (b *bucket) objects(p remote.ObjectName) remote.Objects[object] {
	return remote.Objects[object]{
		Pin:   fmt.Sprintf("%s%s/%s at %s", Scheme, p.Bucket, p.Key, b.at.String()),
		Find:  func(ctx context.Context) ([]object, error) { return b.findObjects(ctx, p) },
		Item:  func(x object) (remote.Object, error) { return b.item(x, p.At(x.Key)), nil },
		Wrong: func(problem string) error { return wrong(p, problem) },
	}
}

// findObjects asks the server.
func (b *bucket) findObjects(ctx context.Context, p remote.ObjectName) ([]object, error) {
	if p.IsDir() {
		return b.list(ctx, p)
	}
	return remote.Shards(ctx, p, b.look)
}

// item describes an object for a listing.
func (b *bucket) item(x object, p remote.ObjectName) remote.Object {
	item := remote.Object{
		Key:    x.Key,
		ID:     cache.ID{Key: fmt.Sprintf("gs %q %q %q %s", b.at.String(), p.Bucket, x.Key, x.Generation), Size: x.Size, Digest: x.digest(), ModTime: x.Time},
		Host:   b.at.Host,
		Origin: &objectOrigin{b: b, o: x, p: p},
	}
	if x.Packed {
		item.Refusal = packed(p)
	}
	return item
}
