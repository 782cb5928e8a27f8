package oci

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// everyWay pushes all models in all ways and compares them with the local ones: all
// bytes of all views, as asked for, by digest, and offline.
func everyWay(t *testing.T, p pusher, host string, asked func() int) {
	for _, m := range testremote.Models(t, testdata) {
		near := m.Local(t)
		for way, push := range ways {
			t.Run(way+"/"+m.Name, func(t *testing.T) {
				repository := "org/" + way + "/" + m.Name
				push(t, p, repository, "latest", m)
				o := options(t)
				l, file, err := Open(t.Context(), Scheme+host+"/"+repository, o)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(l.Name, Scheme+host+"/"+repository+"@sha256:") {
					t.Error(l.Name)
				}
				testremote.Same(t, l, file, near)
				byDigest, _, _ := strings.Cut(strings.TrimPrefix(l.Name, Scheme), "/a-long-name")
				l, file, err = Open(t.Context(), Scheme+byDigest, options(t))
				if err != nil {
					t.Fatal(err)
				}
				testremote.Same(t, l, file, near)
				before := asked()
				o.Offline = "--offline"
				l, file, err = Open(t.Context(), Scheme+host+"/"+repository+":latest", o)
				if err != nil {
					t.Fatal(err)
				}
				testremote.Same(t, l, file, near)
				if n := asked() - before; n != 0 {
					t.Errorf("%d requests although offline", n)
				}
			})
		}
	}
}

// Row 22: the kinds of artifacts.
func TestModels(t *testing.T) {
	environ(t, "")
	f := newFake(t)
	everyWay(t, f, f.host(), func() int { return len(f.requests()) })
}

// Where blobs are at another server that must not see the token, and tokens are
// given out at a third, both for a few requests only.
func TestRedirectsAndTokens(t *testing.T) {
	// tokenUses is the number of requests after which a token expires. It is more than three,
	// because concurrently opened shards each take a request before the first shard has used its
	// own.
	const tokenUses = 10
	for _, tt := range []struct {
		name, login, config string
		redirect            bool
		uses                int
	}{
		{name: "redirect", redirect: true},
		{name: "redirects end", redirect: true, uses: 3},
		{name: "anonymous token", login: "Bearer"},
		{name: "tokens end", login: "Bearer", uses: tokenUses},
		{name: "both end", login: "Bearer", redirect: true, uses: tokenUses},
		{name: "password", login: "Bearer", config: "auths", uses: tokenUses},
		{name: "identity token", login: "Bearer", config: "identity", redirect: true},
		{name: "helper", login: "Bearer", config: "helper"},
		{name: "basic", login: "Basic", config: "auths", redirect: true},
		{name: "given", login: "Bearer", config: "given"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			f.login, f.redirect, f.uses = tt.login, tt.redirect, tt.uses
			m := testremote.Models(t, testdata)[2]
			ways["docker-v0.1"](t, f, "a/b", "latest", m)
			big := bytes.Repeat([]byte("0123456789abcdef"), 40<<16) // 40 MiB: several ranges
			digest := push(t, f, "a/big", "latest", "", dockerV2, entry{"application/vnd.docker.ai.gguf.v3", big, named("big.gguf")})
			switch tt.config {
			case "":
				environ(t, known("other.example", "me:hunter2"))
			case "auths":
				f.user = "me:hunter2"
				environ(t, known(f.host(), f.user))
			case "given":
				f.user = "me:hunter2"
				environ(t, known(f.host(), "me:of a file"))
				t.Setenv(loginEnv, known(f.host(), f.user))
			case "identity":
				f.user = "hunter2-identity"
				environ(t, fmt.Sprintf(`{"auths":{%q:{"auth":"","identitytoken":%q}}}`, f.host(), f.user))
			case "helper":
				f.user = "me:hunter2"
				environ(t, fmt.Sprintf(`{"credHelpers":{%q:"test"}}`, f.host()))
				bin := t.TempDir()
				script := "#!/bin/sh\nread host\n[ \"$1 $host\" = \"get " + f.host() + "\" ] || exit 1\necho '{\"ServerURL\":\"x\",\"Username\":\"me\",\"Secret\":\"hunter2\"}'\n"
				if err := os.WriteFile(filepath.Join(bin, "docker-credential-test"), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
				t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			}
			o := options(t)
			l, file, err := Open(t.Context(), Scheme+f.host()+"/a/b", o)
			if err != nil {
				t.Fatal(err)
			}
			testremote.Same(t, l, file, m.Local(t))
			l, file, err = Open(t.Context(), Scheme+f.host()+"/a/big", o)
			if err != nil || l.Name != Scheme+f.host()+"/a/big@"+digest {
				t.Fatal(err)
			}
			r, err := l.OpenFile(file)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got := make([]byte, 1000)
			for off := int64(0); off < int64(len(big))-1000; off += 3 << 20 {
				if err := tensorfs.ReadFull(r.Section(0, r.Size()), got, off); err != nil || !bytes.Equal(got, big[off:off+1000]) {
					t.Fatalf("at %d: %v", off, err)
				}
			}
			if tt.login == "Bearer" && tt.uses > 0 && f.given < 3 { // one for each of the two repositories
				t.Errorf("%d tokens were given out: none ended", f.given)
			}
			if len(f.strangers) > 0 {
				t.Errorf("storage was sent %q", f.strangers)
			}
			if f.redirect && f.uses == 0 {
				n := 0
				for _, a := range f.requests() {
					if strings.Contains(a, "/a/big/blobs/") {
						n++
					}
				}
				if n != 1 {
					t.Errorf("the blob's address was asked for %d times", n)
				}
			}
			if tt.config == "" && slices.ContainsFunc(f.logins, func(s string) bool { return s != "" }) {
				t.Errorf("tokens were asked for with %q", f.logins)
			}
		})
	}
}

// firstBytes opens the model of a name, and returns what reads ten bytes of it at an offset. The
// first ones were read.
func firstBytes(t *testing.T, f *fake, name string) func(off int64) error {
	t.Helper()
	l, file, err := Open(t.Context(), Scheme+f.host()+name, options(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	read := func(off int64) error { return tensorfs.ReadFull(r.Section(0, r.Size()), make([]byte, 10), off) }
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	return read
}

// A process that is given another login asks for the next token with it.
func TestLoginChanges(t *testing.T) {
	f := newFake(t)
	f.login, f.user, f.uses = "Bearer", "me:one", 3
	environ(t, "")
	t.Setenv(loginEnv, known(f.host(), f.user))
	push(t, f, "a/big", "latest", "", dockerV2, entry{"application/vnd.docker.ai.gguf.v3", make([]byte, 40<<20), named("big.gguf")})
	read := firstBytes(t, f, "/a/big")
	f.user = "me:two"
	t.Setenv(loginEnv, known(f.host(), f.user))
	for off := int64(0); off < 40<<20; off += 3 << 20 {
		if err := read(off); err != nil {
			t.Fatal(err)
		}
	}
	if want := "Basic " + base64.StdEncoding.EncodeToString([]byte(f.user)); f.logins[len(f.logins)-1] != want {
		t.Errorf("logins were %q, and none was %q at last", f.logins, want)
	}
}

// Row 22: refused requests, with one line that names the next step.
func TestErrors(t *testing.T) {
	const gguf, weight = "application/vnd.docker.ai.gguf.v3", "application/vnd.cncf.model.weight.v1."
	data := []byte("GGUF")
	f := newFake(t)
	push(t, f, "a/gzip", "latest", packed, modelPack, entry{weight + "tar+gzip", data, named("m.gguf")})
	push(t, f, "a/zstd", "latest", "", kitops, entry{"application/vnd.kitops.modelkit.model.v1.tar+zstd", data, nil})
	push(t, f, "a/lz4", "latest", packed, modelPack, entry{weight + "tar+lz4", data, named("m.gguf")})
	push(t, f, "a/rawgzip", "latest", packed, modelPack, entry{weight + "raw+gzip", data, named("m.gguf")})
	push(t, f, "a/parent", "latest", packed, modelPack, entry{weight + "raw", data, named("../x")})
	push(t, f, "a/absolute", "latest", "", dockerV2, entry{gguf, data, named("/etc/x.gguf")})
	push(t, f, "a/twice", "latest", "", dockerV2, entry{gguf, data, named("x")}, entry{gguf, []byte("other"), named("x")})
	push(t, f, "a/both", "latest", "", dockerV2, entry{gguf, data, named("x")}, entry{gguf, data, named("x/y")})
	push(t, f, "a/unnamed", "latest", packed, modelPack, entry{weight + "raw", data, nil})
	push(t, f, "a/image", "latest", "", ociImage, entry{"application/vnd.oci.image.layer.v1.tar+gzip", data, nil})
	push(t, f, "a/empty", "latest", "", ociImage)
	push(t, f, "a/other", "latest", "", "application/vnd.example.config", entry{"application/vnd.example", data, nil})
	push(t, f, "a/two", "latest", "", dockerV2, entry{gguf, data, named("x.gguf")}, entry{gguf, data, named("y.gguf")})
	links := map[string]byte{"link": tar.TypeSymlink, "hardlink": tar.TypeLink, "fifo": tar.TypeFifo}
	for name, kind := range links {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		w.WriteHeader(&tar.Header{Typeflag: kind, Name: "m.gguf", Linkname: "/etc/passwd"})
		w.Close()
		push(t, f, "a/"+name, "latest", packed, modelPack, entry{weight + "tar", b.Bytes(), nil})
	}
	push(t, f, "a/tarparent", "latest", packed, modelPack, entry{weight + "tar", archive(t, tar.FormatPAX, map[string][]byte{"../x": data}, ""), nil})
	push(t, f, "a/deep", "latest", packed, modelPack, entry{weight + "raw", data, named(strings.Repeat("a/", 60_000) + "m.gguf")})
	push(t, f, "a/tardeep", "latest", packed, modelPack, entry{weight + "tar", archive(t, tar.FormatPAX, map[string][]byte{strings.Repeat("a/", 60_000) + "m.gguf": data}, ""), nil})
	push(t, f, "a/headers", "latest", packed, modelPack, entry{weight + "tar", headers(t), nil})
	whole := archive(t, tar.FormatPAX, map[string][]byte{"m.gguf": make([]byte, 5000)}, "")
	push(t, f, "a/cut", "latest", packed, modelPack, entry{weight + "tar", whole[:3000], nil})
	push(t, f, "a/nottar", "latest", packed, modelPack, entry{weight + "tar", bytes.Repeat([]byte("no tar "), 1000), nil})
	good := push(t, f, "a/good", "latest", "", dockerV2, entry{gguf, data, named("x.gguf")})
	for _, name := range []string{"latest", good} {
		f.manifests["a/changed "+name] = bytes.Replace(f.manifests["a/good "+name], []byte("x.gguf"), []byte("y.gguf"), 1)
	}
	index := func(repository string, entries ...map[string]any) {
		text, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": ociIndex, "manifests": append([]map[string]any{}, entries...)})
		f.manifest(t, repository, "latest", ociIndex, text)
		f.manifests[repository+" "+good] = f.manifests["a/good "+good]
	}
	one := map[string]any{"mediaType": ociManifest, "digest": good, "size": len(f.manifests["a/good "+good])}
	machine := map[string]any{"mediaType": ociManifest, "digest": good, "size": 1, "platform": map[string]any{"os": "linux", "architecture": "amd64"}}
	index("a/index0")
	index("a/index1", one)
	index("a/index1p", machine)
	index("a/index2", machine, one, machine)
	index("a/index3", one, one)
	index("a/index4", machine, machine)
	inner, _ := json.Marshal(map[string]any{"manifests": []any{one}})
	f.manifests["a/index5 "+digestOf(inner)] = inner
	index("a/index5", map[string]any{"digest": digestOf(inner), "size": 1})
	for name, text := range map[string]string{"notjson": "<html>", "both2": `{"layers":[],"manifests":[]}`, "neither": "{}", "object": `{"layers":{}}`, "digest": `{"layers":[{"digest":"md5:1","size":1}]}`,
		"size": `{"layers":[{"digest":"` + good + `","size":-1}]}`, "nosize": `{"layers":[{"digest":"` + good + `"}]}`, "many": `{"layers":[` + strings.Repeat(`{"size":1,"digest":"`+good+`"},`, maxLayers) + `{}]}`} {
		f.manifest(t, "a/"+name, "latest", ociManifest, []byte(text))
	}
	at := func(repository string) string { return Scheme + f.host() + "/a/" + repository }
	for _, tt := range []struct {
		name string
		want string // "" for none
		kind error
	}{
		{at("gzip"), "its layer 1 is compressed (gzip), so that parts of it cannot be read; use --download, or run 'tensorfs fetch', to unpack it into the cache", tensorfs.ErrUnsupported},
		{at("zstd"), "its layer 1 is compressed (zstd), so that", tensorfs.ErrUnsupported},
		{at("lz4"), "its layer 1 is compressed (lz4), which tensorfs does not unpack; ", tensorfs.ErrUnsupported},
		{at("rawgzip"), "its layer 1 is a compressed file (gzip), which tensorfs does not unpack; ", tensorfs.ErrUnsupported},
		{at("parent"), `"../x" is not the name of a file in a model; `, nil},
		{at("absolute"), `"/etc/x.gguf" is not the name of a file in a model; `, nil},
		{at("tarparent"), `"../x" is not the name of a file in a model; `, nil},
		{at("deep"), `... (120006 bytes) is longer than 4096 bytes; `, nil},
		{at("tardeep"), `... (120006 bytes) is longer than 4096 bytes; `, nil},
		{at("headers"), "the archive has more than 64 MiB of headers; ", nil},
		{at("twice"), `"x" is there twice; `, nil},
		{at("both"), `"x" is a file and also a directory; `, nil},
		{at("unnamed"), "its layer 1 (application/vnd.cncf.model.weight.v1.raw) has no name; ", nil},
		{at("image"), "its layer 1 is compressed (gzip), so that", nil},
		{at("empty"), "it is a container, not a model; ", nil},
		{at("other"), `it is not an artifact with a model that tensorfs knows, but "application/vnd.example.config"; `, nil},
		{at("two"), "it holds 2 models: x.gguf, y.gguf; name one of them", nil},
		{at("link"), `"m.gguf" is a link to "/etc/passwd", which it does not hold; `, nil},
		{at("hardlink"), `"m.gguf" is a link to "/etc/passwd", which it does not hold; `, nil},
		{at("fifo"), `the archive has "m.gguf", which is not a regular file; `, nil},
		{at("cut"), `the archive ends before the end of "m.gguf"; `, nil},
		{at("nottar"), "the archive is damaged near byte ", nil},
		{at("changed") + "@" + good, "its manifest is not the one of its digest; the registry is at fault; ", nil},
		{at("index0"), "it is an index of 0 artifacts, and does not say which one is the model; name one of them as oci://REGISTRY/REPOSITORY@sha256:HEX", nil},
		{at("index1"), "", nil},
		{at("index1p"), "", nil},
		{at("index2"), "", nil},
		{at("index3"), "it is an index of 2 artifacts", nil},
		{at("index4"), "it is an index of 2 artifacts", nil},
		{at("index5"), "it is an index in an index; ", nil},
		{at("notjson"), "its manifest is not JSON that can be read; ", nil},
		{at("both2"), "its manifest must list either layers or manifests; ", nil},
		{at("neither"), "its manifest must list either layers or manifests; ", nil},
		{at("object"), "its manifest has layers that are not a list; ", nil},
		{at("digest"), `its manifest names "md5:1", which is not a SHA-256 digest; `, nil},
		{at("size"), "its manifest gives a size that no file can have; ", nil},
		{at("nosize"), "its manifest gives a size that no file can have; ", nil},
		{at("many"), "its manifest has more than 10000 layers; ", nil},
		{at("none"), "there is no such artifact, or none that you may see; check the name, or run 'docker login " + f.host() + "'", fs.ErrNotExist},
		{"oci://me:hunter2@host/a", "oci://...@host/a: credentials do not belong into a name; run 'docker login'", nil},
		{"oci://host/UPPER", "oci://host/UPPER: it is not the name of an artifact; write oci://REGISTRY/REPOSITORY:TAG, or oci://REGISTRY/REPOSITORY@sha256:HEX", nil},
		{"oci://host/a@sha256:12", "oci://host/a@sha256:12: what follows the @ is not sha256: and 64 digits; ", nil},
		{"oci://host/../b", "it is not the name of an artifact", nil},
		{"oci://host", "it is not the name of an artifact", nil},
	} {
		t.Run(strings.TrimPrefix(tt.name, Scheme+f.host()+"/"), func(t *testing.T) {
			environ(t, "")
			_, _, err := Open(t.Context(), tt.name, options(t))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "unter2") || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), Scheme) {
				t.Errorf("%v", err)
			}
			if tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("%v is not %v", err, tt.kind)
			}
		})
	}
	environ(t, "")
	f.set(func() {
		f.fault = func(w http.ResponseWriter, r *http.Request) bool { // by tag only its header tells
			w.Header().Set("Docker-Content-Digest", good)
			w.Write(f.manifests["a/changed latest"])
			return true
		}
	})
	if _, _, err := Open(t.Context(), at("good"), options(t)); err == nil || !strings.Contains(err.Error(), "its manifest is not the one of its digest") {
		t.Errorf("%v", err)
	}
}

// headers is an archive of headers without an end.
func headers(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for range maxHeaders>>20 + 2 {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(b.Len()), PAXRecords: map[string]string{"X.comment": strings.Repeat("x", 1<<20-100)}, Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// Logins that fail, and what is sent where.
func TestLogin(t *testing.T) {
	for _, tt := range []struct {
		name, login, config, realm string
		want                       string
	}{
		{"basic", "Basic", "{}", "", "the registry wants a login; try 'docker login "},
		{"basic, wrong password", "Basic", "wrong", "", "these credentials may not read it, or it does not exist; check the name, or run 'docker login "},
		{"no credentials", "Bearer", "{}", "", "the registry gives no token to these credentials, or the repository does not exist; try 'docker login "},
		{"wrong password", "Bearer", "wrong", "", "the registry gives no token to these credentials, or "},
		{"broken config", "Bearer", `{"auths":{"hunter2`, "", "Docker's credentials cannot be read; check config.json in ~/.docker or DOCKER_CONFIG, and the credential helper that it names"},
		{"no helper", "Bearer", `{"credsStore":"not-there"}`, "", "Docker's credentials cannot be read; "},
		{"realm over http", "Bearer", "right", "http://192.0.2.1/token", "the registry wants a login at an address that is not safe to send credentials to; check the registry"},
		{"realm inside", "Bearer", "right", "http://169.254.169.254/token", "the registry wants a login at an address that is not safe"},
		{"realm is a file", "Bearer", "right", "file:///etc/passwd", "the registry wants a login at an address that is not safe"},
		{"realm by another name", "Bearer", "right", "http://localhost:1/token", "the registry wants a login at an address that is not safe"},
		{"realm that is none", "Bearer", "right", "%", "the registry wants a login at an address that is not safe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := net.LookupHost("localhost"); err != nil && strings.Contains(tt.realm, "localhost") {
				t.Skipf("NOT TESTED: %v; is there an /etc/hosts?", err)
			}
			f := newFake(t)
			push(t, f, "a", "latest", "", dockerV2, entry{"application/vnd.docker.ai.gguf.v3", []byte("GGUF"), named("x.gguf")})
			f.login, f.user, f.realm = tt.login, "me:hunter2", tt.realm
			switch tt.config {
			case "wrong":
				environ(t, known(f.host(), "me:hunter2-wrong"))
			case "right":
				environ(t, known(f.host(), "me:hunter2"))
			default:
				environ(t, tt.config)
			}
			_, _, err := Open(t.Context(), Scheme+f.host()+"/a", options(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") || !errors.Is(err, syscall.EACCES) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A layer that is gone, or may not be read any more, is an error of its readers.
func TestLater(t *testing.T) {
	for status, want := range map[int]error{http.StatusNotFound: syscall.ESTALE, http.StatusForbidden: syscall.EACCES, http.StatusUnauthorized: syscall.EACCES} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			environ(t, "")
			f := newFake(t)
			push(t, f, "a", "latest", "", dockerV2, entry{"application/vnd.docker.ai.gguf.v3", make([]byte, 20<<20), named("x.gguf")})
			read := firstBytes(t, f, "/a")
			f.set(func() {
				f.asked = nil
				f.fault = func(w http.ResponseWriter, r *http.Request) bool {
					w.WriteHeader(status)
					return true
				}
			})
			if err := read(19 << 20); !errors.Is(err, want) {
				t.Errorf("%v", err)
			}
			if n := len(f.requests()); n > 5 {
				t.Errorf("%q", f.requests())
			}
			if err := read(0); err != nil {
				t.Errorf("what was cached: %v", err)
			}
		})
	}
}

// The archive's members are found by their headers: little more is fetched, however
// large they are.
func TestLittleIsFetched(t *testing.T) {
	environ(t, "")
	f := newFake(t)
	data := archive(t, tar.FormatPAX, map[string][]byte{"a.bin": make([]byte, 30<<20), "config.json": []byte("{}"), "m.gguf": make([]byte, 30<<20), "z.bin": make([]byte, 30<<20)}, "")
	push(t, f, "a", "latest", packed, modelPack, entry{"application/vnd.cncf.model.weight.v1.tar", data, nil})
	l, file, err := Open(t.Context(), Scheme+f.host()+"/a", options(t))
	if err != nil || file != "m.gguf" || len(l.Items()) != 4 {
		t.Fatalf("%q, %v", file, err)
	}
	ranges := 0
	for _, a := range f.requests() {
		var first, last int64
		if _, err := fmt.Sscanf(a[strings.LastIndex(a, " ")+1:], "bytes=%d-%d", &first, &last); err == nil {
			ranges++
			if last-first > 1<<20 {
				t.Errorf("%s", a)
			}
		}
	}
	if ranges == 0 || ranges > 9 {
		t.Errorf("%q", f.requests())
	}
}

// Offline opens nothing that was not looked up, and asks for nothing.
func TestOffline(t *testing.T) {
	environ(t, "")
	f := newFake(t)
	push(t, f, "a", "latest", "", dockerV2, entry{"application/vnd.docker.ai.gguf.v3", make([]byte, 20<<20), named("x.gguf")})
	o := options(t)
	name := Scheme + f.host() + "/a"
	if _, _, err := Open(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	asked := len(f.requests())
	o.Offline = "--offline"
	l, file, err := Open(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := tensorfs.ReadFull(r, make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), "x.gguf: not on this machine, and --offline forbids asking for it") {
		t.Errorf("%v", err)
	}
	if _, _, err := Open(t.Context(), name+":other", o); err == nil || !strings.HasPrefix(err.Error(), name+":other: not on this machine") {
		t.Errorf("%v", err)
	}
	if n := len(f.requests()); n != asked {
		t.Errorf("%q", f.requests())
	}
}

// Row 26: no secret is in the cache, an error or a listing.
func TestSecrets(t *testing.T) {
	f := newFake(t)
	f.login, f.user, f.redirect, f.uses = "Bearer", "me:hunter2", true, 5
	environ(t, known(f.host(), f.user))
	m := testremote.Models(t, testdata)[2]
	ways["modelpack-tar"](t, f, "a", "latest", m)
	store, dir := testremote.Cache(t)
	o := Options{Client: testremote.Client(t, time.Second), Store: store}
	l, file, err := Open(t.Context(), Scheme+f.host()+"/a", o)
	if err != nil {
		t.Fatal(err)
	}
	testremote.Same(t, l, file, m.Local(t))
	var texts []string
	for _, x := range l.Items() {
		texts = append(texts, fmt.Sprintf("%+v", x.ID), l.Location(x.Name))
	}
	f.set(func() { f.user = "somebody:else" })
	_, _, err = Open(t.Context(), Scheme+f.host()+"/a", o)
	texts = append(texts, fmt.Sprint(err))
	if err == nil {
		t.Error("it opens with a password that is wrong")
	}
	testremote.NoSecrets(t, dir, []string{"hunter2", "token-for", "sig=", known("", "me:hunter2")[20:30]}, texts)
}

// What names mean.
func TestNames(t *testing.T) {
	hex := strings.Repeat("0a", 32)
	for _, tt := range []struct{ name, want, address string }{
		{"oci://ghcr.io/org/model", "oci://ghcr.io/org/model:latest", "https://ghcr.io/v2/org/model/manifests/latest"},
		{"oci://ghcr.io/org/model:v1.0_x", "oci://ghcr.io/org/model:v1.0_x", "https://ghcr.io/v2/org/model/manifests/v1.0_x"},
		{"oci://ghcr.io/org/model@sha256:" + hex, "oci://ghcr.io/org/model@sha256:" + hex, "https://ghcr.io/v2/org/model/manifests/sha256:" + hex},
		{"oci://ghcr.io/org/model:v1@sha256:" + hex, "oci://ghcr.io/org/model@sha256:" + hex, "https://ghcr.io/v2/org/model/manifests/sha256:" + hex},
		{"oci://docker.io/ai/smollm2", "oci://docker.io/ai/smollm2:latest", "https://registry-1.docker.io/v2/ai/smollm2/manifests/latest"},
		{"oci://docker.io/thing", "oci://docker.io/library/thing:latest", "https://registry-1.docker.io/v2/library/thing/manifests/latest"},
		{"oci://localhost:5000/a", "oci://localhost:5000/a:latest", "http://localhost:5000/v2/a/manifests/latest"},
		{"oci://127.0.0.2:5000/a", "oci://127.0.0.2:5000/a:latest", "http://127.0.0.2:5000/v2/a/manifests/latest"},
		{"oci://[::1]:5000/a", "oci://[::1]:5000/a:latest", "http://[::1]:5000/v2/a/manifests/latest"},
		{"oci://10.0.0.1:5000/a", "oci://10.0.0.1:5000/a:latest", "https://10.0.0.1:5000/v2/a/manifests/latest"},
		{"oci://localhost.example.com/a", "oci://localhost.example.com/a:latest", "https://localhost.example.com/v2/a/manifests/latest"},
	} {
		r, err := parse(tt.name)
		if err != nil || r.String() != tt.want || r.address("manifests/"+r.what()).String() != tt.address {
			t.Errorf("%s: %s at %s, %v", tt.name, r, r.address("manifests/"+r.what()), err)
		}
	}
}
