package gs

import (
	"context"
	"net/http"
	"strings"

	"github.com/tensorfs/tensorfs/internal/remote"
	"golang.org/x/oauth2"
)

// keys are credentials that are looked up when they are needed, and the token that they gave.
type keys struct {
	o    remote.Options
	none bool // requests are anonymous, whatever the environment has

	turn  chan struct{} // taken by the goroutine that uses what follows
	from  source        // of tokens
	known string        // the settings that it was found by, "" before
	token *oauth2.Token
}

// source is where tokens come from. For anonymous requests its function is nil.
type source struct {
	name  string // for people
	token func(ctx context.Context) (*oauth2.Token, error)
}

func newKeys(o remote.Options, emulator bool) *keys {
	k := &keys{o: o, none: emulator, turn: make(chan struct{}, 1)}
	return k
}

// get returns a token that is valid now, "" for anonymous requests. It is looked up again when it
// ends or the settings change, so that an open model goes on after a new login.
func (k *keys) get(ctx context.Context) (string, error) {
	if k.none {
		return "", nil
	}
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-k.turn }()
	if now := settings(k.o.Getenv); k.known != now {
		from, token, err := find(ctx, k.o)
		if err != nil {
			return "", err
		}
		k.from, k.token, k.known = from, token, now
	}
	if k.from.token == nil {
		return "", nil
	}
	if !k.token.Valid() {
		token, err := k.from.token(ctx)
		if err != nil {
			return "", err
		}
		k.token = token
	}
	return k.token.AccessToken, nil
}

// ended drops the token of a request that was refused, and reports whether another attempt may
// have a new one. Of many requests at a time one is enough.
func (k *keys) ended(req *http.Request) bool {
	used, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok {
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
