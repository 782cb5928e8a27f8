package s3

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Options say how names are looked up.
type Options = remote.Options

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
	return b.objects(p).Open(ctx, name, p, o)
}

// objects returns how the objects of a name are found.
func (b *bucket) objects(p remote.ObjectName) remote.Objects[object] {
	return remote.Objects[object]{
		Pin:   fmt.Sprintf("%s%s/%s at %s", Scheme, p.Bucket, p.Key, b.at),
		Find:  func(ctx context.Context) ([]object, error) { return b.findObjects(ctx, p) },
		Item:  func(x object) (remote.Object, error) { return b.item(x, p.At(x.Key)) },
		Wrong: func(problem string) error { return wrong(p, problem) },
	}
}

// findObjects asks the server.
func (b *bucket) findObjects(ctx context.Context, p remote.ObjectName) ([]object, error) {
	if p.IsDir() {
		return b.list(ctx, p)
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
			return object{key, resp.ContentLength, remote.QuotedETag(resp.Header.Get("ETag")), resp.Header.Get("X-Amz-Version-Id"), at}, nil
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

// item describes an object for a listing.
func (b *bucket) item(x object, p remote.ObjectName) (remote.Object, error) {
	if x.ETag == "" {
		return remote.Object{}, &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: "the server gives it no ETag, so a change would not be seen", Advice: "use a server that gives one, or fetch the model with another program"}
	}
	return remote.Object{
		Key:    x.Key,
		ID:     cache.ID{Key: fmt.Sprintf("s3 %q %q %q %q %q", b.at, p.Bucket, x.Key, x.ETag, x.Version), Size: x.Size, ModTime: x.Time},
		Host:   b.at.address(b.where(), p.Bucket, "").Host,
		Origin: &objectOrigin{b: b, o: x, path: p.String()},
	}, nil
}
