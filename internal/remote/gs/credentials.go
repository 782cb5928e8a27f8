package gs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cloud.google.com/go/compute/metadata"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/remote"
	files "github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/web"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

// The search for credentials has the order of Google's own clients (application default
// credentials): the file of GOOGLE_APPLICATION_CREDENTIALS, the file that 'gcloud auth
// application-default login' writes, the machine's service account. None, or
// CLOUDSDK_AUTH_DISABLE_CREDENTIALS, means anonymous.
//
// An error never quotes a library's message: it may hold a part of a file of secrets.

// scope is what is asked for: to read objects.
const scope = "https://www.googleapis.com/auth/devstorage.read_only"

// Limits of what is asked for credentials over the network.
const (
	maxCredentials = 1 << 20
	machineTimeout = time.Second      // most machines have no such service
	againTimeout   = 10 * time.Second // it was there before
)

const (
	fileSetting    = "GOOGLE_APPLICATION_CREDENTIALS"
	disableSetting = "CLOUDSDK_AUTH_DISABLE_CREDENTIALS"
)

// settings are the variables by which credentials are found, to see that they are others now.
func settings(getenv func(string) string) string {
	s := "set"
	for _, name := range []string{fileSetting, "GOOGLE_CREDENTIALS", disableSetting, "CLOUDSDK_CONFIG", "GCE_METADATA_HOST", "NO_GCE_CHECK", "HOME"} {
		s += "\n" + getenv(name)
	}
	return s
}

// find looks for credentials. The token may be nil: then it is asked for.
func find(ctx context.Context, o remote.Options) (source, *oauth2.Token, error) {
	if environ.IsTrue(o.Getenv(disableSetting)) {
		return source{}, nil, nil
	}
	if text := o.Getenv("GOOGLE_CREDENTIALS"); strings.HasPrefix(strings.TrimSpace(text), "{") {
		s, err := fromText("GOOGLE_CREDENTIALS", []byte(text), o.Client, given)
		return s, nil, err
	}
	if path := o.Getenv(fileSetting); path != "" {
		s, err := fromFile(path, o.Client)
		return s, nil, err
	}
	if path, err := defaultFile(o.Getenv); err == nil {
		s, err := fromFile(path, o.Client)
		if !errors.Is(err, fs.ErrNotExist) {
			return s, nil, err
		}
	}
	return machine(ctx, o.Getenv)
}

// defaultFile returns the path of the file that 'gcloud auth application-default login' writes.
func defaultFile(getenv func(string) string) (string, error) {
	dir, err := environ.ExpandHome(cmp.Or(getenv("CLOUDSDK_CONFIG"), "~/.config/gcloud"), getenv)
	return filepath.Join(dir, "application_default_credentials.json"), err
}

// readFile reads a file of credentials.
func readFile(path string) ([]byte, error) {
	text, err := files.ReadRegular(path, maxCredentials)
	if _, odd := errors.AsType[*tensorfs.FormatError](err); odd {
		return nil, refusedFile(path, "it is not a regular file", "name a file with credentials")
	}
	if err != nil {
		return nil, tensorfs.PathError(path, err)
	}
	return text, nil
}

// fromFile returns the credentials of a file, which is read again for each token.
func fromFile(path string, client *web.Client) (source, error) {
	read := func() (source, error) {
		text, err := readFile(path)
		if err != nil {
			return source{}, err
		}
		return fromText(path, text, client, own)
	}
	s, err := read()
	if err != nil {
		return source{}, err
	}
	s.token = func(ctx context.Context) (*oauth2.Token, error) {
		now, err := read()
		if err != nil {
			return nil, err
		}
		return now.token(ctx)
	}
	return s, nil
}

// fromText returns the credentials of a text.
func fromText(name string, text []byte, client *web.Client, who giver) (source, error) {
	kind, clean, err := check(name, text, who)
	if err != nil {
		return source{}, err
	}
	return source{name, func(ctx context.Context) (*oauth2.Token, error) {
		ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: client.Transport(maxCredentials), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
		c, err := google.CredentialsFromJSONWithType(ctx, clean, kind, scope)
		if err != nil {
			return nil, refusedToken(name, kind, err)
		}
		token, err := c.TokenSource.Token()
		if err == nil && !plainToken(token.AccessToken) {
			err = errToken
		}
		if err != nil {
			return nil, refusedToken(name, kind, err)
		}
		return token, nil
	}}, nil
}

// errToken is the error of a token that no header can hold.
var errToken = errors.New("not a token")

// plainToken reports whether a header may hold a token: an error of net/http about another one
// might quote it.
func plainToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

// refusedToken is the error that credentials give no token.
func refusedToken(name string, kind google.CredentialsType, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok { // a server was not reached
		return e
	}
	advice := "check the account and its key, or make a new key"
	if kind == google.AuthorizedUser {
		advice = "run 'gcloud auth application-default login' again"
	}
	advice += "; for a public bucket set " + disableSetting + "=1"
	e := &tensorfs.FormatError{File: name, Offset: -1, Problem: "Google gives no token for these credentials", Advice: advice, Kind: syscall.EACCES}
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.Response != nil {
		if answer.Response.StatusCode >= http.StatusInternalServerError || answer.Response.StatusCode == http.StatusTooManyRequests {
			return web.Status(name, answer.Response, "try again later")
		}
		if code := errorCode(answer); code != "" {
			e.Problem += " (" + code + ")"
		}
	}
	return web.Final(e)
}

// errorCode returns the code of a refusal, such as invalid_grant, "" if it is missing.
func errorCode(answer *oauth2.RetrieveError) string {
	code := answer.ErrorCode
	if code == "" {
		var body struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer.Body, &body) // else it has no code
		code = body.Error
	}
	if !codes().MatchString(code) {
		return ""
	}
	return code
}

var codes = remote.Pattern(`^[a-z_]{1,40}$`)

// machine asks the metadata server of a machine of Google's cloud for its service account's
// token. It is asked directly: a proxy would see the token.
func machine(ctx context.Context, getenv func(string) string) (source, *oauth2.Token, error) {
	if environ.IsTrue(getenv("NO_GCE_CHECK")) {
		return source{}, nil, nil
	}
	client := metadata.NewClient(&http.Client{
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: machineTimeout}).DialContext, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	ask := func(ctx context.Context, limit time.Duration) (*oauth2.Token, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		text, err := client.GetWithContext(ctx, "instance/service-accounts/default/token?scopes="+scope)
		if err != nil {
			return nil, err
		}
		var t struct {
			AccessToken string `json:"access_token"`
			ExpiresIn   int64  `json:"expires_in"`
		}
		if err := json.Unmarshal([]byte(text), &t); err != nil || t.ExpiresIn <= 0 || !plainToken(t.AccessToken) {
			return nil, errToken
		}
		return &oauth2.Token{AccessToken: t.AccessToken, Expiry: time.Now().Add(time.Duration(min(t.ExpiresIn, 1<<20)) * time.Second)}, nil
	}
	first, err := ask(ctx, machineTimeout)
	if err != nil {
		return source{}, nil, ctx.Err() // without such a service there are no credentials
	}
	const name = "the machine's service account"
	return source{name, func(ctx context.Context) (*oauth2.Token, error) {
		token, err := ask(ctx, againTimeout)
		if err != nil && ctx.Err() == nil {
			err = &tensorfs.FormatError{File: name, Offset: -1, Problem: "the machine gives no new token", Advice: "check that it still has a service account", Kind: web.NoAnswer(syscall.EACCES)}
		}
		return token, err
	}}, first, nil
}
