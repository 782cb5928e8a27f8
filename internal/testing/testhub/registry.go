package testhub

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Registry is a registry of Ollama models.
type Registry struct {
	Servers

	Private map[string]string // token that a model (NAMESPACE/MODEL) asks for
	Here    bool              // it has the data itself and redirects nowhere

	manifests map[string][]byte // by NAMESPACE/MODEL/TAG
}

// NewRegistry starts a registry that ends with the test.
func NewRegistry(t testing.TB) *Registry {
	r := &Registry{Private: map[string]string{}, manifests: map[string][]byte{}}
	r.start(t, r.serve)
	return r
}

// Host is the registry's part of a name.
func (r *Registry) Host() string { return strings.TrimPrefix(r.URL, "http://") }

// Push takes a model: NAMESPACE/MODEL/TAG, its manifest and its blobs.
func (r *Registry) Push(name string, manifest []byte, blobs ...[]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.manifests[name] = manifest
	for _, b := range blobs {
		r.blobs[fmt.Sprintf("%x", sha256.Sum256(b))] = b
	}
}

// serve answers for /v2/NAMESPACE/MODEL/manifests/TAG and .../blobs/sha256:HEX.
func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	p := strings.Split(strings.TrimPrefix(req.URL.Path, "/v2/"), "/")
	if len(p) != 4 {
		http.NotFound(w, req)
		return
	}
	if want := r.Private[p[0]+"/"+p[1]]; want != "" && req.Header.Get("Authorization") != "Bearer "+want {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=\"ollama\"", r.URL+"/v2/token"))
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
		return
	}
	r.mu.Lock()
	manifest, ok := r.manifests[strings.Join([]string{p[0], p[1], p[3]}, "/")]
	r.mu.Unlock()
	id := strings.TrimPrefix(p[3], "sha256:")
	b, blob := r.blob(id)
	switch {
	case p[2] == "manifests" && ok && strings.Contains(strings.Join(req.Header.Values("Accept"), ","), "application/vnd.docker.distribution.manifest.v2+json"):
		text(w, req, "", manifest)
	case p[2] == "blobs" && blob && r.Here:
		text(w, req, "", b)
	case p[2] == "blobs" && blob:
		w.Header().Set("Location", r.sign(id))
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
	}
}
