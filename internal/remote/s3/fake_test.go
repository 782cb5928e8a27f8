package s3

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a server of one bucket with the answers of AWS's. It computes signatures
// from their description, and not with what the package signs with.
type fake struct {
	*httptest.Server
	bucket, key, secret, region string

	mu       sync.Mutex
	objects  map[string]fakeObject
	open     bool // for everybody
	pages    int  // keys on a page
	careless bool // ignores If-Match
	fault    func(w http.ResponseWriter, r *http.Request) bool
	asked    []string
	unpinned int // ranges without If-Match
}

type fakeObject struct {
	data    []byte
	etag    string
	version string
}

// The credentials that the fake takes.
const (
	goodKey    = "AKIAGOODGOODGOOD"
	goodSecret = "secret+with/special=characters"
)

func newFake(t testing.TB) *fake {
	s := &fake{bucket: "models", key: goodKey, secret: goodSecret, region: "us-east-1", objects: map[string]fakeObject{}, pages: 1000}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *fake) put(key string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256(data)
	s.objects[key] = fakeObject{data: data, etag: `"` + hex.EncodeToString(sum[:8]) + `-2"`}
}

func (s *fake) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *fake) fail(w http.ResponseWriter, status int, code string, more string) {
	w.Header().Set("X-Amz-Bucket-Region", s.region)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>a message</Message>%s</Error>`, code, more)
}

func (s *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Range"))
	fault := s.fault
	s.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if !s.authorized(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, "/"+s.bucket)
	switch {
	case !ok:
		s.fail(w, http.StatusNotFound, "NoSuchBucket", "")
	case path == "" || path == "/":
		s.list(w, r)
	default:
		s.get(w, r, path[1:])
	}
}

func (s *fake) get(w http.ResponseWriter, r *http.Request, key string) {
	o, ok := s.objects[key]
	if v := r.URL.Query().Get("versionId"); ok && v != "" && v != o.version {
		s.fail(w, http.StatusNotFound, "NoSuchVersion", "")
		return
	}
	if !ok {
		s.fail(w, http.StatusNotFound, "NoSuchKey", "")
		return
	}
	w.Header().Set("ETag", o.etag)
	if o.version != "" {
		w.Header().Set("X-Amz-Version-Id", o.version)
	}
	if r.Header.Get("If-Match") == "" && r.Method == http.MethodGet {
		s.unpinned++
	}
	if s.careless {
		r.Header.Del("If-Match")
	}
	http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(o.data))
}

func (s *fake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("list-type") != "2" {
		s.fail(w, http.StatusBadRequest, "InvalidArgument", "")
		return
	}
	var keys []string
	for k := range s.objects {
		if strings.HasPrefix(k, q.Get("prefix")) && k > q.Get("continuation-token") {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	type one struct {
		Key, LastModified, ETag, StorageClass string
		Size                                  int
	}
	var out struct {
		XMLName               xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
		Name, Prefix          string
		EncodingType          string
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []one
	}
	out.Name, out.EncodingType = s.bucket, q.Get("encoding-type")
	if len(keys) > s.pages {
		keys = keys[:s.pages]
		out.IsTruncated, out.NextContinuationToken = true, keys[s.pages-1]
	}
	for _, k := range keys {
		o := s.objects[k]
		if out.EncodingType == "url" {
			k = url.QueryEscape(k)
		}
		out.Contents = append(out.Contents, one{k, "2026-01-02T03:04:05.000Z", o.etag, "STANDARD", len(o.data)})
	}
	b, _ := xml.Marshal(out)
	w.Write(append([]byte(xml.Header), b...))
}

// authorized checks the signature of a request.
func (s *fake) authorized(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	header := r.Header.Get("Authorization")
	if header == "" {
		if !s.open {
			s.fail(w, http.StatusForbidden, "AccessDenied", "")
		}
		return s.open
	}
	fields := map[string]string{}
	rest, ok := strings.CutPrefix(header, "AWS4-HMAC-SHA256 ")
	for f := range strings.SplitSeq(rest, ", ") {
		name, value, _ := strings.Cut(f, "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	switch {
	case !ok || err != nil || len(scope) != 5 || scope[1] != at.Format("20060102") || scope[3] != "s3" || scope[4] != "aws4_request":
		s.fail(w, http.StatusBadRequest, "AuthorizationHeaderMalformed", "")
		return false
	case time.Since(at).Abs() > 15*time.Minute:
		s.fail(w, http.StatusForbidden, "RequestTimeTooSkewed", "")
		return false
	case scope[0] != s.key:
		s.fail(w, http.StatusForbidden, "InvalidAccessKeyId", "")
		return false
	case scope[2] != s.region:
		s.fail(w, http.StatusBadRequest, "AuthorizationHeaderMalformed", "<Region>"+s.region+"</Region>")
		return false
	}
	if fields["Signature"] != s.signature(r, fields["SignedHeaders"], scope, at) {
		s.fail(w, http.StatusForbidden, "SignatureDoesNotMatch", "")
		return false
	}
	return true
}

// signature computes Signature Version 4 by AWS's documentation.
func (s *fake) signature(r *http.Request, signed string, scope []string, at time.Time) string {
	var query []string
	for name, values := range r.URL.Query() {
		for _, v := range values {
			query = append(query, strings.ReplaceAll(url.QueryEscape(name), "+", "%20")+"="+strings.ReplaceAll(url.QueryEscape(v), "+", "%20"))
		}
	}
	slices.Sort(query)
	var headers strings.Builder
	for name := range strings.SplitSeq(signed, ";") {
		v := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			v = r.Host
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, v)
	}
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), strings.Join(query, "&"), headers.String(), signed, r.Header.Get("X-Amz-Content-Sha256")}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", at.Format("20060102T150405Z"), strings.Join(scope[1:], "/"), hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + s.secret)
	for _, part := range append(slices.Clone(scope[1:]), text) {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	return hex.EncodeToString(key)
}
