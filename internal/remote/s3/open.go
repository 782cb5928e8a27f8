package s3

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Options say how names are looked up.
type Options = remote.Options

// objectList is what a name was, as it is pinned.
type objectList struct{ Objects []object }

// Open looks up s3://BUCKET/KEY or s3://BUCKET/PREFIX/ and returns the objects, and the
// model among them: "." means all of them. The server and the credentials come from the
// environment. Errors are one line, without anything secret.
func Open(ctx context.Context, name string, o Options) (*remote.Listing, string, error) {
	p, err := names.Parse(name)
	if err != nil {
		return nil, "", err
	}
	at, region, err := ofSettings(o.Client)
	if err != nil {
		return nil, "", err
	}
	b := &bucket{client: o.Client, at: at, name: p.Bucket, keys: newKeys(o.Client), region: region}
	pin := fmt.Sprintf("%s%s/%s at %s", Scheme, p.Bucket, p.Key, at)
	q := remote.Question[objectList]{Name: name, Who: "the server", Offline: o.Offline, Ask: func(ctx context.Context) (objectList, error) {
		ctx, cancel := o.Client.Within(ctx)
		defer cancel()
		list, err := b.findObjects(ctx, p)
		return objectList{list}, err
	}}
	q.Kept, q.Keep = remote.Kept[objectList](o.Store, pin)
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
	if p.IsDir() {
		all, err := b.list(ctx, p)
		if err == nil && len(all) == 0 {
			err = &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: "there are no objects whose keys begin so", Advice: "check the name", Kind: meanings["NoSuchKey"].kind}
		}
		return all, err
	}
	return remote.Shards(ctx, p, b.head)
}

// head looks up an object. A refusal of HEAD has no body and perhaps not even the region,
// so the error, or the region, is taken from a GET.
func (b *bucket) head(ctx context.Context, key string) (object, error) {
	var resp *http.Response
	var body []byte
	for range 2 {
		var err error
		if resp, _, err = b.do(ctx, maxPage, http.MethodHead, key, nil, ""); err != nil {
			return object{}, err
		}
		if resp.StatusCode == http.StatusOK {
			at, _ := http.ParseTime(resp.Header.Get("Last-Modified"))
			return object{key, resp.ContentLength, quoted(resp.Header.Get("ETag")), resp.Header.Get("X-Amz-Version-Id"), at}, nil
		}
		if resp, body, err = b.do(ctx, maxPage, http.MethodGet, key, nil, "bytes=0-0"); err != nil {
			return object{}, err
		}
		if resp.StatusCode != http.StatusPartialContent {
			break
		}
	}
	return object{}, b.refused(ctx, Scheme+b.name+"/"+key, key, resp, body)
}

// listing makes a listing of what was found.
func listing(a remote.Answer[objectList], p remote.ObjectName, b *bucket, o Options) (*remote.Listing, error) {
	f := a.Value
	name := p.At(p.Folder()).String()
	items := make([]remote.Item, len(f.Objects))
	for i, x := range f.Objects {
		rel, ok := p.Below(x.Key)
		file := name + "/" + rel
		switch {
		case !ok:
			return nil, wrong(p, tensorfs.Quote(x.Key)+" is not below it")
		case x.ETag == "":
			return nil, &tensorfs.FormatError{File: file, Offset: -1, Problem: "the server gives it no ETag, so a change would not be seen", Advice: "use a server that gives one, or fetch the model with another program"}
		}
		items[i] = remote.Item{
			Name:   rel,
			ID:     cache.ID{Key: fmt.Sprintf("s3 %q %q %q %q %q", b.at, p.Bucket, x.Key, x.ETag, x.Version), Size: x.Size, Source: file, ModTime: x.Time},
			Host:   b.at.address(b.where(), p.Bucket, "").Host,
			Origin: a.Origin(&objectOrigin{b: b, o: x, path: file}),
		}
	}
	return o.Listing(name, items, time.Now(), a.Note)
}
