// Package bearer keeps the tokens with which clouds are asked for objects.
package bearer

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
	"golang.org/x/oauth2"
)

// MaxAnswer bounds files of credentials, and answers with tokens.
const MaxAnswer = 1 << 20

// ErrToken is the error of a token that no header can hold.
var ErrToken = errors.New("not a token")

// Source gives a token. Anonymous requests have a nil Source.
type Source func(ctx context.Context) (*oauth2.Token, error)

// Keys are credentials that are looked up when they are needed, and the token that they gave. A nil
// *Keys is for anonymous requests.
type Keys struct {
	settings func() string
	find     func(ctx context.Context) (Source, *oauth2.Token, error)

	turn  chan struct{} // taken by the goroutine that uses what follows
	found bool
	from  Source
	known string // the settings that it was found by
	token *oauth2.Token
}

// New returns Keys that find looks for, again whenever the settings change. The token that it
// returns may be nil: then the Source is asked for it.
func New(settings func() string, find func(ctx context.Context) (Source, *oauth2.Token, error)) *Keys {
	return &Keys{settings: settings, find: find, turn: make(chan struct{}, 1)}
}

// Settings returns the values of variables, to see that they change.
func Settings(getenv func(string) string, names ...string) string {
	var s strings.Builder
	for _, name := range names {
		s.WriteString(getenv(name) + "\n")
	}
	return s.String()
}

// Get returns a token that is valid now, "" for anonymous requests. It is looked up again when it
// ends or the settings change, so that an open model goes on after a new login. An error is
// [web.Misconfigured], unless a server did not answer.
func (k *Keys) Get(ctx context.Context) (string, error) {
	token, err := k.get(ctx)
	if err != nil && ctx.Err() == nil && !web.Unanswered(err) {
		err = web.Misconfigured(err)
	}
	return token, err
}

func (k *Keys) get(ctx context.Context) (string, error) {
	if k == nil {
		return "", nil
	}
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-k.turn }()
	if now := k.settings(); !k.found || k.known != now {
		from, token, err := k.find(ctx)
		if err != nil {
			return "", err
		}
		k.found, k.from, k.token, k.known = true, from, token, now
	}
	if k.from == nil {
		return "", nil
	}
	if !k.token.Valid() {
		token, err := k.from(ctx)
		if err != nil {
			return "", err
		}
		k.token = token
	}
	return k.token.AccessToken, nil
}

// Ended drops the token of a request that was refused, and reports whether another attempt may
// have a new one. Of many requests at a time one is enough.
func (k *Keys) Ended(req *http.Request) bool {
	used, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok || k == nil {
		return false
	}
	select {
	case k.turn <- struct{}{}:
	case <-req.Context().Done():
		return false
	}
	defer func() { <-k.turn }()
	if k.token != nil && k.token.AccessToken == used {
		k.token = nil
	}
	return true
}

// IsPlain reports whether a header may hold a token: an error of net/http about another one
// might quote it.
func IsPlain(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' })
}

// Read reads a token from the answer of a machine's service.
func Read(text []byte) (*oauth2.Token, error) {
	var t struct {
		AccessToken string      `json:"access_token"`
		ExpiresIn   json.Number `json:"expires_in"` // some write it as a text
	}
	if json.Unmarshal(text, &t) != nil || !IsPlain(t.AccessToken) {
		return nil, ErrToken
	}
	life, err := t.ExpiresIn.Int64()
	if err != nil || life <= 0 {
		return nil, ErrToken
	}
	return &oauth2.Token{AccessToken: t.AccessToken, Expiry: time.Now().Add(time.Duration(min(life, 1<<20)) * time.Second)}, nil
}

// Refused is the error that a cloud gives no token for the credentials of a name.
func Refused(name, cloud, advice string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok { // a server was not reached
		return e
	}
	e := &tensorfs.FormatError{File: name, Offset: -1, Problem: cloud + " gives no token for these credentials", Advice: advice, Kind: syscall.EACCES}
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && answer.Response != nil {
		if answer.Response.StatusCode >= http.StatusInternalServerError || answer.Response.StatusCode == http.StatusTooManyRequests {
			return web.Status(name, answer.Response, "try again later")
		}
		if code := errorCode(answer); code != "" {
			e.Problem += " (" + code + ")"
		}
	}
	return e
}

// errorCode returns the code of a refusal, such as invalid_grant or AADSTS700016, "" if it is missing.
func errorCode(answer *oauth2.RetrieveError) string {
	code := answer.ErrorCode
	if code == "" {
		var body struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer.Body, &body) // else it has no code
		code = body.Error
	}
	if own := ownCode().FindString(answer.ErrorDescription); own != "" {
		return own
	}
	if !codes().MatchString(code) {
		return ""
	}
	return code
}

var (
	codes   = remote.Pattern(`^[a-z_]{1,40}$`)
	ownCode = remote.Pattern(`^AADSTS[0-9]{1,9}`) // Microsoft's, which its documentation explains
)

// Limits of a machine's service.
const (
	machineTimeout = time.Second      // most machines have no such service
	againTimeout   = 10 * time.Second // it was there before
)

// Machine returns a client for the service of a machine of a cloud. It is asked directly: a proxy
// would see the token.
func Machine() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: machineTimeout}).DialContext, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true},
		CheckRedirect: stay,
	}
}

// OfMachine returns the Source of a machine's tokens, and its first token. A machine without such a
// service has no credentials; later, gone is the error of one that does not answer.
func OfMachine(ctx context.Context, ask func(ctx context.Context) (*oauth2.Token, error), gone error) (Source, *oauth2.Token, error) {
	within := func(ctx context.Context, limit time.Duration) (*oauth2.Token, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return ask(ctx)
	}
	first, err := within(ctx, machineTimeout)
	if err != nil {
		return nil, nil, ctx.Err()
	}
	return func(ctx context.Context) (*oauth2.Token, error) {
		token, err := within(ctx, againTimeout)
		if err != nil && ctx.Err() == nil {
			err = gone
		}
		return token, err
	}, first, nil
}

// stay follows no redirect.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Context has package oauth2 exchange credentials by a transport.
func Context(ctx context.Context, t http.RoundTripper) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: t, CheckRedirect: stay})
}
