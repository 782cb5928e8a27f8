package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

const testdata = "../../../testdata"

// Media types of manifests.
const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	ociIndex    = "application/vnd.oci.image.index.v1+json"
)

// pusher is a registry that takes artifacts.
type pusher interface {
	blob(t testing.TB, repository string, data []byte) (digest string)
	manifest(t testing.TB, repository, tag, mediaType string, text []byte) (digest string)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// fake is a registry with a server of tokens and one with the blobs, each at an
// address of its own.
type fake struct {
	*httptest.Server
	tokens, storage *httptest.Server

	mu        sync.Mutex
	blobs     map[string][]byte
	manifests map[string][]byte // by repository and tag or digest
	types     map[string]string // of manifests
	login     string            // "", "Basic" or "Bearer": what is asked for
	user      string            // "user:password" who gets a token, "" for everybody
	realm     string            // another one than of the server of tokens
	redirect  bool              // blobs are at storage
	uses      int               // after how many requests a token, or an address, ends; 0: never
	used      map[string]int
	given     int
	fault     func(w http.ResponseWriter, r *http.Request) bool
	asked     []string // of the registry: method, path, range
	strangers []string // Authorization at storage
	logins    []string // Authorization or form at tokens
}

func newFake(t testing.TB) *fake {
	f := &fake{blobs: map[string][]byte{}, manifests: map[string][]byte{}, types: map[string]string{}, used: map[string]int{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.registry))
	f.tokens = httptest.NewServer(http.HandlerFunc(f.token))
	f.storage = httptest.NewServer(http.HandlerFunc(f.store))
	for _, s := range []*httptest.Server{f.Server, f.tokens, f.storage} {
		t.Cleanup(s.Close)
	}
	return f
}

// host is the registry as names have it.
func (f *fake) host() string { return strings.TrimPrefix(f.URL, "http://") }

func (f *fake) blob(_ testing.TB, _ string, data []byte) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := digestOf(data)
	f.blobs[d] = data
	return d
}

func (f *fake) manifest(_ testing.TB, repository, tag, mediaType string, text []byte) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := digestOf(text)
	for _, ref := range []string{tag, d} {
		f.manifests[repository+" "+ref], f.types[repository+" "+ref] = text, mediaType
	}
	return d
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) registry(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
	if f.fault != nil && f.fault(w, r) {
		return
	}
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	repository, rest, blob := strings.Cut(path, "/blobs/")
	if !blob {
		repository, rest, _ = strings.Cut(path, "/manifests/")
	}
	if !f.authorized(w, r, repository) {
		return
	}
	if blob {
		if f.redirect {
			f.given++
			http.Redirect(w, r, fmt.Sprintf("%s/%s?sig=%d", f.storage.URL, rest, f.given), http.StatusTemporaryRedirect)
			return
		}
		f.serve(w, r, rest)
		return
	}
	text, ok := f.manifests[repository+" "+rest]
	if !ok {
		http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", f.types[repository+" "+rest])
	w.Header().Set("Docker-Content-Digest", digestOf(text))
	if r.Method == http.MethodGet {
		w.Write(text)
	}
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request, digest string) {
	data, ok := f.blobs[digest]
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// ended counts the uses of something, and reports whether they were all.
func (f *fake) ended(what string) bool {
	f.used[what]++
	return f.uses > 0 && f.used[what] > f.uses
}

func (f *fake) authorized(w http.ResponseWriter, r *http.Request, repository string) bool {
	got := r.Header.Get("Authorization")
	switch f.login {
	case "":
		return true
	case "Basic":
		if got == "Basic "+base64.StdEncoding.EncodeToString([]byte(f.user)) {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
	default:
		if strings.HasPrefix(got, "Bearer token-for-repository:"+repository+":pull-") && !f.ended(got) {
			return true
		}
		realm := f.tokens.URL + "/token"
		if f.realm != "" {
			realm = f.realm
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s",service="registry",scope="repository:%s:pull"`, realm, repository))
	}
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

func (f *fake) token(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodPost {
		r.ParseForm()
		f.logins = append(f.logins, r.Form.Encode())
		if r.Form.Get("refresh_token") != f.user {
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
	} else {
		user, password, _ := r.BasicAuth()
		f.logins = append(f.logins, r.Header.Get("Authorization"))
		if f.user != "" && user+":"+password != f.user {
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"no, `+password+`"}]}`, http.StatusUnauthorized)
			return
		}
	}
	f.given++
	scope := r.FormValue("scope")
	json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprintf("token-for-%s-%d", scope, f.given), "expires_in": 60})
}

func (f *fake) store(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := r.Header.Get("Authorization"); a != "" { // as S3 does
		f.strangers = append(f.strangers, a)
		http.Error(w, "Only one auth mechanism allowed", http.StatusBadRequest)
		return
	}
	if f.ended(r.URL.RawQuery) {
		http.Error(w, "expired", http.StatusForbidden)
		return
	}
	f.serve(w, r, strings.TrimPrefix(r.URL.Path, "/"))
}

// entry is a layer before it is pushed.
type entry struct {
	mediaType string
	data      []byte
	notes     map[string]string
}

// artifact pushes an artifact, and returns its digest.
func push(t testing.TB, p pusher, repository, tag, artifactType, config string, layers ...entry) string {
	t.Helper()
	text, err := json.Marshal(manifestOf(t, p, repository, artifactType, config, layers...))
	if err != nil {
		t.Fatal(err)
	}
	return p.manifest(t, repository, tag, ociManifest, text)
}

func manifestOf(t testing.TB, p pusher, repository, artifactType, config string, layers ...entry) map[string]any {
	t.Helper()
	describe := func(e entry) map[string]any {
		d := map[string]any{"mediaType": e.mediaType, "digest": p.blob(t, repository, e.data), "size": len(e.data)}
		if e.notes != nil {
			d["annotations"] = e.notes
		}
		return d
	}
	all := []any{}
	for _, l := range layers {
		all = append(all, describe(l))
	}
	m := map[string]any{"schemaVersion": 2, "mediaType": ociManifest, "config": describe(entry{config, []byte("{}"), nil}), "layers": all}
	if artifactType != "" {
		m["artifactType"] = artifactType
	}
	return m
}

// archive is a plain tar archive of files, in order.
func archive(t testing.TB, format tar.Format, files map[string][]byte, prefix string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if prefix != "" {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix, Mode: 0o755, Format: format})
	}
	for _, name := range sorted(files) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: prefix + name, Size: int64(len(files[name])), Mode: 0o644, Format: format}); err != nil {
			t.Fatal(err)
		}
		w.Write(files[name])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sorted(files map[string][]byte) (names []string) {
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func named(path string) map[string]string { return map[string]string{pathKey: path} }

// The configs and the artifact of the kinds.
const (
	dockerV1  = "application/vnd.docker.ai.model.config.v0.1+json"
	dockerV2  = "application/vnd.docker.ai.model.config.v0.2+json"
	modelPack = "application/vnd.cncf.model.config.v1+json"
	packed    = "application/vnd.cncf.model.manifest.v1+json"
	kitops    = "application/vnd.kitops.modelkit.config.v1+json"
	ociImage  = "application/vnd.oci.image.config.v1+json"
	ociEmpty  = "application/vnd.oci.empty.v1+json"
)

// ways are how programs push a model.
var ways = map[string]func(t testing.TB, p pusher, repository, tag string, m testremote.Model){
	"docker-v0.1": func(t testing.TB, p pusher, repository, tag string, m testremote.Model) {
		layers := []entry{{"application/vnd.docker.ai.license", []byte("a license"), nil}, {"application/vnd.docker.ai.chat.template.jinja", []byte("{{}}"), nil}, {"application/vnd.docker.ai.license", []byte("another"), nil}}
		others := map[string][]byte{}
		for _, name := range sorted(m.Files) {
			switch filepath.Ext(name) {
			case ".gguf":
				layers = append(layers, entry{"application/vnd.docker.ai.gguf.v3", m.Files[name], nil})
			case ".safetensors":
				layers = append(layers, entry{"application/vnd.docker.ai.safetensors", m.Files[name], nil})
			default:
				others[name] = m.Files[name]
			}
		}
		if len(others) > 0 {
			layers = append(layers, entry{"application/vnd.docker.ai.vllm.config.tar", archive(t, tar.FormatUSTAR, others, ""), nil})
		}
		push(t, p, repository, tag, "", dockerV1, layers...)
	},
	"docker-v0.2": func(t testing.TB, p pusher, repository, tag string, m testremote.Model) {
		var layers []entry
		for _, name := range sorted(m.Files) {
			mediaType := map[string]string{".gguf": "application/vnd.docker.ai.gguf.v3", ".safetensors": "application/vnd.docker.ai.safetensors"}[filepath.Ext(name)]
			if mediaType == "" {
				mediaType = "application/vnd.docker.ai.model.file"
			}
			layers = append(layers, entry{mediaType, m.Files[name], named(name)})
		}
		push(t, p, repository, tag, "", dockerV2, layers...)
	},
	"modelpack-raw": func(t testing.TB, p pusher, repository, tag string, m testremote.Model) {
		layers := []entry{{"application/vnd.cncf.model.doc.v1.raw", []byte("# read me"), named("README.md")}, {"application/vnd.cncf.model.doc.v1.tar+gzip", []byte("packed"), named("docs")}}
		for _, name := range sorted(m.Files) {
			mediaType := "application/vnd.cncf.model.weight.v1.raw"
			if filepath.Ext(name) == ".json" {
				mediaType = "application/vnd.cncf.model.weight.config.v1.raw"
			}
			layers = append(layers, entry{mediaType, m.Files[name], named(name)})
		}
		push(t, p, repository, tag, packed, modelPack, layers...)
	},
	"modelpack-tar": func(t testing.TB, p pusher, repository, tag string, m testremote.Model) {
		var layers []entry
		for _, name := range sorted(m.Files) {
			mediaType := "application/vnd.cncf.model.weight.v1.tar"
			if filepath.Ext(name) == ".json" {
				mediaType = "application/vnd.cncf.model.weight.config.v1.tar"
			}
			layers = append(layers, entry{mediaType, archive(t, tar.FormatPAX, map[string][]byte{name: m.Files[name]}, ""), named(name)})
		}
		push(t, p, repository, tag, packed, modelPack, layers...)
	},
	"kitops": func(t testing.TB, p pusher, repository, tag string, m testremote.Model) {
		long := "./" + strings.Repeat("a-long-name/", 20)
		push(t, p, repository, tag, "", kitops,
			entry{"application/vnd.kitops.modelkit.dataset.v1.tar+gzip", []byte("packed"), nil},
			entry{"application/vnd.kitops.modelkit.model.v1.tar", archive(t, tar.FormatGNU, m.Files, long), nil})
	},
	"plain": func(t testing.TB, p pusher, repository, tag string, m testremote.Model) {
		var layers []entry
		for _, name := range sorted(m.Files) {
			layers = append(layers, entry{"application/octet-stream", m.Files[name], map[string]string{titleKey: name}})
		}
		push(t, p, repository, tag, "application/vnd.example", ociEmpty, layers...)
	},
}

// environ is an environment in which Docker knows the given registries: its
// config.json.
func environ(t testing.TB, config string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("DOCKER_CONFIG", dir)
	if config == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// known is a config.json with one user.
func known(host, user string) string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte(user)))
}

func options(t testing.TB) Options {
	store, _ := testremote.Cache(t)
	return Options{Client: testremote.Client(t, 20*time.Second), Store: store}
}
