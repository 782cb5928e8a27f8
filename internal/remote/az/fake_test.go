package az

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// fake is Azure behind a proxy, as its documentation describes it: the storage of the account acct
// with one container, and the hosts that give tokens.
type fake struct {
	proxy *testremote.Proxy

	mu       sync.Mutex
	blobs    map[string]*fakeBlob
	open     bool // for everybody
	pages    int  // blobs on a page
	careless bool // it ignores If-Match
	revokes  bool // the test takes tokens back
	life     int  // seconds, that are announced
	tokens   map[string]bool
	fault    func(w http.ResponseWriter, r *http.Request) bool
	asked    []string // of storage: method, address, range
	gave     []string // what tokens were given for
	hosts    []string // that were asked for
	unpinned int      // GETs of blobs without an ETag
}

type fakeBlob struct {
	data     []byte
	etag     string // without quotation marks
	sum      []byte // whose MD5 is stated; data if it is nil
	silent   bool   // about MD5
	archived bool
}

const (
	accountKey = "bXktc2VjcmV0LWtleQ==" // of "my-secret-key"
	sasToken   = "sv=2022-11-02&ss=b&srt=co&sp=rl&se=2099-01-01T00%3A00%3A00Z&sig=my%2Bsignature%3D"
)

// hosts are the hosts of the fake. Nothing may be sent to the last one.
var hosts = []string{"acct.blob.core.windows.net", "other.blob.core.windows.net", "login.microsoftonline.com", "evil.example.com"}

func newFake(t testing.TB) *fake {
	s := &fake{blobs: map[string]*fakeBlob{}, pages: 5000, life: 3600, tokens: map[string]bool{}}
	s.proxy = testremote.NewProxy(t, hosts, s, func(host string) { s.change(func() { s.hosts = append(s.hosts, host) }) })
	return s
}

// noMachine is an address without a machine's service.
const noMachine = "http://127.0.0.1:1"

// options are the options of a test, with a cache of its own, for an environment.
func (s *fake) options(t testing.TB, env map[string]string) Options {
	store, _ := testremote.Cache(t)
	return Options{Client: s.proxy.Client(t), Store: store, Env: func(name string) string {
		v, ok := env[name]
		switch {
		case !ok && name == accountSetting && env[connectionSetting] == "":
			return "acct"
		case !ok && name == "AZURE_POD_IDENTITY_AUTHORITY_HOST":
			return noMachine
		}
		return v
	}}
}

// signed are the options of a user with the account's key.
func (s *fake) signed(t testing.TB) Options {
	return s.options(t, map[string]string{"AZURE_STORAGE_KEY": accountKey})
}

// principalOf is the environment of a service principal.
func principalOf() map[string]string {
	return map[string]string{"AZURE_TENANT_ID": "my-tenant", "AZURE_CLIENT_ID": "me", "AZURE_CLIENT_SECRET": "my-client-secret"}
}

// write writes a file, and returns its path.
func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *fake) put(key string, data []byte) *fakeBlob {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &fakeBlob{data: data, etag: fmt.Sprintf("0x8D%06X", len(s.asked)+len(s.blobs)*1000)}
	s.blobs[key] = b
	return b
}

func (s *fake) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fake) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// ServeHTTP answers for the hosts.
func (s *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch r.Host {
	case "acct.blob.core.windows.net", "other.blob.core.windows.net":
		s.storage(w, r)
	case "login.microsoftonline.com":
		form, _ := url.ParseQuery(string(body))
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path != "/my-tenant/oauth2/v2.0/token" || form.Get("grant_type") != "client_credentials" || form.Get("scope") != "https://storage.azure.com/.default" || form.Get("client_id") != "me":
		case form.Get("client_secret") == "my-client-secret":
			s.give(w, "secret")
			return
		case form.Get("client_assertion") == "my-subject-token" && form.Get("client_assertion_type") == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" && !form.Has("client_secret"):
			s.give(w, "assertion")
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret hunter2 %s"}`, form.Get("client_secret"))
	default:
		http.Error(w, "no", http.StatusNotFound)
	}
}

// machine answers as the service of a machine does.
func (s *fake) machine(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Header.Get("Metadata") != "true" || r.URL.Path != "/metadata/identity/oauth2/token" || q.Get("resource") != "https://storage.azure.com/" || q.Get("api-version") == "" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"access_token":%q,"expires_in":"%d","token_type":"Bearer"}`, s.token("machine"), s.life)
}

// token makes a token.
func (s *fake) token(by string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gave = append(s.gave, by)
	token := fmt.Sprintf("my-access-token-%d", len(s.gave))
	s.tokens[token] = true
	return token
}

func (s *fake) give(w http.ResponseWriter, by string) {
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, s.token(by), s.life)
}

// fail answers with an error of the API.
func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.WriteHeader(status)
	fmt.Fprintf(w, "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>%s</Code><Message>hunter2</Message></Error>", code)
}

// allows reports whether a request may be answered, and answers it otherwise. s.mu is held.
func (s *fake) allows(w http.ResponseWriter, r *http.Request) bool {
	a := r.Header.Get("Authorization")
	token, bearer := strings.CutPrefix(a, "Bearer ")
	switch q := r.URL.Query(); {
	case r.Header.Get("X-Ms-Version") != version:
		fail(w, http.StatusBadRequest, "InvalidHeaderValue")
	case q.Has("sig"):
		if q.Get("sig") == "my+signature=" && a == "" {
			return true
		}
		fail(w, http.StatusForbidden, "AuthenticationFailed")
	case bearer:
		if s.tokens[token] || token == "my-given-token" {
			return true
		}
		fail(w, http.StatusUnauthorized, "InvalidAuthenticationInfo")
	case a != "":
		if a == "SharedKey acct:"+expected(r) {
			return true
		}
		fail(w, http.StatusForbidden, "AuthenticationFailed")
	case s.open:
		return true
	default:
		fail(w, http.StatusNotFound, "ResourceNotFound")
	}
	return false
}

// expected is the signature of a request by the words of the documentation, for the requests that
// are sent here.
func expected(r *http.Request) string {
	date, err := http.ParseTime(r.Header.Get("X-Ms-Date"))
	if err != nil || time.Since(date).Abs() > 15*time.Minute {
		return "no date"
	}
	text := r.Method + "\n\n\n\n\n\n\n\n" + r.Header.Get("If-Match") + "\n\n\n" + r.Header.Get("Range") + "\n" +
		"x-ms-date:" + r.Header.Get("X-Ms-Date") + "\nx-ms-version:" + r.Header.Get("X-Ms-Version") + "\n" +
		"/acct" + r.URL.EscapedPath()
	for _, name := range []string{"comp", "include", "marker", "maxresults", "prefix", "restype"} {
		if r.URL.Query().Has(name) {
			text += "\n" + name + ":" + r.URL.Query().Get(name)
		}
	}
	mac := hmac.New(sha256.New, []byte("my-secret-key"))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// storage answers as the REST API.
func (s *fake) storage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Range"))
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.allows(w, r) {
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/models")
	key := strings.TrimPrefix(rest, "/")
	b := s.blobs[key]
	switch {
	case !ok:
		fail(w, http.StatusNotFound, "ContainerNotFound")
	case rest == "":
		s.list(w, r.URL.Query())
	case b == nil:
		fail(w, http.StatusNotFound, "BlobNotFound")
	case b.archived && r.Method == http.MethodGet:
		fail(w, http.StatusConflict, "BlobArchived")
	default:
		s.get(w, r, b)
	}
}

// md5 is what is stated of a blob.
func (b *fakeBlob) md5() string {
	if b.silent {
		return ""
	}
	data := b.sum
	if data == nil {
		data = b.data
	}
	h := md5.Sum(data)
	return base64.StdEncoding.EncodeToString(h[:])
}

func (s *fake) get(w http.ResponseWriter, r *http.Request, b *fakeBlob) {
	match := r.Header.Get("If-Match")
	if r.Method == http.MethodGet && match == "" {
		s.unpinned++
	}
	r.Header.Del("If-Match")
	if match != "" && match != `"`+b.etag+`"` && !s.careless {
		fail(w, http.StatusPreconditionFailed, "ConditionNotMet")
		return
	}
	w.Header().Set("ETag", `"`+b.etag+`"`)
	if r.Method == http.MethodHead {
		w.Header().Set("Content-MD5", b.md5())
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(b.data))
}

func (s *fake) list(w http.ResponseWriter, q url.Values) {
	var keys []string
	for k := range s.blobs {
		if strings.HasPrefix(k, q.Get("prefix")) && k > q.Get("marker") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	next := ""
	if len(keys) > s.pages {
		keys = keys[:s.pages]
		next = keys[s.pages-1]
	}
	out := &strings.Builder{}
	text := func(s string) { _ = xml.EscapeText(out, []byte(s)) }
	out.WriteString("\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"x\" ContainerName=\"models\"><Blobs>")
	for _, k := range keys {
		b := s.blobs[k]
		out.WriteString("<Blob><Name>")
		text(k)
		fmt.Fprintf(out, "</Name><Properties><Last-Modified>Mon, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>%s</Etag><Content-Length>%d</Content-Length><Content-MD5>%s</Content-MD5></Properties></Blob>", b.etag, len(b.data), b.md5())
	}
	out.WriteString("</Blobs><NextMarker>")
	text(next)
	out.WriteString("</NextMarker></EnumerationResults>")
	io.WriteString(w, out.String())
}
