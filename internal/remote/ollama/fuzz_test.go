package ollama

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

func FuzzManifest(f *testing.F) {
	f.Add(manifestOf([]byte("GGUF")))
	f.Add([]byte(`{"config":{"digest":"sha256:` + digest(nil) + `","size":0},"layers":[]}`))
	r := &registry{model: ollama.Name{Host: "h", Namespace: "n", Model: "m", Tag: "t"}, name: "ollama:h/n/m:t", address: "https://h/v2/n/m"}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := r.listing(remote.Answer[*pinned]{Value: &pinned{Manifest: text}})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("%q", err)
			}
			return
		}
		for _, x := range l.Items() {
			if x.Name != r.model.Manifest() && (!strings.HasPrefix(x.Name, "blobs/sha256-") || x.ID.Size < 0 || x.ID.Size > cache.MaxSize || x.ID.Key != "sha256:"+x.Name[len("blobs/sha256-"):]) {
				t.Errorf("%+v", x)
			}
		}
	})
}

func FuzzName(f *testing.F) {
	f.Add("gemma3:4b")
	f.Add("hf.co/user/repo:Q4_K_M")
	f.Add("http://localhost:5000/ns/m")
	f.Fuzz(func(t *testing.T, name string) {
		n, err := ollama.ParseName(name)
		if err != nil {
			return
		}
		r, err := newRegistry(n, Options{Env: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(r.address + "/manifests/" + n.Tag)
		if err != nil {
			return // a host with a port that is not a number; net/http refuses it too
		}
		if u.Host != n.Host || u.User != nil || u.RawQuery != "" || u.Path != "/v2/"+n.Namespace+"/"+n.Model+"/manifests/"+n.Tag {
			t.Errorf("%q is at %v", name, u)
		}
		if a, err := netip.ParseAddr(u.Hostname()); u.Scheme != "https" && u.Hostname() != "localhost" && (err != nil || !a.IsLoopback()) {
			t.Errorf("%q is at %v", name, u)
		}
	})
}
