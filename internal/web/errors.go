package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
)

// errPermanent marks what another attempt does not change.
var errPermanent = errors.New("refused")

// ErrNoAnswer marks a request without an answer: the network or the server was not
// reached, or the server is broken or too busy. A refusal is an answer.
var ErrNoAnswer = errors.New("no answer")

// Unanswered reports whether an error means that the server did not answer.
func Unanswered(err error) bool {
	return errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded)
}

// Refusal is the kind of an error about an answer, which is otherwise of a kind: a
// server that is broken or too busy has not answered.
func Refusal(resp *http.Response, kind error) error {
	if resp.StatusCode >= 500 || transient(resp.StatusCode) {
		return NoAnswer(kind)
	}
	return kind
}

// NoAnswer returns an error of a kind which also means that the server did not answer.
func NoAnswer(kind error) error { return marked{kind, ErrNoAnswer} }

// errNoWay marks that no network leads to the server. That does not change soon: only
// readers of a file wait for it.
var errNoWay = errors.New("no way")

// marked is an error that is also of a kind, which its text does not mention.
type marked struct{ err, kind error }

func (m marked) Error() string   { return m.err.Error() }
func (m marked) Unwrap() []error { return []error{m.err, m.kind} }

// failedTo explains why a server gave no answer: host, reason, what to check. The text of
// net/http's error is not used, because it holds the whole address.
func failedTo(u *url.URL, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	unreached := marked{marked{err, syscall.EIO}, ErrNoAnswer}
	e := &tensorfs.FormatError{File: Printable(u), Offset: -1, Kind: unreached}
	host := u.Hostname()
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, errPrivate):
		e.Problem, e.Advice, e.Kind = err.Error()[strings.Index(err.Error(), errPrivate.Error()):], "such a redirect is not followed", errPermanent
	case errors.As(err, &dns):
		e.Problem, e.Advice = fmt.Sprintf("no address is known for %s", tensorfs.Quote(host)), "check the name and the connection to the network"
		e.Kind = marked{unreached, errNoWay}
		if dns.IsNotFound {
			e.Kind = marked{unreached, errPermanent}
		}
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		e.Problem, e.Advice, e.Kind = fmt.Sprintf("there is no way to %s", tensorfs.Quote(u.Host)), "check the connection to the network", marked{unreached, errNoWay}
	case errors.As(err, &cert), errors.As(err, &authority):
		e.Problem, e.Advice, e.Kind = fmt.Sprintf("the certificate of %s cannot be verified", tensorfs.Quote(host)), "check the clock and the installed certificates (SSL_CERT_FILE)", marked{unreached, errPermanent}
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Problem, e.Advice = fmt.Sprintf("%s refuses connections", tensorfs.Quote(u.Host)), "check the address, and whether the server runs"
	case timedOut(err):
		e.Problem, e.Advice = fmt.Sprintf("%s does not answer", tensorfs.Quote(u.Host)), "try again later"
	default:
		e.Problem, e.Advice = fmt.Sprintf("the connection to %s failed", tensorfs.Quote(u.Host)), "try again later"
	}
	return e
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// Status is the error about an unexpected answer: its status and the server's message, in
// one line.
func Status(path string, resp *http.Response, advice string) error {
	return &tensorfs.FormatError{File: path, Offset: -1, Problem: "the server answers " + Answer(resp), Advice: advice, Kind: Refusal(resp, kindOf(resp.StatusCode))}
}

// Answer is the status of an answer in words, for a message.
func Answer(resp *http.Response) string { return cut(tensorfs.OneLine(resp.Status)) }

// kindOf is what a status means to a reader of a mount.
func kindOf(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return syscall.EACCES
	case http.StatusNotFound, http.StatusGone:
		return syscall.ENOENT
	}
	return syscall.EIO
}

// ErrOffline is the error about a file that is not local while requests are forbidden. why
// names the setting that forbids them.
func ErrOffline(path, why string) error {
	return &tensorfs.FormatError{File: path, Offset: -1, Problem: "not on this machine, and " + why + " forbids asking for it", Advice: "run 'tensorfs fetch' on it when it is allowed", Kind: syscall.ENOENT}
}

// ErrVersion is the error of an answer that is of another version of the file than
// the one that was opened.
func ErrVersion(path, why string) error {
	return &tensorfs.ChangedError{File: path, Why: why, Kind: syscall.ESTALE}
}

// maxQuoted is how much of a server's message is shown.
const maxQuoted = 200

// cut shortens a text for a message.
func cut(text string) string {
	if len(text) > maxQuoted {
		return strings.ToValidUTF8(text[:maxQuoted], "") + "..."
	}
	return text
}

// Quote quotes a server's message.
func Quote(said string) string {
	if len(said) > maxQuoted {
		return strconv.Quote(said[:maxQuoted]) + "..."
	}
	return strconv.Quote(said)
}
