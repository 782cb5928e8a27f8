package az

import (
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// FuzzListing reads any text as a server's listing: what is taken of it has names
// and sizes that files can have.
func FuzzListing(f *testing.F) {
	f.Add(`<EnumerationResults><Blobs><Blob><Name>m/a b</Name><Properties><Etag>0x8D</Etag><Content-Length>12</Content-Length><Content-MD5>1B2M2Y8AsgTpgAmY7PhCfg==</Content-MD5></Properties></Blob></Blobs><NextMarker>t</NextMarker></EnumerationResults>`)
	f.Add(`<EnumerationResults><Blobs><Blob><Name Encoded="true">m/..%2Fx</Name><Properties><Etag>e</Etag><Content-Length>1</Content-Length></Properties></Blob></Blobs></EnumerationResults>`)
	f.Add("\ufeff<Error><Code>x</Code></Error>")
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		f.Fatal(err)
	}
	p, err := parse("az://container/m/")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		blobs, _, err := readPage([]byte(body))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		l, err := testStore.objects(p).Listing(remote.Answer[[]blob]{Value: blobs, Offline: "--offline"}, p.ObjectName, Options{Store: store})
		if err != nil {
			return
		}
		for _, x := range l.Items() {
			if _, err := cache.NewHash(x.ID.Digest, x.Size()); err != nil || !fs.ValidPath(x.Name) || x.Size() < 0 || x.ID.Key == "" {
				t.Errorf("%+v: %v", x, err)
			}
		}
	})
}

var testStore = store{container: "container", access: access{at: url.URL{Scheme: "https", Host: "acct.blob.core.windows.net"}}}

// FuzzName takes any name apart: one that is taken leads to a host of Azure or of the settings, and
// names the blob; no error has what follows the question mark.
func FuzzName(f *testing.F) {
	for _, s := range []string{"az://container/key", "az://container/a/b/", "az://c0n@acct.dfs.core.windows.net/x", "az://acct.blob.core.windows.net/c0n/x?sig=hunter2", "az://a@b/c", "az://c0n//../x#z%2F", "az:///", "az://$web/x y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := parse(name)
		before, _, _ := strings.Cut(name, "?")
		if err != nil {
			if _, without := parse(before); strings.Contains(err.Error(), "\n") || without == nil || err.Error() != without.Error() {
				t.Errorf("%q, and without a token %v", err, without)
			}
			return
		}
		a, err := readSettings(p, func(name string) string { return map[string]string{accountSetting: "acct"}[name] })
		if err != nil {
			return
		}
		at := address(a.at, p.container, p.Key)
		u, err := url.Parse(at.String())
		if err != nil || !accountHost().MatchString(u.Host) || u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			t.Fatalf("%q is at %s: %v", name, at, err)
		}
		if p.Key != "" && u.Path != "/"+p.container+"/"+p.Key {
			t.Errorf("%q is at %s", name, u)
		}
		if !strings.HasSuffix(before, p.Key) || !strings.Contains(before, p.container) {
			t.Errorf("%q is %+v", name, p)
		}
	})
}
