package hub

import (
	"net/http"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/web"
)

// refusal is the error of an answer of the Hub, in words for whom asked for name.
func (h *hub) refusal(name string, resp *http.Response) error {
	e := &tensorfs.FormatError{File: name, Offset: -1}
	token, _ := h.Token()
	setToken := func(without, with string) string {
		if token == "" {
			return without
		}
		return with
	}
	code := resp.Header.Get("X-Error-Code")
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Kind, e.Problem, e.Advice = web.Refusal(resp, syscall.EAGAIN), "the Hub limits requests", "try again "+web.When(resp.Header)+setToken(", or set HF_TOKEN", "")
	case code == "GatedRepo":
		e.Kind, e.Problem = syscall.EACCES, setToken("the model is gated", "the model is gated and this token has no access")
		e.Advice = "accept its terms on the model's page" + setToken(", and set HF_TOKEN", "")
	case code == "RevisionNotFound":
		e.Kind, e.Problem, e.Advice = errRevision, "the Hub has no such revision of it", "check the branch or tag; a commit needs all of its 40 digits"
	case code == "EntryNotFound":
		e.Kind, e.Problem, e.Advice = syscall.ENOENT, "the Hub has no such file of it", "check the name"
	case code == "RepoNotFound", code == "" && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusNotFound):
		if e.Kind = syscall.ENOENT; resp.StatusCode == http.StatusUnauthorized {
			e.Kind = syscall.EACCES
			if token == "" && code != "" {
				e.Kind = eitherRefusal{syscall.EACCES}
			}
		}
		e.Problem = "by the Hub's answer there is no such model, or you may not see it"
		e.Advice = "check the name, " + setToken("or set HF_TOKEN", "and whether the token is valid")
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		e.Kind, e.Problem, e.Advice = syscall.EACCES, h.withHubMessage(resp, "the Hub refuses to show it"), setToken("set HF_TOKEN", "check what the token may read")
	default:
		e.Kind, e.Problem, e.Advice = web.Refusal(resp, syscall.EIO), h.withHubMessage(resp, "the Hub answers "+web.Answer(resp)), "try again later"
	}
	return e
}

// eitherRefusal is the Hub's answer to a request without a token for a repository that does not
// exist, or is private: it does not tell which.
type eitherRefusal struct{ syscall.Errno }

// MayNotExist reports that what was refused may not exist.
func (eitherRefusal) MayNotExist() bool { return true }

// Unwrap returns the error for programs that want one of the two.
func (e eitherRefusal) Unwrap() error { return e.Errno }

// withHubMessage adds the Hub's own message.
func (h *hub) withHubMessage(resp *http.Response, problem string) string {
	text := resp.Header.Get("X-Error-Message")
	token, err := h.Token()
	if text == "" || err != nil || token != "" && strings.Contains(text, token) {
		return problem
	}
	return problem + ": " + web.Quote(text)
}
