package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/web"
)

// manifestTypes are what is asked for.
var manifestTypes = []string{
	"application/vnd.oci.image.manifest.v1+json",
	"application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json",
	"application/vnd.docker.distribution.manifest.list.v2+json",
}

// Limits of manifests.
const (
	maxLayers = 10_000
)

// layer is a blob of an artifact.
type layer struct {
	MediaType string
	Digest    string // "sha256:HEX"
	Size      int64
	path      string // what the annotations call the file, "" where they do not
	title     string
	unpack    bool   // it is an archive of a folder, whatever its media type is
	content   string // digest of the archive that the layer unpacks to, "" if unknown
	platform  string // of an index: the kind of machine that it is for, "" for any
}

// manifest is what an artifact consists of, or, of an index, which artifacts there
// are.
type manifest struct {
	kind   string // media type of the artifact, or of its config
	layers []layer
	index  bool
}

// annotations of layers.
const (
	pathKey    = "org.cncf.model.filepath"
	titleKey   = "org.opencontainers.image.title"
	unpackKey  = "io.deis.oras.content.unpack" // of a folder that ORAS pushed
	contentKey = "io.deis.oras.content.digest"
)

// readManifest reads a manifest or an index. Errors say what it is not.
func readManifest(text []byte) (*manifest, error) {
	o, err := jsonobj.Parse(text)
	if err != nil {
		return nil, errors.New("is not JSON that can be read")
	}
	m := &manifest{}
	list := "layers"
	switch has := [2]bool{o.Has("layers"), o.Has("manifests")}; has {
	case [2]bool{false, true}:
		list, m.index = "manifests", true
	case [2]bool{true, false}:
	default:
		return nil, errors.New("must list either layers or manifests")
	}
	config := o.Raw("config").Member("mediaType").Text()
	m.kind = o.Raw("artifactType").Text()
	if m.kind == "" || strings.HasPrefix(config, "application/vnd.docker.ai.") {
		m.kind = config
	}
	if o.Raw(list).Kind() != '[' {
		return nil, fmt.Errorf("has %s that are not a list", list)
	}
	for raw := range o.Raw(list).Elements() {
		if len(m.layers) == maxLayers {
			return nil, fmt.Errorf("has more than %d %s", maxLayers, list)
		}
		size, err := strconv.ParseInt(raw.Member("size").String(), 10, 64)
		l := layer{MediaType: raw.Member("mediaType").Text(), Digest: raw.Member("digest").Text(), Size: size}
		if p := raw.Member("platform"); p.Kind() == '{' {
			l.platform = p.Member("os").Text() + "/" + p.Member("architecture").Text()
		}
		switch {
		case !sha256Name().MatchString(l.Digest):
			return nil, errors.New("names " + tensorfs.Quote(l.Digest) + ", which is not a SHA-256 digest")
		case err != nil || size < 0 || size > cache.MaxSize:
			return nil, errors.New("gives a size that no file can have")
		}
		notes := raw.Member("annotations")
		l.path, l.title = notes.Member(pathKey).Text(), notes.Member(titleKey).Text()
		l.unpack, l.content = notes.Member(unpackKey).Text() == "true", notes.Member(contentKey).Text()
		m.layers = append(m.layers, l)
	}
	return m, nil
}

// findManifest asks for the artifact of a reference: its manifest, and its digest.
func (s *session) findManifest(ctx context.Context) (*manifest, string, error) {
	m, digest, err := s.manifest(ctx, s.ref)
	if err != nil || !m.index {
		return m, digest, err
	}
	one := m.choose()
	if one < 0 {
		return nil, "", s.wrong(s.ref, fmt.Sprintf("it is an index of %d artifacts, and does not say which one is the model", len(m.layers)), "name one of them as oci://REGISTRY/REPOSITORY@sha256:HEX")
	}
	ref := s.ref.at(m.layers[one].Digest)
	m, digest, err = s.manifest(ctx, ref)
	if err == nil && m.index {
		err = s.wrong(ref, "it is an index in an index", "name the artifact itself")
	}
	return m, digest, err
}

// choose returns the index of the model among an index's artifacts, -1 if that is
// ambiguous: the only one, else the only one for any machine, else the only one for a known
// machine, else the one for machines like this. Attestations are for an unknown machine.
func (m *manifest) choose() int {
	for _, fits := range []func(platform string) bool{
		func(string) bool { return true },
		func(p string) bool { return p == "" },
		func(p string) bool { return p != "" && !strings.HasPrefix(p, "unknown/") },
		func(p string) bool { return p == "linux/"+runtime.GOARCH },
	} {
		one, n := -1, 0
		for i, l := range m.layers {
			if fits(l.platform) {
				one, n = i, n+1
			}
		}
		if n == 1 {
			return one
		}
	}
	return -1
}

// manifest asks for a manifest and holds it to its digest.
func (s *session) manifest(ctx context.Context, ref reference) (*manifest, string, error) {
	resp, text, err := s.get(ctx, http.MethodGet, "manifests/"+ref.what())
	if err != nil {
		return nil, "", err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, "", s.refused(ref, resp)
	}
	sum := sha256.Sum256(text)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	want := ref.digest
	if want == "" {
		want = resp.Header.Get("Docker-Content-Digest")
	}
	if want != digest && (ref.digest != "" || strings.HasPrefix(want, "sha256:")) {
		return nil, "", s.wrong(ref, "its manifest is not the one of its digest", "the registry is at fault; push the artifact again")
	}
	m, err := readManifest(text)
	if err != nil {
		return nil, "", s.wrong(ref, "its manifest "+err.Error(), "it is not a model, or the registry is at fault")
	}
	return m, digest, nil
}

// wrong is an error about an artifact.
func (s *session) wrong(ref reference, problem, advice string) error {
	return tensorfs.Unsupported(ref.String(), problem, advice)
}

// refused is the error of a manifest that the registry does not give.
func (s *session) refused(ref reference, resp *http.Response) error {
	e := &tensorfs.FormatError{File: ref.String(), Offset: -1}
	switch resp.StatusCode {
	case http.StatusNotFound:
		e.Problem, e.Advice, e.Kind = "there is no such artifact, or none that you may see", "check the name, or run 'docker login "+ref.registry+"'", syscall.ENOENT
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Problem, e.Advice, e.Kind = "these credentials may not read it, or it does not exist", "check the name, or run 'docker login "+ref.registry+"'", syscall.EACCES
	case http.StatusTooManyRequests:
		e.Problem, e.Advice, e.Kind = "the registry limits requests", "try again later, or run 'docker login "+ref.registry+"'", web.NoAnswer(syscall.EIO)
	default:
		return web.Status(ref.String(), resp, "check the name, or try again later")
	}
	return e
}
