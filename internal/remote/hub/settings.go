package hub

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
)

// The hosts of the public Hub.
const (
	publicHub = "https://huggingface.co"
	shortHost = "hf.co"
)

// Settings are the environment's settings for the Hub.
type Settings struct {
	Endpoint *url.URL // without a slash at the end
	getenv   func(string) string
}

// SettingsOf reads the settings; getenv is os.Getenv.
func SettingsOf(getenv func(string) string) (s Settings, err error) {
	s.getenv = getenv
	if s.Endpoint, err = endpoint(getenv("HF_ENDPOINT")); err == nil {
		_, err = s.Token()
	}
	return s, err
}

// Authorize adds the token to a request, if there is one. It looks the token up each time,
// so that after a new login, or with a server's new token, open models go on.
func (s Settings) Authorize(req *http.Request) error {
	token, err := s.Token()
	if err == nil && token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

// Token returns the token as it is now, "" for none. It is never to be shown.
func (s Settings) Token() (string, error) { return environ.HuggingFaceToken(s.getenv) }

// IsHub reports whether a host may see the token: the endpoint's host, or the short name of
// the public Hub if that is the endpoint.
func (s Settings) IsHub(host string) bool {
	return strings.EqualFold(host, s.Endpoint.Host) || strings.EqualFold(host, shortHost) && s.Endpoint.String() == publicHub
}

func endpoint(s string) (*url.URL, error) {
	if s == "" {
		s = publicHub
	}
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(s), "/"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, tensorfs.Unsupported("HF_ENDPOINT", "it is not an address of the web", "write it as "+publicHub)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, tensorfs.Unsupported("HF_ENDPOINT", "it is more than an address", "leave out what is before @ and after ?, and set HF_TOKEN")
	}
	return u, nil
}
