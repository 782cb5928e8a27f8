package s3

import (
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// FuzzListing reads any text as a server's listing: what is taken of it has names
// and sizes that files can have, below what was asked for.
func FuzzListing(f *testing.F) {
	f.Add(`<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>m%2Fa+b</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>12</Size></Contents></ListBucketResult>`)
	f.Add(`<ListBucketResult><Contents><Key>m/../x</Key><ETag>e</ETag></Contents></ListBucketResult>`)
	f.Add(`<!DOCTYPE x [<!ENTITY a "aaaa">]><ListBucketResult><Contents><Key>&a;</Key></Contents></ListBucketResult>`)
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		readFailure([]byte(body))
		p, err := readPage([]byte(body))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		if len(p.objects) > remote.MaxKeys {
			t.Errorf("%d objects", len(p.objects))
		}
		at := remote.ObjectName{Scheme: Scheme, Bucket: "b", Key: "m/"}
		l, err := (&bucket{name: "b"}).objects(at).Listing(remote.Answer[[]object]{Value: p.objects, Offline: "--offline"}, at, Options{Store: store})
		if err != nil {
			return
		}
		for _, x := range l.Items() {
			if !fs.ValidPath(x.Name) || x.Size() < 0 || x.ID.Key == "" {
				t.Errorf("%+v", x)
			}
		}
	})
}

// FuzzName takes any name apart: one that is taken is put together again, and its
// address leads to the server.
func FuzzName(f *testing.F) {
	for _, s := range []string{"s3://bucket/key", "s3://bucket/a/b/", "s3://b.c/", "s3://bucket", "s3://a@b/c", "s3://bucket//../x?y#z", "s3:///"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := names.Parse(name)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		if got := Scheme + p.Bucket + "/" + p.Key; got != name && got != name+"/" {
			t.Errorf("%q is %q", name, got)
		}
		if !strings.HasPrefix(p.Key, p.Folder()) {
			t.Errorf("%q is not below %q", p.Key, p.Folder())
		}
		u := endpoint{}.address("us-east-1", p.Bucket, p.Key)
		if !strings.HasSuffix(u.Host, "s3.us-east-1.amazonaws.com") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			t.Errorf("%q is at %s", name, u)
		}
		if again, err := url.Parse(u.String()); err != nil || again.Path != u.Path || again.Host != u.Host {
			t.Errorf("%q is at %s: %v", name, u, err)
		}
	})
}
