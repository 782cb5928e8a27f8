package hub

import (
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// The hosts of the public Hub.
const (
	publicHub = "https://huggingface.co"
	shortHost = "hf.co"
)

// Settings are what the environment says about the Hub.
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

// Authorize adds the token to a request, where there is one. It is looked up each time: whoever logs in again, or
// gives a server another one, need not open a model anew.
func (s Settings) Authorize(req *http.Request) error {
	token, err := s.Token()
	if err == nil && token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

// Token returns the token as it is now, "" for none. It is never to be shown.
func (s Settings) Token() (string, error) { return tokenOf(s.getenv) }

// IsHub reports whether a host is the endpoint's, or the short name of the public
// Hub where that is the endpoint: whether it may see the token.
func (s Settings) IsHub(host string) bool {
	return strings.EqualFold(host, s.Endpoint.Host) || strings.EqualFold(host, shortHost) && s.Endpoint.String() == publicHub
}

// isTrue is how Hugging Face's own programs read a switch.
func isTrue(s string) bool {
	switch strings.ToUpper(s) {
	case "1", "ON", "YES", "TRUE":
		return true
	}
	return false
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

// maxToken bounds a token, which has some forty characters.
const maxToken = 4096

// tokenOf returns HF_TOKEN, or what the file has that Hugging Face's login writes.
func tokenOf(getenv func(string) string) (string, error) {
	name, text := "HF_TOKEN", strings.TrimSpace(getenv("HF_TOKEN"))
	if text == "" && !isTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		path := getenv("HF_TOKEN_PATH")
		named := path != ""
		if !named {
			path = tokenPath(getenv)
		}
		b, err := source.ReadRegular(path, maxToken+1)
		if named && err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", tensorfs.PathError(path, err)
		}
		name, text = "the file with the token", strings.TrimSpace(string(b))
	}
	// What a header may hold: an error of net/http about another one might quote it.
	if len(text) > maxToken || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", tensorfs.Unsupported(name, "it holds what is not in a token, such as blanks", "log in again with 'hf auth login'")
	}
	return text, nil
}

// tokenPath is where Hugging Face's login writes the token, "" if nobody knows.
func tokenPath(getenv func(string) string) string {
	switch {
	case getenv("HF_HOME") != "":
		return filepath.Join(getenv("HF_HOME"), "token")
	case getenv("XDG_CACHE_HOME") != "":
		return filepath.Join(getenv("XDG_CACHE_HOME"), "huggingface", "token")
	case getenv("HOME") != "":
		return filepath.Join(getenv("HOME"), ".cache", "huggingface", "token")
	}
	return ""
}
