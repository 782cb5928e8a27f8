package az

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/remote/bearer"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/web"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// Tokens of Microsoft Entra, in the order of Azure's own libraries: AZURE_STORAGE_TOKEN, which may
// come from 'az account get-access-token'; a service principal; workload identity, as Kubernetes
// has it; the machine's managed identity. AZURE_TOKEN_CREDENTIALS chooses one of them. No program
// is run, so a login of 'az login' is not found. Secrets are sent only to Microsoft's hosts.
//
// An error never quotes an answer: it may hold a part of a secret.

const (
	resource  = "https://storage.azure.com/" // what is asked for: to ask for storage
	anonymous = "for a public container set " + anonymousSetting + "=true"
	byProgram = "set AZURE_STORAGE_TOKEN to what 'az account get-access-token --resource https://storage.azure.com/ --query accessToken -o tsv' prints"
)

// settings are the variables by which tokens are found.
var settings = []string{"AZURE_STORAGE_TOKEN", "AZURE_TOKEN_CREDENTIALS", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "AZURE_POD_IDENTITY_AUTHORITY_HOST"}

var (
	tokenHost = remote.Pattern(`^(login\.microsoftonline\.(com|us)|login\.(partner\.microsoftonline|chinacloudapi)\.cn)$`)
	tenant    = remote.Pattern(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,253}[A-Za-z0-9])?$`)
)

// newKeys returns the tokens of an environment.
func newKeys(o remote.Options) *bearer.Keys {
	return bearer.New(func() string { return bearer.Settings(o.Getenv, settings...) }, func(ctx context.Context) (bearer.Source, *oauth2.Token, error) { return find(ctx, o) })
}

// kinds are the credentials that AZURE_TOKEN_CREDENTIALS can choose, in their order.
var kinds = []struct {
	name string
	find func(ctx context.Context, o remote.Options) (bearer.Source, *oauth2.Token, error)
}{
	{"environmentcredential", principal},
	{"workloadidentitycredential", workload},
	{"managedidentitycredential", machine},
}

// find looks for credentials.
func find(ctx context.Context, o remote.Options) (bearer.Source, *oauth2.Token, error) {
	if text := strings.TrimSpace(o.Getenv("AZURE_STORAGE_TOKEN")); text != "" {
		if !bearer.IsPlain(text) {
			return nil, nil, setting("AZURE_STORAGE_TOKEN", "it is not a token")
		}
		return func(context.Context) (*oauth2.Token, error) { return &oauth2.Token{AccessToken: text}, nil }, nil, nil
	}
	chosen := strings.ToLower(o.Getenv("AZURE_TOKEN_CREDENTIALS"))
	all := chosen == "" || chosen == "prod"
	for _, k := range kinds {
		if !all && chosen != k.name {
			continue
		}
		from, token, err := k.find(ctx, o)
		if err != nil || from != nil || !all {
			return from, token, err
		}
	}
	if !all {
		return nil, nil, tensorfs.Unsupported("AZURE_TOKEN_CREDENTIALS", "it names programs, which tensorfs does not run", byProgram)
	}
	return nil, nil, nil
}

// principal finds a service principal with a secret.
func principal(ctx context.Context, o remote.Options) (bearer.Source, *oauth2.Token, error) {
	secret := o.Getenv("AZURE_CLIENT_SECRET")
	switch {
	case o.Getenv("AZURE_TENANT_ID") == "" || o.Getenv("AZURE_CLIENT_ID") == "":
		return nil, nil, nil
	case secret == "" && o.Getenv("AZURE_CLIENT_CERTIFICATE_PATH") != "":
		return nil, nil, tensorfs.Unsupported("AZURE_CLIENT_CERTIFICATE_PATH", "tensorfs does not use certificates of service principals", "set AZURE_CLIENT_SECRET, or AZURE_FEDERATED_TOKEN_FILE, and unset it")
	case secret == "":
		return nil, nil, nil
	}
	return exchange(o, "AZURE_CLIENT_SECRET", func() (string, url.Values, error) { return secret, nil, nil })
}

// workload finds workload identity: a file with a token of another provider, which is read again for
// each token.
func workload(ctx context.Context, o remote.Options) (bearer.Source, *oauth2.Token, error) {
	path := o.Getenv("AZURE_FEDERATED_TOKEN_FILE")
	if path == "" || o.Getenv("AZURE_TENANT_ID") == "" || o.Getenv("AZURE_CLIENT_ID") == "" {
		return nil, nil, nil
	}
	return exchange(o, path, func() (string, url.Values, error) {
		text, err := source.ReadRegular(path, bearer.MaxAnswer)
		if _, odd := errors.AsType[*tensorfs.FormatError](err); odd {
			return "", nil, tensorfs.Unsupported(path, "it is not a regular file", "name a file with a token (AZURE_FEDERATED_TOKEN_FILE)")
		}
		if err != nil {
			return "", nil, tensorfs.PathError(path, err)
		}
		return "", url.Values{"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {strings.TrimSpace(string(text))}}, nil
	})
}

// exchange returns a Source that exchanges a client's secret, or a proof, for tokens. name is for messages.
func exchange(o remote.Options, name string, proof func() (secret string, more url.Values, err error)) (bearer.Source, *oauth2.Token, error) {
	authority := cmp.Or(o.Getenv("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com")
	if !strings.Contains(authority, "://") {
		authority = "https://" + authority
	}
	u, err := url.Parse(authority)
	if err != nil || u.Scheme != "https" || !tokenHost().MatchString(u.Host) || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, nil, setting("AZURE_AUTHORITY_HOST", "it is not a host of Microsoft's, so no secret is sent there")
	}
	if !tenant().MatchString(o.Getenv("AZURE_TENANT_ID")) {
		return nil, nil, setting("AZURE_TENANT_ID", "it is not the name of a tenant")
	}
	if _, _, err := proof(); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (*oauth2.Token, error) {
		secret, more, err := proof()
		if err != nil {
			return nil, err
		}
		c := clientcredentials.Config{
			ClientID: o.Getenv("AZURE_CLIENT_ID"), ClientSecret: secret, EndpointParams: more,
			TokenURL: "https://" + u.Host + "/" + o.Getenv("AZURE_TENANT_ID") + "/oauth2/v2.0/token",
			Scopes:   []string{resource + ".default"}, AuthStyle: oauth2.AuthStyleInParams,
		}
		token, err := c.Token(bearer.Context(ctx, o.Client.Transport(bearer.MaxAnswer)))
		if err == nil && !bearer.IsPlain(token.AccessToken) {
			err = bearer.ErrToken
		}
		if err != nil {
			return nil, bearer.Refused(name, "Microsoft Entra", "check AZURE_TENANT_ID, AZURE_CLIENT_ID and its secret; "+anonymous, err)
		}
		return token, nil
	}, nil, nil
}

// machine asks the service of a machine of Azure for the token of its managed identity.
func machine(ctx context.Context, o remote.Options) (bearer.Source, *oauth2.Token, error) {
	at := strings.TrimRight(cmp.Or(o.Getenv("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "http://169.254.169.254"), "/") + "/metadata/identity/oauth2/token?"
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {resource}}
	if id := o.Getenv("AZURE_CLIENT_ID"); id != "" { // which of several
		query.Set("client_id", id)
	}
	client := bearer.Machine()
	ask := func(ctx context.Context) (*oauth2.Token, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Metadata", "true")
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, bearer.MaxAnswer))
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil, bearer.ErrToken
		}
		return bearer.Read(text)
	}
	return bearer.OfMachine(ctx, ask, &tensorfs.FormatError{File: "the machine's managed identity", Offset: -1, Problem: "the machine gives no new token", Advice: "check that it still has the identity", Kind: web.NoAnswer(syscall.EACCES)})
}
