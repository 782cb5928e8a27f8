package ollama

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/remote/hub"
	"github.com/tensorfs/tensorfs/internal/web"
)

const (
	prefix       = "ollama:"
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	maxManifest  = 16 << 20
)

// Options say with what a registry is asked.
type Options = remote.Options

// registry is a registry, and the model that it is asked for.
type registry struct {
	Options
	model   ollama.Name
	name    string        // for people
	server  string        // https://HOST
	address string        // of the model: https://HOST/v2/NAMESPACE/MODEL
	hub     *hub.Settings // with the token to send; only set for the Hub
}

// pinned is what is kept of a model.
type pinned struct {
	Manifest []byte    `json:"manifest"` // as it came
	Time     time.Time `json:"time"`
}

// Open finds the blobs of a model by its name for 'ollama run', the text after "ollama:".
// file is the manifest's name in the listing, to be opened as a model's. An error is one
// line without secrets; it is fs.ErrNotExist if the model does not exist, fs.ErrPermission
// if it may not be read.
func Open(ctx context.Context, name string, o Options) (l *remote.Listing, file string, err error) {
	n, err := ollama.ParseName(name)
	if err != nil {
		return nil, "", err
	}
	r, err := newRegistry(n, o)
	if err != nil {
		return nil, "", err
	}
	q := remote.Question[*pinned]{Name: r.name, Who: "the registry " + n.Host, Offline: r.Offline, Known: r.Known, Ask: r.ask}
	q.Kept, _ = remote.Kept[*pinned](r.Store, r.pin())
	a, err := q.Answer(ctx)
	if err != nil {
		return nil, "", err
	}
	if l, err = r.listing(a); err != nil {
		return nil, "", err
	}
	if a.Offline == "" && a.Silence == nil {
		_ = r.Store.Pin(r.pin(), a.Value) // what cannot be kept is asked for again, and that is all
	}
	return l, n.Manifest(), nil
}

func newRegistry(n ollama.Name, o Options) (*registry, error) {
	r := &registry{Options: o, model: n, name: prefix + n.String()}
	r.server = remote.Scheme(n.Host) + "://" + n.Host
	r.address = fmt.Sprintf("%s/v2/%s/%s", r.server, n.Namespace, n.Model)
	s, err := hub.SettingsOf(o.Getenv)
	if s.Endpoint == nil || !s.IsHub(n.Host) {
		return r, nil
	}
	r.hub = &s
	return r, err
}

// token returns what must not be shown, "" for none.
func (r *registry) token() string {
	if r.hub == nil {
		return ""
	}
	token, _ := r.hub.Token()
	return token
}

// pin is what the manifest is kept as.
func (r *registry) pin() string { return prefix + r.model.Path() }

// request returns a GET of what is below the model's address.
func (r *registry) request(ctx context.Context, below string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address+"/"+below, nil)
	if err == nil && r.hub != nil {
		err = r.hub.Authorize(req)
	}
	return req, err
}

// ask asks for what is kept of a model.
func (r *registry) ask(ctx context.Context) (*pinned, error) {
	text, err := r.manifest(ctx)
	return &pinned{text, time.Now().Truncate(time.Second)}, err
}

// manifest asks for the manifest; of a list of manifests, for the one that llama.cpp runs.
func (r *registry) manifest(ctx context.Context) ([]byte, error) {
	text, err := r.reference(ctx, r.model.Tag)
	if err != nil {
		return nil, err
	}
	c, err := ollama.ChildOf(r.name, text)
	if c == nil || err != nil {
		return text, err
	}
	if text, err = r.reference(ctx, c.Digest); err != nil {
		return nil, err
	}
	return text, c.Check(r.name, text)
}

// reference asks for the manifest of a tag or a digest.
func (r *registry) reference(ctx context.Context, tag string) ([]byte, error) {
	resp, body, err := r.Client.Do(ctx, maxManifest, func(ctx context.Context) (*http.Request, error) {
		req, err := r.request(ctx, "manifests/"+tag)
		if err == nil {
			req.Header.Set("Accept", manifestType)
		}
		return req, err
	})
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, r.refusal(r.name, resp, body)
	}
	return body, nil
}

// listing makes a store of a manifest.
func (r *registry) listing(a remote.Answer[*pinned]) (*remote.Listing, error) {
	p := a.Value
	blobs, err := ollama.Blobs(r.name, p.Manifest)
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok {
		e.Advice = "the registry is at fault, or it is not one of Ollama models"
	}
	if err != nil {
		return nil, err
	}
	items := []remote.Item{{
		Name:  r.model.Manifest(),
		ID:    cache.ID{Size: int64(len(p.Manifest)), Source: r.name, ModTime: p.Time},
		Bytes: p.Manifest,
	}}
	for _, b := range blobs {
		if b.Size > cache.MaxSize {
			return nil, &tensorfs.FormatError{File: r.name, Offset: -1, Problem: fmt.Sprintf("its blob %s has %d bytes, which no file has", b.Digest, b.Size), Advice: "the registry is at fault"}
		}
		items = append(items, remote.Item{
			Name:   b.Name,
			ID:     cache.ID{Key: b.Digest, Digest: b.Digest, Server: r.server, Size: b.Size, Source: r.name + "/" + b.Digest, ModTime: p.Time},
			Host:   r.model.Host,
			Origin: a.Origin(r.origin(b)),
		})
	}
	return r.Listing(r.name, items, p.Time, a.Note)
}

// origin forms requests for the bytes of a blob.
func (r *registry) origin(b ollama.Blob) web.Origin {
	name := r.name + "/" + b.Digest
	return &web.Resolved{
		Client: r.Client,
		Ask: func(ctx context.Context) (*http.Request, error) {
			return r.request(ctx, "blobs/"+b.Digest)
		},
		Check: func(resp *http.Response, body []byte) error {
			switch {
			case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
				return web.ErrVersion(name, "the registry does not have it any more")
			case resp.StatusCode >= 400:
				return r.refusal(name, resp, body)
			}
			return nil
		},
	}
}
