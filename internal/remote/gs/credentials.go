package gs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"cloud.google.com/go/compute/metadata"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/remote/bearer"
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

const (
	fileSetting    = "GOOGLE_APPLICATION_CREDENTIALS"
	disableSetting = "CLOUDSDK_AUTH_DISABLE_CREDENTIALS"
)

// settings are the variables by which credentials are found.
var settings = []string{fileSetting, "GOOGLE_CREDENTIALS", disableSetting, "CLOUDSDK_CONFIG", "GCE_METADATA_HOST", "NO_GCE_CHECK", "HOME"}

// newKeys returns the credentials of an environment.
func newKeys(o remote.Options) *bearer.Keys {
	return bearer.New(func() string { return bearer.Settings(o.Getenv, settings...) }, func(ctx context.Context) (bearer.Source, *oauth2.Token, error) { return find(ctx, o) })
}

// find looks for credentials. The token may be nil: then it is asked for.
func find(ctx context.Context, o remote.Options) (bearer.Source, *oauth2.Token, error) {
	if environ.IsTrue(o.Getenv(disableSetting)) {
		return nil, nil, nil
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
	text, err := files.ReadRegular(path, bearer.MaxAnswer)
	if _, odd := errors.AsType[*tensorfs.FormatError](err); odd {
		return nil, refusedFile(path, "it is not a regular file", "name a file with credentials")
	}
	if err != nil {
		return nil, tensorfs.PathError(path, err)
	}
	return text, nil
}

// fromFile returns the credentials of a file, which is read again for each token.
func fromFile(path string, client *web.Client) (bearer.Source, error) {
	read := func() (bearer.Source, error) {
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		return fromText(path, text, client, own)
	}
	if _, err := read(); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*oauth2.Token, error) {
		now, err := read()
		if err != nil {
			return nil, err
		}
		return now(ctx)
	}, nil
}

// fromText returns the credentials of a text.
func fromText(name string, text []byte, client *web.Client, who giver) (bearer.Source, error) {
	kind, clean, err := check(name, text, who)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*oauth2.Token, error) {
		ctx = bearer.Context(ctx, client.Transport(bearer.MaxAnswer))
		c, err := google.CredentialsFromJSONWithType(ctx, clean, kind, scope)
		if err != nil {
			return nil, refusedToken(name, kind, err)
		}
		token, err := c.TokenSource.Token()
		if err == nil && !bearer.IsPlain(token.AccessToken) {
			err = bearer.ErrToken
		}
		if err != nil {
			return nil, refusedToken(name, kind, err)
		}
		return token, nil
	}, nil
}

// refusedToken is the error that credentials give no token.
func refusedToken(name string, kind google.CredentialsType, err error) error {
	advice := "check the account and its key, or make a new key"
	if kind == google.AuthorizedUser {
		advice = "run 'gcloud auth application-default login' again"
	}
	return bearer.Refused(name, "Google", advice+"; for a public bucket set "+disableSetting+"=1", err)
}

// machine asks the metadata server of a machine of Google's cloud for its service account's
// token. It is asked directly: a proxy would see the token.
func machine(ctx context.Context, getenv func(string) string) (bearer.Source, *oauth2.Token, error) {
	if environ.IsTrue(getenv("NO_GCE_CHECK")) {
		return nil, nil, nil
	}
	client := metadata.NewClient(bearer.Machine())
	return bearer.OfMachine(ctx, func(ctx context.Context) (*oauth2.Token, error) {
		text, err := client.GetWithContext(ctx, "instance/service-accounts/default/token?scopes="+scope)
		if err != nil {
			return nil, err
		}
		return bearer.Read([]byte(text))
	}, &tensorfs.FormatError{File: "the machine's service account", Offset: -1, Problem: "the machine gives no new token", Advice: "check that it still has a service account", Kind: web.NoAnswer(syscall.EACCES)})
}
