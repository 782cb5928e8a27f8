package gs

import (
	"bytes"
	"crypto"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
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

// fake is Google's cloud behind a proxy: its storage with one bucket, and the hosts that give
// tokens. Everything else that is asked for is noted and not there.
type fake struct {
	proxy *testremote.Proxy

	mu       sync.Mutex
	objects  map[string]*fakeObject
	open     bool            // for everybody
	pages    int             // objects on a page
	careless bool            // it sends the live generation, whichever was asked for
	silent   bool            // about generations
	revokes  bool            // the test takes tokens back
	life     int             // seconds, that are announced
	tokens   map[string]bool // that are good
	fault    func(w http.ResponseWriter, r *http.Request) bool
	asked    []string // of storage: method, address, range
	gave     []string // what tokens were given for
	hosts    []string // that were asked for
	unpinned int      // ranges without a generation
}

type fakeObject struct {
	data       []byte
	generation int64
	composite  bool   // without an MD5
	encoding   string // Content-Encoding
	sum        []byte // whose checksums are stated; data if it is nil
}

// hosts are the hosts of the fake. Nothing may be sent to the last one.
var hosts = []string{"storage.googleapis.com", "oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com", "run-1.actions.githubusercontent.com", "evil.example.com"}

func newFake(t testing.TB) *fake {
	s := &fake{objects: map[string]*fakeObject{}, pages: 1000, life: 3600, tokens: map[string]bool{}}
	s.proxy = testremote.NewProxy(t, hosts, s, func(host string) { s.change(func() { s.hosts = append(s.hosts, host) }) })
	return s
}

// options are the options of a test, with a cache of its own, for an environment.
func (s *fake) options(t testing.TB, env map[string]string) Options {
	store, _ := testremote.Cache(t)
	if env["HOME"] == "" {
		env["HOME"] = t.TempDir()
	}
	return Options{Client: s.proxy.Client(t), Store: store, Env: func(name string) string { return env[name] }}
}

// serviceKey is the key of the account that the fake knows, and its file.
var serviceKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// account returns the file of a service account, with other fields.
func account(t testing.TB, more map[string]any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(serviceKey())
	if err != nil {
		t.Fatal(err)
	}
	return text(t, map[string]any{"type": "service_account", "client_email": "me@p.iam.gserviceaccount.com", "private_key_id": "1", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "https://oauth2.googleapis.com/token"}, more)
}

func text(t testing.TB, fields ...map[string]any) string {
	t.Helper()
	all := map[string]any{}
	for _, f := range fields {
		for k, v := range f {
			all[k] = v
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write writes a file, and returns its path.
func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// signed are the options of a user with a service account.
func (s *fake) signed(t testing.TB) Options {
	return s.options(t, map[string]string{fileSetting: write(t, account(t, nil))})
}

func (s *fake) put(key string, data []byte) *fakeObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &fakeObject{data: data, generation: 1_700_000_000_000_000 + int64(len(s.asked)) + int64(len(s.objects))*1000}
	s.objects[key] = o
	return o
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
	case "storage.googleapis.com":
		s.storage(w, r)
	case "oauth2.googleapis.com":
		form, _ := url.ParseQuery(string(body))
		switch {
		case form.Get("grant_type") == "refresh_token" && form.Get("refresh_token") == "my-refresh-token" && form.Get("client_secret") == "my-client-secret":
			s.give(w, "refresh_token")
		case form.Get("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer" && isSigned(form.Get("assertion")):
			s.give(w, "assertion")
		default:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"secret %s"}`, body)
		}
	case "sts.googleapis.com":
		form, _ := url.ParseQuery(string(body))
		if form.Get("subject_token") != "my-subject-token" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		s.give(w, "subject")
	case "iamcredentials.googleapis.com":
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		ok := s.tokens[token]
		s.mu.Unlock()
		if !ok {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"accessToken":%q,"expireTime":%q}`, s.token("impersonated"), time.Now().Add(time.Hour).Format(time.RFC3339))
	case "run-1.actions.githubusercontent.com":
		if r.Header.Get("Authorization") != "Bearer my-job-token" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"value":"my-subject-token"}`)
	default:
		http.Error(w, "no", http.StatusNotFound)
	}
}

// isSigned reports whether an assertion is one of the account's for the scope.
func isSigned(assertion string) bool {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	claims, err2 := base64.RawURLEncoding.DecodeString(parts[1])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	var c struct{ Iss, Scope, Aud string }
	return err == nil && err2 == nil && rsa.VerifyPKCS1v15(&serviceKey().PublicKey, crypto.SHA256, sum[:], signature) == nil &&
		json.Unmarshal(claims, &c) == nil && c.Iss == "me@p.iam.gserviceaccount.com" && c.Scope == scope && c.Aud == "https://oauth2.googleapis.com/token"
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
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":%d}`, s.token(by), s.life)
}

func (s *fake) fail(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"domain":"global","reason":%q}]}}`, status, message, reason)
}

// storage answers as the JSON API.
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
	token, has := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case has && !s.tokens[token]:
		s.fail(w, http.StatusUnauthorized, "authError", "Invalid Credentials")
		return
	case !has && !s.open:
		s.fail(w, http.StatusUnauthorized, "required", "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object.")
		return
	}
	path, media := strings.CutPrefix(r.URL.EscapedPath(), "/download")
	rest, ok := strings.CutPrefix(path, "/storage/v1/b/models/o")
	escaped, one := strings.CutPrefix(rest, "/")
	key, err := url.PathUnescape(escaped)
	switch {
	case !ok:
		s.fail(w, http.StatusNotFound, "notFound", "The specified bucket does not exist.")
	case rest == "":
		s.list(w, r.URL.Query())
	case !one || err != nil || strings.Contains(escaped, "/"):
		s.fail(w, http.StatusNotFound, "notFound", "Not Found")
	case s.objects[key] == nil:
		s.fail(w, http.StatusNotFound, "notFound", "No such object: models/"+key)
	case media:
		s.get(w, r, key)
	default:
		json.NewEncoder(w).Encode(s.describe(key))
	}
}

func (o *fakeObject) sums() (sum32, sum128 string) {
	b := o.sum
	if b == nil {
		b = o.data
	}
	h := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))), base64.StdEncoding.EncodeToString(h[:])
}

func (s *fake) describe(key string) map[string]any {
	o := s.objects[key]
	sum32, sum128 := o.sums()
	m := map[string]any{"kind": "storage#object", "name": key, "size": fmt.Sprint(len(o.data)), "generation": fmt.Sprint(o.generation), "crc32c": sum32, "md5Hash": sum128, "updated": "2026-01-02T03:04:05.000Z"}
	if o.composite {
		delete(m, "md5Hash")
	}
	if o.encoding != "" {
		m["contentEncoding"] = o.encoding
	}
	return m
}

func (s *fake) get(w http.ResponseWriter, r *http.Request, key string) {
	o := s.objects[key]
	generation := r.URL.Query().Get("generation")
	if generation == "" || r.URL.Query().Get("alt") != "media" {
		s.unpinned++
	}
	if generation != fmt.Sprint(o.generation) && !s.careless {
		http.Error(w, "No such object: models/"+key, http.StatusNotFound)
		return
	}
	if !s.silent {
		sum32, _ := o.sums()
		w.Header().Set("X-Goog-Generation", fmt.Sprint(o.generation))
		w.Header().Add("X-Goog-Hash", "crc32c="+sum32)
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(o.data))
}

func (s *fake) list(w http.ResponseWriter, q url.Values) {
	var keys []string
	for k := range s.objects {
		if strings.HasPrefix(k, q.Get("prefix")) && k > q.Get("pageToken") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := map[string]any{"kind": "storage#objects"}
	if len(keys) > s.pages {
		keys = keys[:s.pages]
		out["nextPageToken"] = keys[s.pages-1]
	}
	var items []any
	for _, k := range keys {
		items = append(items, s.describe(k))
	}
	if items != nil {
		out["items"] = items
	}
	json.NewEncoder(w).Encode(out)
}
