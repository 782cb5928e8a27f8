package az

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs/internal/remote/bearer"
	"github.com/tensorfs/tensorfs/internal/web"
)

// version is the version of the API that is asked for. Azurite has it too.
const version = "2021-12-02"

// store is a container of an account, and what it is asked with.
type store struct {
	access
	client    *web.Client
	container string
	keys      *bearer.Keys // nil unless tokens of credentials.go are used
}

// request returns a request for a blob or, for the key "", for the container, with the
// credentials. Nothing that is signed may be added to it.
func (s *store) request(ctx context.Context, method, key string, query url.Values, header map[string]string) (*http.Request, error) {
	token, err := s.keys.Get(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "", nil)
	if err != nil {
		return nil, err
	}
	req.URL = address(s.at, s.container, key)
	req.Host, req.URL.RawQuery = req.URL.Host, query.Encode()
	req.Header.Set("X-Ms-Version", version)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	switch {
	case s.sas != "":
		req.URL.RawQuery = strings.TrimPrefix(req.URL.RawQuery+"&"+s.sas, "&")
	case s.key != nil:
		req.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
		req.Header.Set("Authorization", "SharedKey "+s.account+":"+signature(req, s.account, s.key))
	case token != "":
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return web.WithoutRedirects(req), nil
}

// anonymous reports whether a request has no credentials.
func (s *store) anonymous(req *http.Request) bool {
	return s.sas == "" && req.Header.Get("Authorization") == ""
}

// signed are the headers whose values are signed, besides Microsoft's own.
var signed = []string{"Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date", "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range"}

// signature signs a request with an account's key.
func signature(req *http.Request, account string, key []byte) string {
	lines := []string{req.Method}
	for _, name := range signed {
		lines = append(lines, req.Header.Get(name))
	}
	var own []string
	for name, values := range req.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			own = append(own, name+":"+strings.Join(values, ","))
		}
	}
	slices.Sort(own)
	lines = append(append(lines, own...), "/"+account+req.URL.EscapedPath())
	var queries []string
	for name, values := range req.URL.Query() {
		slices.Sort(values)
		queries = append(queries, strings.ToLower(name)+":"+strings.Join(values, ","))
	}
	slices.Sort(queries)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(append(lines, queries...), "\n")))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// do asks for something small, and again if the token is not accepted: it may have ended.
func (s *store) do(ctx context.Context, method, key string, query url.Values) (resp *http.Response, body []byte, err error) {
	for range 2 {
		resp, body, err = s.client.Do(ctx, maxPage, func(ctx context.Context) (*http.Request, error) {
			return s.request(ctx, method, key, query, nil)
		})
		if err != nil || resp.StatusCode != http.StatusUnauthorized || !s.keys.Ended(resp.Request) {
			break
		}
	}
	return resp, body, err
}
