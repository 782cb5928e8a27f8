package az

import (
	"encoding/xml"
	"net/http"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// maxRefusal is how much of the body of an error is read.
const maxRefusal = 64 << 10

// meaning explains an error of the server to the user.
type meaning struct {
	problem, advice string
	kind            error
}

const checkName = "check the name, and the account (" + accountSetting + ")"

var (
	noBlob  = meaning{"there is no such blob", "check the name; one of a directory ends in /", syscall.ENOENT}
	mayNot  = meaning{"these credentials may not read it", "give the identity the role Storage Blob Data Reader, or the SAS token the permissions r and l", syscall.EACCES}
	limited = meaning{"the credentials, or the account's network rules, do not allow this request", "check the key, or the SAS token's addresses, protocol and resources, and the account's firewall", syscall.EACCES}
	busy    = meaning{"the server limits requests", "", syscall.EIO}

	unsigned = meaning{"it is not public, or does not exist, and there are no credentials", "check the name and the account, or " + login, syscall.EACCES}
	badSAS   = meaning{"the server does not accept the SAS token", "check that it is for this account and not over, or make a new one", syscall.EACCES}
	badKey   = meaning{"the server does not accept the account's key", "check AZURE_STORAGE_KEY or " + connectionSetting + ", and this machine's clock", syscall.EACCES}
	badToken = meaning{"the server does not accept the token", "get a new one, from the tenant of the account", syscall.EACCES}
)

// meanings are the errors that users can do something about, by the server's code.
var meanings = map[string]meaning{
	"BlobNotFound":      noBlob,
	"ContainerNotFound": {"there is no such container", checkName, syscall.ENOENT},
	"ResourceNotFound":  {"it does not exist", checkName, syscall.ENOENT},

	"AuthorizationPermissionMismatch":    mayNot,
	"InsufficientAccountPermissions":     mayNot,
	"AuthorizationFailure":               limited,
	"AuthorizationProtocolMismatch":      limited,
	"AuthorizationResourceTypeMismatch":  limited,
	"AuthorizationServiceMismatch":       limited,
	"AuthorizationSourceIPMismatch":      limited,
	"KeyBasedAuthenticationNotPermitted": {"the account allows no keys, and no SAS tokens made by them", "use an identity (AZURE_CLIENT_ID and so on)", syscall.EACCES},
	"AccountIsDisabled":                  {"the account is disabled", "ask its owner", syscall.EACCES},
	"BlobArchived":                       {"it is archived", "move it to the tier Hot, Cool or Cold first", syscall.EACCES},
	"BlobBeingRehydrated":                {"it is archived, and being restored", "try again later", syscall.EACCES},

	"ServerBusy":        busy,
	"OperationTimedOut": busy,
}

// unaccepted are the codes of credentials that are missing or not accepted.
var unaccepted = map[string]bool{
	"AuthenticationFailed": true, "InvalidAuthenticationInfo": true, "NoAuthenticationInformation": true, "PublicAccessNotPermitted": true,
}

// codeOf returns the code of an error: HEAD has no body.
func codeOf(resp *http.Response, body []byte) string {
	if code := resp.Header.Get("X-Ms-Error-Code"); code != "" {
		return code
	}
	var e struct{ Code string }
	if xml.Unmarshal(trimMark(body), &e) != nil {
		return ""
	}
	return e.Code
}

// refused returns the error of an answer about what p names.
func (s *store) refused(p place, resp *http.Response, body []byte) error {
	code := codeOf(resp, body)
	m, ok := meanings[code]
	switch status := resp.StatusCode; {
	case s.anonymous(resp.Request) && (unaccepted[code] || code == "ResourceNotFound" || status == http.StatusUnauthorized || status == http.StatusForbidden):
		m = unsigned
	case !unaccepted[code] && ok:
	case unaccepted[code] || status == http.StatusUnauthorized || status == http.StatusForbidden:
		switch {
		case s.sas != "":
			m = badSAS
		case s.key != nil:
			m = badKey
		default:
			m = badToken
		}
	case code == "" && status == http.StatusNotFound && p.IsDir():
		m = meanings["ContainerNotFound"]
	case code == "" && status == http.StatusNotFound:
		m = noBlob
	case status == http.StatusTooManyRequests:
		m = busy
	case status >= http.StatusInternalServerError:
		return web.Status(p.String(), resp, "try again later")
	case code != "":
		return web.Status(p.String(), resp, "it calls this "+web.Quote(code)+"; "+checkName)
	default:
		return web.Status(p.String(), resp, checkName)
	}
	if m == busy {
		m.advice = "try again " + web.When(resp.Header)
	}
	return &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: m.problem, Advice: m.advice, Kind: web.Refusal(resp, m.kind)}
}

// wrong is an error about an answer that makes no sense.
func wrong(p remote.ObjectName, problem string) error {
	return &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: problem, Advice: "the server is at fault; check the account's address (" + endpointSetting + ", " + connectionSetting + ")"}
}
