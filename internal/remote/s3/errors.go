package s3

import (
	"context"
	"net/http"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/web"
)

// meaning explains an error of the server to the user.
type meaning struct {
	problem, advice string
	kind            error
}

const checkKeys = "check the credentials (AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), and that they are for this server"

// hasExpired is of credentials that the server took before.
var hasExpired = meaning{"the credentials have expired", "get new ones", syscall.EACCES}

// expired reports whether an answer means that the credentials expired.
func expired(resp *http.Response, body []byte) bool {
	return resp.StatusCode == http.StatusBadRequest && meanings[readFailure(body).Code] == hasExpired
}

// maxRefusal is how much of the body of an error is read.
const maxRefusal = 64 << 10

// meanings are the errors that users can do something about, by the server's code.
var meanings = map[string]meaning{
	"NoSuchKey":             {"there is no such object", "check the name; one of a directory ends in /", syscall.ENOENT},
	"NoSuchBucket":          {"there is no such bucket", "check the name, and the server (AWS_ENDPOINT_URL)", syscall.ENOENT},
	"NoSuchVersion":         {"this version of it is gone", "open it again", syscall.ENOENT},
	"AccessDenied":          {"these credentials may not read it, or it does not exist", "check the name and the credentials", syscall.EACCES},
	"InvalidAccessKeyId":    {"the server does not know this access key", checkKeys, syscall.EACCES},
	"SignatureDoesNotMatch": {"the secret key does not fit the access key", checkKeys, syscall.EACCES},
	"ExpiredToken":          hasExpired,
	"TokenRefreshRequired":  hasExpired,
	"InvalidToken":          {"the session token is not valid", "get new credentials", syscall.EACCES},
	"RequestTimeTooSkewed":  {"the clocks of this machine and of the server differ too much", "set this machine's clock", syscall.EACCES},
	"InvalidObjectState":    {"it is archived", "restore it first", syscall.EACCES},
	"SlowDown":              {"the server limits requests", "try again later", syscall.EIO},
}

// anonymous is AccessDenied without credentials.
var anonymous = meaning{"it is not public, or does not exist, and there are no credentials", "check the name, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", syscall.EACCES}

// refused returns the error of an answer about key, or about the bucket.
func (b *bucket) refused(ctx context.Context, file, key string, resp *http.Response, body []byte) error {
	code := readFailure(body).Code
	if code == "" { // an answer to HEAD has no body, and proxies have others
		switch resp.StatusCode {
		case http.StatusNotFound:
			if code = "NoSuchKey"; key == "" {
				code = "NoSuchBucket"
			}
		case http.StatusForbidden, http.StatusUnauthorized:
			code = "AccessDenied"
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			code = "SlowDown"
		}
	}
	m, ok := meanings[code]
	switch {
	case !ok && code != "":
		return web.Status(file, resp, "it calls this "+web.Quote(code)+"; check the name, and the server (AWS_ENDPOINT_URL)")
	case !ok:
		return web.Status(file, resp, "check the name, and the server (AWS_ENDPOINT_URL)")
	}
	if code == "AccessDenied" {
		if v, err := b.keys.get(ctx); err == nil && v.AccessKeyID == "" {
			m = anonymous
		}
	}
	return &tensorfs.FormatError{File: file, Offset: -1, Problem: m.problem, Advice: m.advice, Kind: web.Refusal(resp, m.kind)}
}
