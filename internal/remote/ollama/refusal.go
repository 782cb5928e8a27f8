package ollama

import (
	"net/http"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/web"
)

// refusal is the error of an answer of a registry, in words for whom asked for name.
func (r *registry) refusal(name string, resp *http.Response, body []byte) error {
	e := &tensorfs.FormatError{File: name, Offset: -1}
	orToken := "" // what may help at the Hub
	if r.hub != nil && r.token() == "" {
		orToken = ", or set HF_TOKEN"
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind, e.Problem = syscall.EACCES, "the registry does not show it to everybody"+r.message(body)
		if e.Advice = "private models must be pulled with 'ollama pull'"; r.hub != nil {
			e.Advice = "check the name" + orToken
		}
	case http.StatusNotFound:
		e.Kind, e.Problem = syscall.ENOENT, "the registry has no such model"+r.message(body)
		e.Advice = "check the name and the tag" + orToken
	case http.StatusTooManyRequests:
		e.Kind, e.Problem = web.Refusal(resp, syscall.EAGAIN), "the registry limits requests"
		e.Advice = "try again " + web.When(resp.Header) + orToken
	default:
		e.Kind, e.Problem, e.Advice = web.Refusal(resp, syscall.EIO), "the registry answers "+web.Answer(resp)+r.message(body), "try again later"
	}
	return e
}

// said is a registry's message about an error.
type said struct {
	Errors []struct {
		Message string `json:"message"`
	} `json:"errors"`
	Error string `json:"error"`
}

// message returns it quoted, "" if it contains nothing that can be shown.
func (r *registry) message(body []byte) string {
	var s said
	if json.Unmarshal(body, &s) != nil {
		return ""
	}
	text := s.Error
	if len(s.Errors) > 0 {
		text = s.Errors[0].Message
	}
	if token := r.token(); text == "" || token != "" && strings.Contains(text, token) {
		return ""
	}
	return ": " + web.Quote(text)
}
