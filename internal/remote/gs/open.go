package gs

import (
	"context"
	"fmt"
	"path"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Options say how names are looked up.
type Options = remote.Options

// objectList is what a name was, as it is pinned.
type objectList struct{ Objects []object }

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
	b := &bucket{client: o.Client, at: at, name: p.Bucket, keys: newKeys(o, emulator), payer: o.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT")}
	q := remote.Question[objectList]{Name: name, Who: "the server", Offline: o.Offline, Ask: func(ctx context.Context) (objectList, error) {
		ctx, cancel := o.Client.Within(ctx)
		defer cancel()
		list, err := b.findObjects(ctx, p)
		return objectList{list}, err
	}}
	q.Kept, q.Keep = remote.Kept[objectList](o.Store, fmt.Sprintf("%s%s/%s at %s", Scheme, p.Bucket, p.Key, at.String()))
	a, err := q.Answer(ctx)
	if err != nil {
		return nil, "", err
	}
	l, err := listing(a, p, b, o)
	if err != nil {
		return nil, "", err
	}
	if !p.IsDir() {
		return l, path.Base(p.Key), nil
	}
	file, err := l.Choose()
	return l, file, err
}

// findObjects asks the server.
func (b *bucket) findObjects(ctx context.Context, p remote.ObjectName) ([]object, error) {
	if !p.IsDir() {
		return remote.Shards(ctx, p, b.look)
	}
	all, err := b.list(ctx, p)
	if err == nil && len(all) == 0 {
		err = &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: "there are no objects whose names begin so", Advice: "check the name", Kind: syscall.ENOENT}
	}
	return all, err
}

// listing makes a listing of what was found.
func listing(a remote.Answer[objectList], p remote.ObjectName, b *bucket, o Options) (*remote.Listing, error) {
	name := p.At(p.Folder()).String()
	items := make([]remote.Item, len(a.Value.Objects))
	for i, x := range a.Value.Objects {
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
