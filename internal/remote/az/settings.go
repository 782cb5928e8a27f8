package az

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// The variables have the names that Azure's command line, adlfs and object_store read. The account:
// AZURE_STORAGE_CONNECTION_STRING, else AZURE_STORAGE_ACCOUNT. Requests use the first of: the SAS
// token of the name, the account's key, its SAS token, a token of credentials.go. Without one, and
// with AZURE_SKIP_SIGNATURE, they are anonymous. The key and the SAS token are used only for their
// own account, because a name may lead to a stranger's.

const (
	connectionSetting = "AZURE_STORAGE_CONNECTION_STRING"
	accountSetting    = "AZURE_STORAGE_ACCOUNT"
	endpointSetting   = "AZURE_STORAGE_BLOB_ENDPOINT"
	anonymousSetting  = "AZURE_SKIP_SIGNATURE"
)

// Azurite's account, which is the same everywhere.
const (
	developmentAccount  = "devstoreaccount1"
	developmentEndpoint = "http://127.0.0.1:10000/devstoreaccount1"
	developmentKey      = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// access is where an account is, and what it is asked with. At most one of key and sas is set.
type access struct {
	at      url.URL
	account string
	key     []byte
	sas     string // a query
	bearer  bool   // tokens of credentials.go may be sent there
}

// readSettings returns the access to a place.
func readSettings(p place, getenv func(string) string) (access, error) {
	s, err := ofAccount(getenv)
	if err != nil {
		return access{}, err
	}
	if p.host != "" && p.account != s.account {
		s = access{account: p.account}
	}
	if p.host != "" {
		s.at = url.URL{Scheme: "https", Host: p.host}
	}
	if s.account == "" && s.at.Host == "" {
		return access{}, tensorfs.Unsupported(p.String(), "it does not name its account, and neither does "+accountSetting, "set it, or write az://ACCOUNT.blob.core.windows.net/CONTAINER/BLOB")
	}
	if s.at.Host == "" {
		s.at = url.URL{Scheme: "https", Host: s.account + ".blob.core.windows.net"}
	}
	s.bearer = s.at.Scheme == "https" && accountHost().MatchString(s.at.Host)
	switch {
	case p.sas != "":
		s.sas, s.key = p.sas, nil
	case environ.IsTrue(getenv(anonymousSetting)):
		s.sas, s.key, s.bearer = "", nil, false
	case s.key != nil:
		s.sas = ""
	}
	if s.sas != "" {
		s.bearer = false
		if s.sas, err = checkSAS(p, s.sas, p.sas != ""); err != nil {
			return access{}, err
		}
		if s.at.Scheme == "http" && remote.Scheme(s.at.Host) != "http" {
			return access{}, tensorfs.Unsupported(p.String(), "everybody on the way would see the SAS token at an address that begins with http://", "use https://")
		}
	}
	return s, nil
}

// checkSAS returns the query of a SAS token.
func checkSAS(p place, given string, ofName bool) (string, error) {
	given = strings.TrimPrefix(strings.TrimSpace(given), "?")
	query, err := url.ParseQuery(given)
	if err == nil && query.Get("sig") != "" && query.Get("comp") == "" && query.Get("restype") == "" {
		return query.Encode(), nil
	}
	if ofName {
		return "", tensorfs.Unsupported(p.String(), "what follows ? is not a SAS token", "write the token as it was made (sv=...&sig=...); a blob whose own name has a ? is read by its directory")
	}
	return "", setting("AZURE_STORAGE_SAS_TOKEN", "it is not a SAS token (sv=...&sig=...)")
}

// ofAccount returns the account of the settings.
func ofAccount(getenv func(string) string) (access, error) {
	first := func(names ...string) (name, value string) {
		for _, name := range names {
			if v := strings.TrimSpace(getenv(name)); v != "" {
				return name, v
			}
		}
		return names[0], ""
	}
	if text := strings.TrimSpace(getenv(connectionSetting)); text != "" {
		return ofConnection(text)
	}
	var s access
	name, account := first(accountSetting, "AZURE_STORAGE_ACCOUNT_NAME")
	if account != "" && !accountName().MatchString(account) {
		return s, setting(name, "it is not the name of an account (3 to 24 small letters and digits)")
	}
	s.account = account
	_, s.sas = first("AZURE_STORAGE_SAS_TOKEN")
	name, key := first("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
	if err := s.setKey(name, key); err != nil {
		return s, err
	}
	name, at := first(endpointSetting, "AZURE_STORAGE_SERVICE_ENDPOINT")
	return s, s.setEndpoint(name, at)
}

// ofConnection reads a connection string, as portals show them.
func ofConnection(text string) (access, error) {
	fields := map[string]string{}
	for field := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[strings.ToLower(name)] = value
	}
	if strings.EqualFold(fields["usedevelopmentstorage"], "true") {
		fields = map[string]string{"accountname": developmentAccount, "accountkey": developmentKey, "blobendpoint": developmentEndpoint}
	}
	s := access{account: fields["accountname"], sas: fields["sharedaccesssignature"]}
	if s.account != "" && !accountName().MatchString(s.account) {
		return s, setting(connectionSetting, "its AccountName is not the name of an account")
	}
	at := fields["blobendpoint"]
	if suffix := fields["endpointsuffix"]; at == "" && s.account != "" {
		at = cmp.Or(fields["defaultendpointsprotocol"], "https") + "://" + s.account + ".blob." + cmp.Or(suffix, "core.windows.net")
	}
	if at == "" {
		return s, setting(connectionSetting, "it has neither AccountName nor BlobEndpoint")
	}
	if err := s.setKey(connectionSetting, fields["accountkey"]); err != nil {
		return s, err
	}
	return s, s.setEndpoint(connectionSetting, at)
}

// setKey takes the key of the account.
func (s *access) setKey(name, text string) (err error) {
	if text == "" {
		return nil
	}
	if s.key, err = base64.StdEncoding.DecodeString(text); err != nil || len(s.key) == 0 {
		return setting(name, "its key is not the key of an account")
	}
	if s.account == "" {
		return setting(accountSetting, "it is not set, and there is a key of an account")
	}
	return nil
}

// setEndpoint takes the address of the account, which may have a path.
func (s *access) setEndpoint(name, text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return setting(name, "its endpoint is not an address like https://HOST") // which is not shown: it may hold a token
	}
	s.at = url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	if m := accountHost().FindStringSubmatch(u.Host); m != nil && s.account == "" {
		s.account = m[1]
	}
	return nil
}

// setting is an error about a variable, whose value is not shown.
func setting(name, problem string) error {
	return tensorfs.Unsupported(name, problem, "set it right, or unset it")
}
