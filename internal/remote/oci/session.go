package oci

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// session asks one registry about one repository, with tokens that are for nothing
// else.
type session struct {
	ref    reference
	client *web.Client
	auth   auth.Client

	mu       sync.Mutex
	scheme   auth.Scheme // SchemeUnknown: the registry wants none
	token    string
	obtained time.Time
	login    string // the environment's login with which it was obtained
}

// loginEnv is the variable with the text of a config.json, which counts before the file, as for Docker's own programs.
const loginEnv = "DOCKER_AUTH_CONFIG"

// maxManifest is the size of the largest manifest that is believed.
const maxManifest = 16 << 20

func newSession(ref reference, c *web.Client) *session {
	s := &session{ref: ref, client: c}
	s.auth = auth.Client{
		Client:     &http.Client{Transport: protected{c.Transport(maxManifest)}},
		Credential: s.credential,
		Cache:      s,
		ClientID:   "tensorfs",
	}
	return s
}

// protected sends nothing over the network that others can read: a registry may say
// that tokens are given out anywhere.
type protected struct{ http.RoundTripper }

// errRealm is why a token is not asked for.
var errRealm = errors.New("tokens are given out at an address that is not protected")

// RoundTrip implements http.RoundTripper.
func (p protected) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && remote.Scheme(req.URL.Host) != "http" {
		return nil, errRealm
	}
	return p.RoundTripper.RoundTrip(req)
}

// errHelper marks credentials that Docker's configuration has and does not give.
var errHelper = errors.New("docker's credentials cannot be read")

// credential returns what Docker knows of a registry.
func (s *session) credential(ctx context.Context, host string) (auth.Credential, error) {
	var store, first credentials.Store
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if text := os.Getenv(loginEnv); text != "" && err == nil {
		if first, err = credentials.NewMemoryStoreFromDockerConfig([]byte(text)); err == nil {
			store = credentials.NewStoreWithFallbacks(first, store)
		}
	}
	if err != nil {
		return auth.EmptyCredential, errHelper // whose text may hold a password
	}
	c, err := credentials.Credential(store)(ctx, host)
	if err != nil {
		return auth.EmptyCredential, errHelper
	}
	return c, nil
}

// get performs a small request, with a token where the registry wants one.
func (s *session) get(ctx context.Context, method, part string) (*http.Response, []byte, error) {
	ctx = auth.WithScopes(ctx, "repository:"+s.ref.repository+":pull")
	req, err := http.NewRequestWithContext(ctx, method, s.ref.address(part).String(), nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header["Accept"] = []string{strings.Join(manifestTypes, ", ")}
	resp, err := s.auth.Do(req)
	if err != nil {
		return nil, nil, s.failed(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body) // which is bounded
	return resp, body, err
}

// failed returns the error of a request that got no answer. It quotes no message of a
// server or a helper.
func (s *session) failed(err error) error {
	e := &tensorfs.FormatError{File: s.ref.String(), Offset: -1, Problem: "logging in failed", Advice: "try 'docker login " + s.ref.registry + "'", Kind: syscall.EACCES}
	var own *tensorfs.FormatError
	var said *errcode.ErrorResponse
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		e.Problem, e.Advice, e.Kind = "the registry did not answer in time", "try again later", web.NoAnswer(syscall.ETIMEDOUT)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		e.Problem = "the registry wants a login"
	case errors.Is(err, errHelper):
		e.Problem = "Docker's credentials cannot be read"
		e.Advice = "check config.json in ~/.docker or DOCKER_CONFIG, and the credential helper that it names, or " + loginEnv
	case errors.As(err, &said) && (said.StatusCode >= 500 || said.StatusCode == http.StatusTooManyRequests):
		e.Problem, e.Advice, e.Kind = "the registry gives no tokens at the moment", "try again later", web.NoAnswer(syscall.EIO)
	case errors.As(err, &said):
		e.Problem = "the registry gives no token to these credentials, or the repository does not exist"
	case errors.Is(err, errRealm), strings.Contains(err.Error(), "bearer realm"):
		e.Problem, e.Advice = "the registry wants a login at an address that is not safe to send credentials to", "check the registry"
	}
	return e
}

// request returns a GET of a blob. again is set after a refusal.
func (s *session) request(ctx context.Context, digest string, again bool) (*http.Request, error) {
	s.mu.Lock()
	old := s.scheme == auth.SchemeBearer && time.Since(s.obtained) > sureToken || s.token != "" && !s.has()
	s.mu.Unlock()
	if again || old { // HEAD, because registries count GET as use of the artifact
		if _, _, err := s.get(ctx, http.MethodHead, "manifests/"+s.ref.what()); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.ref.address("blobs/"+digest).String(), nil)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" {
		req.Header.Set("Authorization", s.scheme.String()+" "+s.token)
	}
	return req, nil
}

// sureToken is how long a new token is surely good: registries give them for a
// minute at least.
const sureToken = 30 * time.Second

var errNoToken = errors.New("no token yet")

// GetScheme implements auth.Cache.
func (s *session) GetScheme(context.Context, string) (auth.Scheme, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has() {
		return auth.SchemeUnknown, errNoToken
	}
	return s.scheme, nil
}

// GetToken implements auth.Cache.
func (s *session) GetToken(_ context.Context, _ string, scheme auth.Scheme, _ string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has() || s.scheme != scheme {
		return "", errNoToken
	}
	return s.token, nil
}

// has reports whether there is a token of the login that counts now.
func (s *session) has() bool { return s.token != "" && s.login == os.Getenv(loginEnv) }

// Set implements auth.Cache.
func (s *session) Set(ctx context.Context, _ string, scheme auth.Scheme, _ string, fetch func(context.Context) (string, error)) (string, error) {
	login := os.Getenv(loginEnv)
	token, err := fetch(ctx)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheme, s.token, s.obtained, s.login = scheme, token, time.Now(), login
	return token, nil
}

var _ auth.Cache = (*session)(nil)
