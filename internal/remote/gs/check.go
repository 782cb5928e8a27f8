package gs

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"golang.org/x/oauth2/google"
)

// A file of credentials may come from others, who could have it send a key or a token to
// their own server, or run a program. So only fields that are known are passed on, tokens are
// exchanged at Google's own hosts, and programs are never run.

// giver is who gives credentials.
type giver bool

const (
	own   giver = true  // the user: they may name files of this machine
	given giver = false // another user, as a secret: they may not
)

// credentials are the known fields of a file.
type credentials struct {
	Type           string `json:"type"`
	UniverseDomain string `json:"universe_domain,omitempty"`

	ClientEmail  string `json:"client_email,omitempty"`
	PrivateKeyID string `json:"private_key_id,omitempty"`
	PrivateKey   string `json:"private_key,omitempty"`
	TokenURI     string `json:"token_uri,omitempty"`

	ClientID     string `json:"client_id,omitempty"`
	ClientSecret string `json:"client_secret,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`

	Audience                 string         `json:"audience,omitempty"`
	SubjectTokenType         string         `json:"subject_token_type,omitempty"`
	TokenURL                 string         `json:"token_url,omitempty"`
	WorkforcePoolUserProject string         `json:"workforce_pool_user_project,omitempty"`
	CredentialSource         *subjectSource `json:"credential_source,omitempty"`

	ImpersonationURL string       `json:"service_account_impersonation_url,omitempty"`
	Delegates        []string     `json:"delegates,omitempty"`
	Source           *credentials `json:"source_credentials,omitempty"`
}

// subjectSource is where an external account's token of another provider is.
type subjectSource struct {
	File    string            `json:"file,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Format  struct {
		Type  string `json:"type,omitempty"`
		Field string `json:"subject_token_field_name,omitempty"`
	} `json:"format,omitzero"`

	Executable  json.RawMessage `json:"executable,omitempty"`
	Certificate json.RawMessage `json:"certificate,omitempty"`
	Environment string          `json:"environment_id,omitempty"`
}

// kinds are the types of credentials, and whether only the user may give them.
var kinds = map[string]struct {
	kind google.CredentialsType
	own  bool
}{
	"service_account":                  {google.ServiceAccount, false},
	"authorized_user":                  {google.AuthorizedUser, false},
	"external_account":                 {google.ExternalAccount, true},
	"external_account_authorized_user": {google.ExternalAccountAuthorizedUser, true},
	"impersonated_service_account":     {google.ImpersonatedServiceAccount, true},
}

// tokenHost matches Google's hosts that exchange credentials for tokens, accountHost the hosts that
// issue tokens of service accounts, and subjectHost the hosts of GitHub's actions.
var (
	tokenHost   = remote.Pattern(`^(oauth2|www|sts(\.[a-z0-9-]+\.rep)?)\.googleapis\.com$|^accounts\.google\.com$`)
	accountHost = remote.Pattern(`^iamcredentials(\.[a-z0-9-]+\.rep)?\.googleapis\.com$`)
	subjectHost = remote.Pattern(`^[a-z0-9-]+\.actions\.githubusercontent\.com$`)
)

// azure is where machines of Azure get their tokens.
const azure = "http://169.254.169.254"

// check reads credentials, and returns their type and a text with only what is known of them.
func check(name string, text []byte, who giver) (google.CredentialsType, []byte, error) {
	var c credentials
	if err := json.Unmarshal(text, &c); err != nil { // the error may quote a part of it
		return "", nil, refusedFile(name, "it is not a file of Google's credentials", "make it with 'gcloud auth application-default login', or as the key of a service account")
	}
	if err := c.check(name, who, 0); err != nil {
		return "", nil, err
	}
	clean, err := json.Marshal(c)
	return kinds[c.Type].kind, clean, err
}

// check refuses credentials that would be sent elsewhere than to Google, or run a program.
func (c *credentials) check(name string, who giver, depth int) error {
	const use = "use the key of a service account, or 'gcloud auth application-default login'"
	k, ok := kinds[c.Type]
	switch {
	case c.Type == "":
		return refusedFile(name, "it names no type of credentials", use)
	case !ok:
		return refusedFile(name, "its type of credentials is "+tensorfs.Quote(c.Type)+", which tensorfs does not use", use)
	case k.own && who == given:
		return refusedFile(name, "credentials of the type "+c.Type+" are not taken as a secret", "give the key of a service account")
	case c.UniverseDomain != "" && c.UniverseDomain != "googleapis.com":
		return refusedFile(name, "it is for another cloud than Google's own", use)
	}
	for _, x := range []struct {
		field, address string
		host           func(string) bool
	}{
		{"token_uri", c.TokenURI, tokenHost().MatchString},
		{"token_url", c.TokenURL, tokenHost().MatchString},
		{"service_account_impersonation_url", c.ImpersonationURL, accountHost().MatchString},
	} {
		if x.address != "" && !isHTTPS(x.address, x.host) {
			return refusedFile(name, "its "+x.field+" is not an address of Google's, so the credentials are not sent there", "do not use a file that strangers made; get a new one")
		}
	}
	if c.Source != nil {
		if depth == 1 {
			return refusedFile(name, "its source_credentials have source_credentials", use)
		}
		if err := c.Source.check(name, who, depth+1); err != nil {
			return err
		}
	}
	if c.CredentialSource == nil {
		return nil
	}
	return c.CredentialSource.check(name)
}

// check refuses sources other than a file, GitHub's actions and Azure's machines.
func (s *subjectSource) check(name string) error {
	const use = "have the program write its token to a file, and name that as the file of credential_source"
	switch {
	case s.Executable != nil:
		return refusedFile(name, "its credential_source is a program, which tensorfs does not run", use)
	case s.Certificate != nil || s.Environment != "":
		return refusedFile(name, "tensorfs does not use its credential_source", use)
	case s.URL != "" && !isHTTPS(s.URL, subjectHost().MatchString) && s.URL != azure && !strings.HasPrefix(s.URL, azure+"/"):
		return refusedFile(name, "the url of its credential_source is neither of GitHub's actions nor of Azure's machines, so it is not asked", use)
	case s.File != "":
		_, err := readFile(s.File) // so that nothing waits for a pipe
		return err
	}
	return nil
}

// isHTTPS reports whether an address is one of https:// at a host's usual port.
func isHTTPS(address string, host func(string) bool) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.User == nil && u.Port() == "" && host(u.Host)
}

// refusedFile is an error about credentials.
func refusedFile(name, problem, advice string) error {
	return tensorfs.Unsupported(name, problem, advice)
}
