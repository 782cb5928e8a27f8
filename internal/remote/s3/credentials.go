package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/web"
)

// chain finds credentials, in this order: the environment, the files of AWS
// (AWS_PROFILE), a web identity or a container that the environment names, the
// machine's role. None, or AWS_NO_SIGN_REQUEST, means anonymous.
//
// An error never quotes a library's message: it may hold a line of a file of secrets.
type chain struct {
	from credentials.Provider // nil: they do not end
	set  bool
	env  string // the environment's, when they were looked up; a server may be given others
}

// inEnvironment are the credentials of the environment, to see that they are others now.
func inEnvironment() string {
	var s string
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		s += os.Getenv(name) + "\n"
	}
	return s
}

// Limits of what is asked for credentials over the network.
const (
	credentialsTimeout = 10 * time.Second
	machineTimeout     = time.Second // most machines have no such service
	maxCredentials     = 1 << 20
)

// keys are credentials that are looked up when they are needed, and again when they
// have expired.
type keys struct {
	found  *credentials.Credentials
	client *http.Client
	ending sync.Mutex // from the look at the credentials until they are ended
}

func newKeys(c *web.Client) *keys {
	return &keys{found: credentials.New(&chain{}), client: &http.Client{Transport: c.Transport(maxCredentials)}}
}

// errNoGiver marks that a service gave no credentials. It may the next time.
var errNoGiver = fmt.Errorf("no credentials were given: %w", tensorfs.ErrUnsupported)

// get returns the credentials. An error is [web.Misconfigured], unless it is of a service.
func (k *keys) get(ctx context.Context) (credentials.Value, error) {
	v, err := k.found.GetWithContext(&credentials.CredContext{Client: k.client, Context: ctx})
	if err != nil && !errors.Is(err, errNoGiver) {
		err = web.Misconfigured(err)
	}
	return v, err
}

// ended makes the next get look them up again after a request was refused, unless that
// was done since the request was signed: of many at a time one is enough.
func (k *keys) ended(ctx context.Context, req *http.Request) {
	k.ending.Lock()
	defer k.ending.Unlock()
	v, err := k.get(ctx)
	if err == nil && v.SessionToken == req.Header.Get("X-Amz-Security-Token") && strings.Contains(req.Header.Get("Authorization"), "="+v.AccessKeyID+"/") {
		k.found.Expire()
	}
}

// RetrieveWithCredContext implements credentials.Provider.
func (c *chain) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	c.from, c.set, c.env = nil, false, inEnvironment()
	for _, look := range []func(*credentials.CredContext) (credentials.Provider, credentials.Value, error){unsigned, environment, files, identity, machine} {
		from, v, err := look(cc)
		if err != nil {
			return credentials.Value{}, err
		}
		if from != nil {
			if c.set = true; !v.Expiration.IsZero() { // the library sets an expiry in the past for credentials without one
				c.from = from
			}
			return v, nil
		}
	}
	c.set = true
	return credentials.Value{SignerType: credentials.SignatureAnonymous}, nil
}

// Retrieve implements credentials.Provider.
func (c *chain) Retrieve() (credentials.Value, error) {
	return c.RetrieveWithCredContext(&credentials.CredContext{Client: http.DefaultClient})
}

// IsExpired reports whether they must be looked up again. Missing credentials are not
// looked up again. Credentials without an expiry stay valid until they are refused, or the
// environment changes.
func (c *chain) IsExpired() bool {
	return !c.set || c.from != nil && c.from.IsExpired() || c.env != inEnvironment()
}

// unsigned ends the search where requests are not to be signed.
func unsigned(*credentials.CredContext) (credentials.Provider, credentials.Value, error) {
	if !isTrue("AWS_NO_SIGN_REQUEST") {
		return nil, credentials.Value{}, nil
	}
	return &credentials.Static{}, credentials.Value{SignerType: credentials.SignatureAnonymous}, nil
}

func isTrue(name string) bool {
	v := os.Getenv(name)
	return v == "1" || strings.EqualFold(v, "true")
}

func environment(cc *credentials.CredContext) (credentials.Provider, credentials.Value, error) {
	p := &credentials.EnvAWS{}
	v, _ := p.RetrieveWithCredContext(cc)
	switch {
	case v.AccessKeyID == "" && v.SecretAccessKey == "":
		return nil, v, nil
	case v.AccessKeyID == "":
		return nil, v, setting("AWS_SECRET_ACCESS_KEY", "it is set, and AWS_ACCESS_KEY_ID is not")
	case v.SecretAccessKey == "":
		return nil, v, setting("AWS_ACCESS_KEY_ID", "it is set, and AWS_SECRET_ACCESS_KEY is not")
	}
	return p, v, nil
}

// files reads ~/.aws. A user who names a profile wants no other credentials.
func files(cc *credentials.CredContext) (credentials.Provider, credentials.Value, error) {
	settings, err := environ.AWSSettings(environ.Process)
	if err != nil {
		return nil, credentials.Value{}, err
	}
	profile := "the profile " + tensorfs.Quote(cmp.Or(settings.Profile, "default"))
	switch {
	case settings.Credentials == environ.RoleARN:
		return nil, credentials.Value{}, noCredentials(profile + " assumes a role (role_arn), which tensorfs does not do")
	case (settings.AccessKey == "") != (settings.SecretKey == ""):
		return nil, credentials.Value{}, noCredentials(profile + " has only one of aws_access_key_id and aws_secret_access_key")
	}
	if settings.AccessKey != "" {
		v := credentials.Value{AccessKeyID: settings.AccessKey, SecretAccessKey: settings.SecretKey, SessionToken: settings.SessionToken, SignerType: credentials.SignatureV4}
		return &credentials.Static{Value: v}, v, nil
	}
	p := &credentials.FileAWSCredentials{Profile: settings.Profile} // others give theirs in exchange for a login or by a program
	v, err := p.RetrieveWithCredContext(cc)
	if v.AccessKeyID != "" && v.SecretAccessKey != "" {
		return p, v, nil
	}
	switch {
	case settings.Credentials != "":
		return nil, v, noCredentials(profile + " gives no credentials by " + settings.Credentials)
	case settings.Profile == "" || err == nil && namesOtherCredentials():
		return nil, v, nil
	}
	return nil, v, noCredentials(profile + " gives no credentials")
}

// noCredentials is an error about a profile whose credentials cannot be had.
func noCredentials(problem string) error {
	return tensorfs.Unsupported("AWS_PROFILE", problem, "check ~/.aws/config and ~/.aws/credentials, log in again, or export the credentials (aws configure export-credentials --format env)")
}

// named are the variables that say whom to ask for credentials.
var named = []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"}

func namesOtherCredentials() bool { return firstSet(named...) != "" }

// identity asks for the credentials of a web identity or of a container.
func identity(cc *credentials.CredContext) (credentials.Provider, credentials.Value, error) {
	if !namesOtherCredentials() {
		return nil, credentials.Value{}, nil
	}
	p, v := ask(cc, "", credentialsTimeout)
	if p == nil {
		return nil, v, &tensorfs.FormatError{File: strings.Join(named, ", "), Offset: -1, Problem: "who is named there gives no credentials", Advice: "set it right, or unset it", Kind: errNoGiver}
	}
	return p, v, nil
}

// machine asks a cloud's machine for the credentials of its role.
func machine(cc *credentials.CredContext) (credentials.Provider, credentials.Value, error) {
	if isTrue("AWS_EC2_METADATA_DISABLED") {
		return nil, credentials.Value{}, nil
	}
	p, v := ask(cc, os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), machineTimeout)
	return p, v, nil
}

// ask asks the service that the environment names, else the machine at endpoint. The
// provider is nil if it does not answer in time.
func ask(cc *credentials.CredContext, endpoint string, limit time.Duration) (credentials.Provider, credentials.Value) {
	ctx := cc.Context
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p := &credentials.IAM{Endpoint: endpoint}
	v, err := p.RetrieveWithCredContext(&credentials.CredContext{Client: cc.Client, Context: ctx})
	if err != nil || v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return nil, credentials.Value{}
	}
	return p, v
}

var _ credentials.Provider = (*chain)(nil)
