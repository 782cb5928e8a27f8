package gs

import (
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// FuzzListing reads any text as a server's listing: what is taken of it has names
// and sizes that files can have.
func FuzzListing(f *testing.F) {
	f.Add(`{"nextPageToken":"t","items":[{"name":"m/a b","size":"12","generation":"1","md5Hash":"1B2M2Y8AsgTpgAmY7PhCfg==","crc32c":"AAAAAA==","updated":"2026-01-02T03:04:05.000Z"}]}`)
	f.Add(`{"items":[{"name":"m/../x","size":"1","generation":"1"},{"name":"m/x","size":"1","generation":"-1"}]}`)
	f.Add(`{"items":{"name":1}}`)
	f.Add(`{"error":{"message":"x"}}`)
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		said([]byte(body))
		objects, _, err := readPage([]byte(body))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		at := remote.ObjectName{Scheme: Scheme, Bucket: "b", Key: "m/"}
		l, err := (&bucket{name: "b"}).objects(at).Listing(remote.Answer[[]object]{Value: objects, Offline: "--offline"}, at, Options{Store: store})
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

// FuzzName takes any name apart: one that is taken is put together again, and its
// address leads to the server and names the object.
func FuzzName(f *testing.F) {
	for _, s := range []string{"gs://bucket/key", "gs://bucket/a/b/", "gs://b.c/", "gs://bucket", "gs://a@b/c", "gs://bucket//../x?y#z%2F", "gs:///"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := parse(name)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		if got := Scheme + p.Bucket + "/" + p.Key; got != name && got != name+"/" {
			t.Errorf("%q is %q", name, got)
		}
		u, err := url.Parse(address(public, p.Bucket, p.Key, true).String())
		if err != nil || u.Host != public.Host || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			t.Fatalf("%q is at %s: %v", name, u, err)
		}
		rest, ok := strings.CutPrefix(u.EscapedPath(), "/download/storage/v1/b/"+p.Bucket+"/o")
		key, err := url.PathUnescape(strings.TrimPrefix(rest, "/"))
		if !ok || err != nil || key != p.Key || strings.Count(rest, "/") > 1 {
			t.Errorf("%q is at %s", name, u)
		}
	})
}

// FuzzCredentials checks any text as credentials: what is passed on names no host but Google's, GitHub's
// and Azure's, and no program.
func FuzzCredentials(f *testing.F) {
	f.Add(user, true)
	f.Add(`{"type":"service_account","token_uri":"https://evil/","TOKEN_URI":"https://oauth2.googleapis.com/token"}`, false)
	f.Add(`{"type":"external_account","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"url":"http://169.254.169.254/x","executable":{"command":"x"}}}`, true)
	f.Fuzz(func(t *testing.T, content string, own bool) {
		_, clean, err := check("name", []byte(content), giver(own))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		o, err := jsonobj.Parse(clean)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range []jsonobj.Raw{o.Raw("token_uri"), o.Raw("token_url"), o.Raw("service_account_impersonation_url"), o.Raw("source_credentials").Member("token_uri"), o.Raw("source_credentials").Member("token_url")} {
			if u, err := url.Parse(raw.Text()); err != nil || raw.Text() != "" && (u.Scheme != "https" || !strings.HasSuffix(u.Host, ".googleapis.com") && u.Host != "accounts.google.com") {
				t.Errorf("%s is passed on", clean)
			}
		}
		if s := o.Raw("credential_source"); s.Member("executable").Kind() != 0 || s.Member("certificate").Kind() != 0 {
			t.Errorf("%s is passed on", clean)
		}
	})
}
