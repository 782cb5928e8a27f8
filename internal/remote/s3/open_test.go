package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

const testdata = "../../../testdata"

// environ sets the environment to one without anything of AWS but what is given.
func setEnv(t testing.TB, pairs ...string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("REQUESTS_CA_BUNDLE", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for i := 0; i < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
}

// signedFor sets the environment for a server's user.
func signedFor(t testing.TB, s *fake) {
	setEnv(t, "AWS_ENDPOINT_URL", s.URL, "AWS_ACCESS_KEY_ID", goodKey, "AWS_SECRET_ACCESS_KEY", goodSecret)
}

// options are the options of a test, with its own cache.
func options(t testing.TB) Options {
	store, _ := testremote.Cache(t)
	return Options{Client: testremote.Client(t, 20*time.Second), Store: store}
}

// nameOf is where the tests have a model.
func nameOf(m testremote.Model) string {
	name := "s3://models/some where/" + m.Name + "/"
	if m.Open != "." {
		name += m.Open
	}
	return name
}

// Row 21: with a correct signature, a prefix with an index and shards is one model. All bytes of
// all views equal the local model's, also offline.
func TestModels(t *testing.T) {
	s := newFake(t)
	s.pages = 2
	signedFor(t, s)
	for _, m := range testremote.Models(t, testdata) {
		t.Run(m.Name, func(t *testing.T) {
			for name, b := range m.Files {
				s.put("some where/"+m.Name+"/"+name, b)
			}
			s.put("some where/"+m.Name+"/", nil) // what consoles make to show a directory
			o := options(t)
			for _, name := range []string{nameOf(m), "s3://models/some where/" + m.Name + "/"} {
				l, file, err := Open(t.Context(), name, o)
				if err != nil {
					t.Fatal(err)
				}
				if file != m.Open {
					t.Errorf("%s: the model is %q", name, file)
				}
				testremote.Same(t, l, file, m.Local(t))
			}
			asked := len(s.requests())
			o.Offline = "--offline"
			l, file, err := Open(t.Context(), nameOf(m), o)
			if err != nil {
				t.Fatal(err)
			}
			testremote.Same(t, l, file, m.Local(t))
			if n := len(s.requests()); n != asked || s.unpinned != 0 {
				t.Errorf("%d requests although offline, %d without If-Match", n-asked, s.unpinned)
			}
		})
	}
}

// Row 21: anonymous.
func TestAnonymous(t *testing.T) {
	s := newFake(t)
	s.open = true
	m := testremote.Models(t, testdata)[0]
	s.put("m/"+m.Open, m.Files[m.Open])
	for _, env := range [][]string{{}, {"AWS_ACCESS_KEY_ID", "other", "AWS_SECRET_ACCESS_KEY", "other", "AWS_NO_SIGN_REQUEST", "1"}} {
		setEnv(t, append(env, "AWS_ENDPOINT_URL_S3", s.URL, "AWS_ENDPOINT_URL", "http://127.0.0.1:1")...)
		l, file, err := Open(t.Context(), "s3://models/m/"+m.Open, options(t))
		if err != nil {
			t.Fatal(err)
		}
		testremote.Same(t, l, file, m.Local(t))
	}
}

// Errors are one line with the next step, and row 21: a wrong secret.
func TestErrors(t *testing.T) {
	s := newFake(t)
	s.put("m/model.gguf", []byte("GGUF"))
	s.put("both/a.gguf", []byte("GGUF"))
	s.put("both/b.gguf", []byte("GGUF"))
	s.put("odd//x", []byte("x"))
	good := []string{"AWS_ACCESS_KEY_ID", goodKey, "AWS_SECRET_ACCESS_KEY", goodSecret}
	for _, tt := range []struct {
		name string
		env  []string
		want string
		kind error
	}{
		{"s3://models/m/model.gguf", []string{"AWS_ACCESS_KEY_ID", goodKey, "AWS_SECRET_ACCESS_KEY", "hunter2"}, "s3://models/m/model.gguf: the secret key does not fit the access key; check the credentials (AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), and that they are for this server", syscall.EACCES},
		{"s3://models/m/", []string{"AWS_ACCESS_KEY_ID", goodKey, "AWS_SECRET_ACCESS_KEY", "hunter2"}, "s3://models/m: the secret key does not fit the access key; ", syscall.EACCES},
		{"s3://models/m/", []string{"AWS_ACCESS_KEY_ID", "AKIAHUNTER2", "AWS_SECRET_ACCESS_KEY", "hunter2"}, "s3://models/m: the server does not know this access key; ", syscall.EACCES},
		{"s3://models/m/model.gguf", nil, "s3://models/m/model.gguf: it is not public, or does not exist, and there are no credentials; check the name, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", syscall.EACCES},
		{"s3://models/m/none.gguf", good, "s3://models/m/none.gguf: there is no such object; check the name; one of a directory ends in /", fs.ErrNotExist},
		{"s3://models/none/", good, "s3://models/none: there are no objects whose keys begin so; check the name", fs.ErrNotExist},
		{"s3://other/m/model.gguf", good, "s3://other/m/model.gguf: there is no such bucket; check the name, and the server (AWS_ENDPOINT_URL)", fs.ErrNotExist},
		{"s3://models/both/", good, "s3://models/both: it holds 2 models: a.gguf, b.gguf; name one of them", tensorfs.ErrUnsupported},
		{"s3://models/odd/", good, `s3://models/odd: "/x" is not the name of a file in a model; the server is at fault, or it is not a model`, nil},
		{"s3://models/m/m-00001-of-99999.gguf", good, "s3://models/m/m-00001-of-99999.gguf: there is no such object; ", nil},
		{"s3://models", []string{"AWS_PROFILE", "work"}, `AWS_PROFILE: no file of AWS's tools has the profile "work"; check ~/.aws/config and ~/.aws/credentials`, nil},
		{"s3://models", []string{"AWS_ACCESS_KEY_ID", goodKey}, "AWS_ACCESS_KEY_ID: it is set, and AWS_SECRET_ACCESS_KEY is not; set it right, or unset it", nil},
		{"s3://models", []string{"AWS_REGION", "evil.example/"}, `AWS_REGION: "evil.example/" is not the name of a region; set it right, or unset it`, nil},
		{"s3://models", []string{"AWS_ENDPOINT_URL_S3", "https://me:hunter2@host"}, "AWS_ENDPOINT_URL_S3: it is not an address like https://HOST; set it right, or unset it", nil},
		{"s3://me:hunter2@models/x", nil, "s3://...@models: credentials do not belong into a name; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", nil},
		{"s3:///x", nil, `s3:///x: "" is not the name of a bucket; write s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for a directory`, nil},
		{"s3://models/\xff", nil, `"s3://models/\xff": it is not a key that an object can have; `, nil},
	} {
		t.Run(tt.want, func(t *testing.T) {
			setEnv(t, append([]string{"AWS_ENDPOINT_URL", s.URL}, tt.env...)...)
			_, _, err := Open(t.Context(), tt.name, options(t))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "unter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			if tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("%v is not %v", err, tt.kind)
			}
		})
	}
}

// opened opens a file of a name and reads a byte, so that its header is cached and
// nothing else.
func opened(t *testing.T, name string, o Options) (tensorfs.Data, func(off int64) error) {
	t.Helper()
	l, file, err := Open(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s := f.Section(0, f.Size())
	return s, func(off int64) error { return tensorfs.ReadFull(s, make([]byte, 16), off) }
}

// Row 21: an object that is overwritten is ESTALE, whether the server looks
// at If-Match or not; what was read before can still be read.
func TestOverwritten(t *testing.T) {
	for _, careless := range []bool{false, true} {
		t.Run(fmt.Sprint(careless), func(t *testing.T) {
			s := newFake(t)
			s.careless = careless
			s.put("m.bin", make([]byte, 20<<20))
			signedFor(t, s)
			_, read := opened(t, "s3://models/m.bin", options(t))
			if err := read(0); err != nil {
				t.Fatal(err)
			}
			s.put("m.bin", append(make([]byte, 20<<20-1), 1))
			err := read(19 << 20)
			if !errors.Is(err, syscall.ESTALE) || !errors.Is(err, tensorfs.ErrChanged) {
				t.Errorf("%v", err)
			}
			if err := read(0); err != nil {
				t.Errorf("what was cached: %v", err)
			}
		})
	}
}

// A version that was pinned can be read after it was overwritten. Where its number
// may not be used, the ETag is enough.
func TestVersions(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	o := s.objects["m.bin"]
	o.version = "v1 +/="
	s.objects["m.bin"] = o
	signedFor(t, s)
	_, read := opened(t, "s3://models/m.bin", options(t))
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	if asked := s.requests(); !strings.Contains(asked[len(asked)-1], "versionId=v1%20%2B%2F%3D") {
		t.Errorf("%q", asked)
	}
	s.mu.Lock()
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("versionId") != "" {
			s.fail(w, http.StatusForbidden, "AccessDenied", "")
			return true
		}
		return false
	}
	s.mu.Unlock()
	if err := read(19 << 20); err != nil {
		t.Error(err)
	}
}

// The server of another region is asked there, once, and its answer cannot lead elsewhere.
func TestRegion(t *testing.T) {
	s := newFake(t)
	s.region = "eu-central-1"
	s.put("m/model.bin", make([]byte, 1000))
	for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusBadRequest} {
		for _, name := range []string{"s3://models/m/model.bin", "s3://models/m/"} {
			signedFor(t, s)
			s.mu.Lock()
			s.asked = nil
			s.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/") {
					return false
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				s.fail(w, status, "PermanentRedirect", "")
				return true
			}
			s.mu.Unlock()
			l, _, err := Open(t.Context(), name, options(t))
			if err != nil {
				t.Fatalf("%d: %v", status, err)
			}
			if n := len(s.requests()); n != 2 {
				t.Errorf("%d: %q", status, s.requests())
			}
			f, err := l.OpenFile("model.bin")
			if err != nil {
				t.Fatal(err)
			}
			if err := tensorfs.ReadFull(f, make([]byte, 1000), 0); err != nil || len(s.requests()) != 3 {
				t.Errorf("%v, %q", err, s.requests())
			}
			f.Close()
		}
	}
	for region, want := range map[string]int{"evil.example/": 2, "us-east-1": 2, "nowhere-1": 4} { // HEAD, then GET for what it means
		signedFor(t, s)
		s.mu.Lock()
		s.asked, s.region = nil, region
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			s.fail(w, http.StatusMovedPermanently, "PermanentRedirect", "")
			return true
		}
		s.mu.Unlock()
		if _, _, err := Open(t.Context(), "s3://models/m/model.bin", options(t)); err == nil || len(s.requests()) > want {
			t.Errorf("%s: %v, %q", region, err, s.requests())
		}
	}
}

// Servers that are busy are asked again.
func TestSlowDown(t *testing.T) {
	s := newFake(t)
	s.put("m/model.bin", make([]byte, 1000))
	signedFor(t, s)
	n := 0
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if n++; n%3 != 0 {
			s.fail(w, http.StatusServiceUnavailable, "SlowDown", "")
		}
		return n%3 != 0
	}
	_, read := opened(t, "s3://models/m/model.bin", options(t))
	if err := read(0); err != nil || n != 6 {
		t.Errorf("%v after %d requests", err, n)
	}
	// A server that promises an immediate answer is not asked without end.
	n = 0
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		n++
		w.Header().Set("Retry-After", "0")
		s.fail(w, http.StatusServiceUnavailable, "SlowDown", "")
		return true
	}
	o := options(t)
	o.Client = testremote.Client(t, 2*time.Second)
	if _, _, err := Open(t.Context(), "s3://models/m/model.bin", o); err == nil || n > 20 {
		t.Errorf("%v after %d requests", err, n)
	}
}

// After access to a file has been withdrawn, reads give EACCES, soon.
func TestForbiddenLater(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	signedFor(t, s)
	_, read := opened(t, "s3://models/m.bin", options(t))
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.secret, s.asked = "another", nil
	s.mu.Unlock()
	if err := read(19 << 20); !errors.Is(err, syscall.EACCES) {
		t.Errorf("%v", err)
	}
	if n := len(s.requests()); n > 2 {
		t.Errorf("%d requests", n)
	}
}

// Offline opens nothing that was not looked up, reads what is cached, and asks for
// nothing.
func TestOffline(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 20<<20))
	signedFor(t, s)
	o := options(t)
	_, read := opened(t, "s3://models/m.bin", o)
	if err := read(0); err != nil {
		t.Fatal(err)
	}
	asked := len(s.requests())
	o.Offline = "--offline"
	_, read = opened(t, "s3://models/m.bin", o)
	if err := read(0); err != nil {
		t.Error(err)
	}
	if err := read(19 << 20); err == nil || !strings.Contains(err.Error(), "s3://models/m.bin: not on this machine, and --offline forbids asking for it") {
		t.Errorf("%v", err)
	}
	if _, _, err := Open(t.Context(), "s3://models/other.bin", o); err == nil || !strings.Contains(err.Error(), "not on this machine") {
		t.Errorf("%v", err)
	}
	if n := len(s.requests()); n != asked {
		t.Errorf("%d requests", n-asked)
	}
}

// A listing that lies is refused, and one that goes on for ever ends.
func TestHostileListings(t *testing.T) {
	const page = `<ListBucketResult>%s</ListBucketResult>`
	for name, tt := range map[string]struct{ body, want string }{
		"not asked for": {fmt.Sprintf(page, `<Contents><Key>other/x</Key><ETag>e</ETag></Contents>`), `lists "other/x", which was not asked for`},
		"parent":        {fmt.Sprintf(page, `<Contents><Key>m/../x</Key><ETag>e</ETag></Contents>`), `"../x" is not the name of a file`},
		"twice":         {fmt.Sprintf(page, strings.Repeat(`<Contents><Key>m/x</Key><ETag>e</ETag></Contents>`, 2)), `"x" is there twice`},
		"both":          {fmt.Sprintf(page, `<Contents><Key>m/x</Key><ETag>e</ETag></Contents><Contents><Key>m/x/y</Key><ETag>e</ETag></Contents>`), `"x" is a file and also a directory`},
		"long":          {fmt.Sprintf(page, `<Contents><Key>m/`+strings.Repeat("a/", maxKey)+`x</Key><ETag>e</ETag></Contents>`), "which is longer than a key can be"},
		"deep":          {fmt.Sprintf(page, `<Contents><Key>m/`+strings.Repeat("a/", 100)+`x</Key><ETag>e</ETag></Contents>`), "has more than 64 parts"},
		"no ETag":       {fmt.Sprintf(page, `<Contents><Key>m/x</Key></Contents>`), "no ETag"},
		"negative":      {fmt.Sprintf(page, `<Contents><Key>m/x</Key><Size>-1</Size></Contents>`), "negative size"},
		"no number":     {fmt.Sprintf(page, `<Contents><Key>m/x</Key><Size>1e3</Size></Contents>`), "not XML that can be read"},
		"a web page":    {`<html><body>hello</body></html>`, `is not a listing, but "html"`},
		"not XML":       {`{"a":1}`, "not XML that can be read"},
		"cut off":       {`<ListBucketResult><Contents><Key>m/x</Key>`, "not XML that can be read"},
		"goes on":       {fmt.Sprintf(page, `<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>`), "does not end"},
		"goes nowhere":  {fmt.Sprintf(page, `<IsTruncated>true</IsTruncated>`), "goes on and does not say where"},
		"too many":      {fmt.Sprintf(page, strings.Repeat("<Contents><Key>m/x</Key></Contents>", remote.MaxKeys+1)), "too many objects on a page"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			signedFor(t, s)
			s.fault = func(w http.ResponseWriter, r *http.Request) bool {
				fmt.Fprint(w, tt.body)
				return true
			}
			_, _, err := Open(t.Context(), "s3://models/m/", options(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
			if n := len(s.requests()); n > 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
	s := newFake(t)
	signedFor(t, s)
	n := 0
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		n++
		fmt.Fprintf(w, page, fmt.Sprintf(`<IsTruncated>true</IsTruncated><NextContinuationToken>t%d</NextContinuationToken><Contents><Key>m/%d</Key></Contents>`, n, n))
		return true
	}
	if _, _, err := Open(t.Context(), "s3://models/m/", options(t)); err == nil || n > remote.MaxPages {
		t.Errorf("%v after %d pages", err, n)
	}
	n = 0
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		n++
		var b strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&b, "<Contents><Key>m/%d-%d</Key><ETag>e</ETag></Contents>", n, i)
		}
		fmt.Fprintf(w, page, fmt.Sprintf(`<IsTruncated>true</IsTruncated><NextContinuationToken>t%d</NextContinuationToken>%s`, n, b.String()))
		return true
	}
	if _, _, err := Open(t.Context(), "s3://models/m/", options(t)); err == nil || !strings.Contains(err.Error(), "more than 10000 objects; name the directory of one model") || n != 11 {
		t.Errorf("%v after %d pages", err, n)
	}
}

// Row 26: no secret is in the cache, an error, a listing or a log.
func TestSecrets(t *testing.T) {
	s := newFake(t)
	m := testremote.Models(t, testdata)[0]
	s.put(m.Open, m.Files[m.Open])
	signedFor(t, s)
	t.Setenv("AWS_SESSION_TOKEN", "session-hunter2")
	store, dir := testremote.Cache(t)
	o := Options{Client: testremote.Client(t, time.Second), Store: store}
	l, file, err := Open(t.Context(), "s3://models/"+m.Open, o)
	if err != nil {
		t.Fatal(err)
	}
	testremote.Same(t, l, file, m.Local(t))
	var texts []string
	for _, x := range l.Items() {
		texts = append(texts, fmt.Sprintf("%+v", x.ID), l.Location(x.Name))
	}
	s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _, err = Open(ctx, "s3://models/other", o)
	texts = append(texts, fmt.Sprint(err))
	testremote.NoSecrets(t, dir, []string{goodSecret, goodKey, "hunter2", "Signature="}, texts)
}

// Parts of split models are found by their names, and one that is missing is named.
func TestShards(t *testing.T) {
	s := newFake(t)
	signedFor(t, s)
	for i := range 40 {
		s.put(gguf.ShardName("a", int64(i+1), 40), []byte{byte(i)})
	}
	l, file, err := Open(t.Context(), "s3://models/a-00007-of-00040.gguf", options(t))
	if err != nil || file != "a-00007-of-00040.gguf" || len(l.Items()) != 40 {
		t.Fatal(err)
	}
	delete(s.objects, "a-00033-of-00040.gguf")
	if _, _, err := Open(t.Context(), "s3://models/a-00007-of-00040.gguf", options(t)); err == nil || !strings.Contains(err.Error(), "a-00033-of-00040.gguf: there is no such object") {
		t.Errorf("%v", err)
	}
	s.put("a-00001-of-01001.gguf", nil)
	if _, _, err := Open(t.Context(), "s3://models/a-00001-of-01001.gguf", options(t)); err == nil || !strings.Contains(err.Error(), "one of 1001 files by its name; a model may have at most 1000") {
		t.Errorf("%v", err)
	}
}

// Where what the environment names is asked for.
func TestAddress(t *testing.T) {
	for _, tt := range []struct{ own, region, bucket, key, want string }{
		{"", "us-east-1", "models", "a b/c+d", "https://models.s3.us-east-1.amazonaws.com/a%20b/c%2Bd"},
		{"", "eu-west-1", "models", "", "https://models.s3.eu-west-1.amazonaws.com/"},
		{"", "cn-north-1", "models", "x", "https://models.s3.cn-north-1.amazonaws.com.cn/x"},
		{"", "us-east-1", "with.dots", "x", "https://s3.us-east-1.amazonaws.com/with.dots/x"},
		{"", "us-east-1", "Old_Name", "", "https://s3.us-east-1.amazonaws.com/Old_Name"},
		{"http://127.0.0.1:9000/", "", "models", "ü//x", "http://127.0.0.1:9000/models/%C3%BC//x"},
		{"https://host/base/", "", "models", "", "https://host/base/models"},
	} {
		setEnv(t, "AWS_ENDPOINT_URL", tt.own, "AWS_DEFAULT_REGION", tt.region)
		at, region, err := ofSettings(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := at.address(region, tt.bucket, tt.key).String(); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

// All readers of the same object share an entry of the cache, and no other readers do.
func TestIdentity(t *testing.T) {
	ids := map[string]string{}
	for _, tt := range []struct {
		at, bucket string
		o          object
	}{
		{"", "b", object{Key: "k", ETag: `"e"`}},
		{"http://127.0.0.1:1", "b", object{Key: "k", ETag: `"e"`}},
		{"", "c", object{Key: "k", ETag: `"e"`}},
		{"", "b", object{Key: "kk", ETag: `"e"`}},
		{"", "b", object{Key: "k", ETag: `"f"`}},
		{"", "b", object{Key: "k", ETag: `"e"`, Version: "v"}},
	} {
		setEnv(t, "AWS_ENDPOINT_URL", tt.at)
		at, region, _ := ofSettings(nil)
		p, b := remote.ObjectName{Scheme: Scheme, Bucket: tt.bucket, Key: tt.o.Key}, &bucket{at: at, name: tt.bucket, region: region}
		l, err := b.objects(p).Listing(remote.Answer[[]object]{Value: []object{tt.o}}, p, Options{Store: &cache.Store{}})
		if err != nil {
			t.Fatal(err)
		}
		id := l.Items()[0].ID.Key
		if was, ok := ids[id]; ok {
			t.Errorf("%+v has the identity of %s", tt, was)
		}
		ids[id] = fmt.Sprint(tt)
	}
}

// A model with a file that is broken is refused as a local one is.
func TestBroken(t *testing.T) {
	s := newFake(t)
	signedFor(t, s)
	s.put("m.gguf", []byte("GGUF\x03\x00\x00\x00"))
	l, file, err := Open(t.Context(), "s3://models/m.gguf", options(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := formats.OpenFS(l, file); err == nil || !strings.HasPrefix(err.Error(), "s3://models/m.gguf: ") {
		t.Errorf("%v", err)
	}
	if got := filepath.ToSlash(l.Location("m.gguf")); got != "s3://models/m.gguf" {
		t.Error(got)
	}
}
