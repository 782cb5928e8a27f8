package gs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

const testdata = "../../../testdata"

// nameOf is where the tests have a model, below a name with letters that addresses escape.
func nameOf(m testremote.Model) string {
	name := "gs://models/" + odd + m.Name + "/"
	if m.Open != "." {
		name += m.Open
	}
	return name
}

const odd = "some where/50% of?#&+=:@'(ä)/"

// By service account; a prefix with an index and shards is one model, also page by page. All bytes
// of all views equal the local model's, also offline, and each range asks for a generation.
func TestModels(t *testing.T) {
	s := newFake(t)
	s.pages = 2
	for _, m := range testremote.Models(t, testdata) {
		t.Run(m.Name, func(t *testing.T) {
			for name, b := range m.Files {
				s.put(odd+m.Name+"/"+name, b)
			}
			s.put(odd+m.Name+"/", nil) // what consoles make to show a directory
			o := s.signed(t)
			for _, name := range []string{nameOf(m), "gs://models/" + odd + m.Name + "/"} {
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
				t.Errorf("%d requests although offline, %d without a generation", n-asked, s.unpinned)
			}
		})
	}
}

// Without credentials, or if they are switched off, requests are anonymous.
func TestAnonymous(t *testing.T) {
	s := newFake(t)
	s.open = true
	m := testremote.Models(t, testdata)[0]
	s.put("m/"+m.Open, m.Files[m.Open])
	for _, env := range []map[string]string{
		{"NO_GCE_CHECK": "true"},
		{disableSetting: "true", fileSetting: "/none"},
		{"GCE_METADATA_HOST": "127.0.0.1:1"},
	} {
		l, file, err := Open(t.Context(), "gs://models/m/"+m.Open, s.options(t, env))
		if err != nil {
			t.Fatal(err)
		}
		testremote.Same(t, l, file, m.Local(t))
	}
	if len(s.gave) > 0 {
		t.Errorf("tokens for %q", s.gave)
	}
}

// Errors are one line with the next step.
func TestErrors(t *testing.T) {
	s := newFake(t)
	s.put("m/model.gguf", []byte("GGUF"))
	s.put("both/a.gguf", []byte("GGUF"))
	s.put("both/b.gguf", []byte("GGUF"))
	s.put("odd//x", []byte("x"))
	none := map[string]string{"NO_GCE_CHECK": "1"}
	file := func(content string) map[string]string {
		return map[string]string{fileSetting: write(t, content)}
	}
	answers := func(status int, reason, message string, header ...string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			s.fail(w, status, reason, message)
			return true
		}
	}
	good := file(account(t, nil))
	const model = "gs://models/m/model.gguf"
	for _, tt := range []struct {
		name  string
		env   map[string]string
		fault func(w http.ResponseWriter, r *http.Request) bool
		want  string
		kind  error
	}{
		{model, none, nil, model + ": it is not public, or does not exist, and there are no credentials; check the name, or run 'gcloud auth application-default login', or set GOOGLE_APPLICATION_CREDENTIALS", syscall.EACCES},
		{"gs://models/m/none.gguf", good, nil, "gs://models/m/none.gguf: there is no such object; check the name; one of a directory ends in /", fs.ErrNotExist},
		{"gs://models/none/", good, nil, "gs://models/none: there are no objects whose names begin so; check the name", fs.ErrNotExist},
		{"gs://other/m/model.gguf", good, nil, "gs://other/m/model.gguf: there is no such bucket; check the name", fs.ErrNotExist},
		{"gs://other/m/", good, nil, "gs://other/m: there is no such bucket; check the name", fs.ErrNotExist},
		{"gs://models/both/", good, nil, "gs://models/both: it holds 2 models: a.gguf, b.gguf; name one of them", tensorfs.ErrUnsupported},
		{"gs://models/odd/", good, nil, `gs://models/odd: "/x" is not the name of a file in a model; the server is at fault, or it is not a model`, nil},
		{"gs://models/m/m-00001-of-99999.gguf", good, nil, "gs://models/m/m-00001-of-99999.gguf: there is no such object; ", nil},
		{"gs://me:hunter2@models/x", good, nil, "gs://...@models: credentials do not belong into a name; run 'gcloud auth application-default login', ", nil},
		{"gs:///x", good, nil, `gs:///x: "" is not the name of a bucket; write gs://BUCKET/KEY, or gs://BUCKET/PREFIX/ for a directory`, nil},
		{"gs://models/..", good, nil, "gs://models/..: it is not a key that an object can have; ", nil},
		{"gs://models/\xff", good, nil, `"gs://models/\xff": it is not a key that an object can have; `, nil},

		{model, good, answers(403, "forbidden", "me@p.iam.gserviceaccount.com does not have storage.objects.get access"), model + ": these credentials may not read it, or it does not exist; check the name, and that the account may list and read objects (Storage Object Viewer)", syscall.EACCES},
		{model, good, answers(401, "authError", "Invalid Credentials"), model + ": the server does not accept the credentials; get new ones (run ", syscall.EACCES},
		{model, good, answers(400, "required", "Bucket is a requester pays bucket but no user project provided."), model + ": the readers of this bucket pay for their requests; set GOOGLE_CLOUD_QUOTA_PROJECT to the project that pays", syscall.EACCES},
		{model, good, answers(429, "rateLimitExceeded", "slow", "Retry-After", "55"), model + ": the server limits requests; try again in 55 s", syscall.EIO},
		{model, good, answers(503, "backendError", "busy", "Retry-After", "55"), model + ": the server answers 503 Service Unavailable; try again later", syscall.EIO},
		{model, good, answers(418, "x", "hunter2"), model + ": the server answers 418 I'm a teapot; check the name", syscall.EIO},
		{model, file("hunter2"), nil, "P: it is not a file of Google's credentials; make it with ", tensorfs.ErrUnsupported},
		{model, map[string]string{fileSetting: "/none/hunter.json"}, nil, "/none/hunter.json: ", fs.ErrNotExist},
		{model, file(account(t, map[string]any{"private_key": "hunter2"})), nil, "P: Google gives no token for these credentials; check the account and its key, or make a new key; for a public bucket set CLOUDSDK_AUTH_DISABLE_CREDENTIALS=1", syscall.EACCES},
		{model, file(account(t, map[string]any{"client_email": "hunter2@x"})), nil, "P: Google gives no token for these credentials (invalid_grant); check ", syscall.EACCES},
		{model, file(`{"type":"authorized_user","client_id":"x","client_secret":"hunter2","refresh_token":"hunter2"}`), nil, "P: Google gives no token for these credentials (invalid_grant); run 'gcloud auth application-default login' again; ", syscall.EACCES},
		{model, map[string]string{emulate: "http://me:hunter2@host"}, nil, "STORAGE_EMULATOR_HOST: it is not an address like http://HOST:PORT; set it right, or unset it", nil},
	} {
		t.Run(tt.want, func(t *testing.T) {
			s.change(func() { s.fault = tt.fault })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, _, err := Open(ctx, tt.name, s.options(t, tt.env))
			want := strings.Replace(tt.want, "P: ", tt.env[fileSetting]+": ", 1)
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "unter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			if tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("%v is not %v", err, tt.kind)
			}
		})
	}
}

// opened opens a file of a name, and returns a function that reads a few bytes of it.
func opened(t *testing.T, name string, o Options) func(off int64) error {
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
	return func(off int64) error { return tensorfs.ReadFull(s, make([]byte, 16), off) }
}

// An object that is overwritten is ESTALE, whether the server looks at the generation or not, and
// whether it tells it or only a checksum; what was read before can still be read.
func TestOverwritten(t *testing.T) {
	for name, set := range map[string]func(s *fake){
		"strict":   func(*fake) {},
		"careless": func(s *fake) { s.careless = true },
		"checksum": func(s *fake) {
			s.careless, s.silent = true, true
			s.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if o := s.objects["m.bin"]; strings.HasPrefix(r.URL.Path, "/download/") {
					sum, _ := o.sums()
					w.Header().Set("X-Goog-Hash", "md5=AAAA,crc32c="+sum)
				}
				return false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			set(s)
			s.put("m.bin", make([]byte, 20<<20))
			read := opened(t, "gs://models/m.bin", s.signed(t))
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

// A server that tells neither generation nor checksum is not believed.
func TestSilentServer(t *testing.T) {
	s := newFake(t)
	s.silent = true
	s.put("m.bin", make([]byte, 100))
	o := s.signed(t)
	l, file, err := Open(t.Context(), "gs://models/m.bin", o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := f.(tensorfs.Fetcher).Fetch(ctx, 0, 100); err == nil || !strings.Contains(err.Error(), "does not say which generation") {
		t.Error(err)
	}
}

// Bytes that do not have the checksum that the server states are an error: MD5, or CRC32C of an
// object that was composed.
func TestChecksums(t *testing.T) {
	for _, composite := range []bool{false, true} {
		for _, size := range []int{1000, 17 << 20} { // compared before the first read, and later
			s := newFake(t)
			o := s.put("m.bin", make([]byte, size))
			o.composite = composite
			options := s.signed(t)
			verify := func() error {
				l, file, err := Open(t.Context(), "gs://models/m.bin", options)
				if err != nil {
					t.Fatal(err)
				}
				f, err := l.OpenFile(file)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				return f.(interface {
					Verify(ctx context.Context, add func(n int64)) error
				}).Verify(t.Context(), func(int64) {})
			}
			if err := verify(); err != nil {
				t.Errorf("%v", err)
			}
			bad := s.put("m.bin", append(make([]byte, size-1), 1))
			bad.composite, bad.sum = composite, make([]byte, size)
			bad.generation++
			kind := map[bool]string{false: "md5:", true: "crc32c:"}[composite]
			if err := verify(); !errors.Is(err, tensorfs.ErrChanged) || !strings.Contains(err.Error(), "have the digest "+kind) {
				t.Errorf("%d bytes, composite %v: %v", size, composite, err)
			}
		}
	}
}

// An object that is stored compressed has no ranges.
func TestCompressed(t *testing.T) {
	s := newFake(t)
	s.put("m/config.json", []byte("{}")).encoding = "gzip"
	l, _, err := Open(t.Context(), "gs://models/m/", s.signed(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testremote.Read(l, "config.json"); err == nil || !strings.Contains(err.Error(), "m/config.json: it is stored compressed (Content-Encoding: gzip), so the server sends no parts of it; upload it again uncompressed") {
		t.Error(err)
	}
}

// A listing that leads elsewhere, or does not end, is refused.
func TestListings(t *testing.T) {
	const one = `{"items":[{"name":"m/a.gguf","size":"4","generation":"1"}]`
	for body, want := range map[string]string{
		`x`:                               "is not JSON that can be read",
		one + `,"nextPageToken":"again"}`: "the server's listing does not end",
		`{"items":[{"name":"n/a","size":"4","generation":"1"}]}`:                                              `the server lists "n/a", which was not asked for`,
		`{"items":[{"name":"m/a","size":"-4","generation":"1"}]}`:                                             `gives "m/a" a size that no file can have`,
		`{"items":[{"name":"m/a","size":"4","generation":"x"}]}`:                                              `gives "m/a" no generation, so a change would not be seen`,
		`{"items":[{"name":"m/a","size":"4","generation":"1&a=b"}]}`:                                          `no generation`,
		`{"items":[{"size":"4","generation":"1"}]}`:                                                           "an object without a name",
		`{"items":[{"name":"m/../x","size":"4","generation":"1"}]}`:                                           "is not the name of a file in a model",
		`{"items":[{"name":"m/a","size":"4","generation":"1"},{"name":"m/a/b","size":"4","generation":"1"}]}`: "is a file and also a directory",
	} {
		s := newFake(t)
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, body)
			return true
		}
		_, _, err := Open(t.Context(), "gs://models/m/", s.signed(t))
		if err == nil || !strings.HasPrefix(err.Error(), "gs://models/m: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// The address of an emulator is read as Google's own clients read it, and gets no credentials.
func TestEndpoint(t *testing.T) {
	for given, want := range map[string]string{
		"":                                 "https://storage.googleapis.com/storage/v1/b/models/o/a%2Fb",
		"localhost:9000":                   "http://localhost:9000/storage/v1/b/models/o/a%2Fb",
		"http://127.0.0.1:9000":            "http://127.0.0.1:9000/storage/v1/b/models/o/a%2Fb",
		"http://127.0.0.1:9000/":           "http://127.0.0.1:9000/storage/v1/b/models/o/a%2Fb",
		"http://127.0.0.1:9000/storage/v1": "http://127.0.0.1:9000/storage/v1/b/models/o/a%2Fb",
		"https://host/x/storage/v1/":       "https://host/x/storage/v1/b/models/o/a%2Fb",
	} {
		at, emulator, err := endpoint(func(string) string { return given })
		if got := address(at, "models", "a/b", false).String(); err != nil || got != want || emulator == (given == "") {
			t.Errorf("%q: %s, %v, %v", given, got, emulator, err)
		}
	}
}

// Credentials are nowhere but in requests to Google.
func TestSecrets(t *testing.T) {
	s := newFake(t)
	s.put("m.bin", make([]byte, 1000))
	o := s.signed(t)
	if err := opened(t, "gs://models/m.bin", o)(0); err != nil {
		t.Fatal(err)
	}
	s.change(func() {
		s.fault = func(w http.ResponseWriter, r *http.Request) bool {
			s.fail(w, 403, "x", r.Header.Get("Authorization"))
			return true
		}
	})
	_, _, err := Open(t.Context(), "gs://models/m.bin", o)
	testremote.NoSecrets(t, o.Store.Dir(), []string{"my-access-token", "PRIVATE KEY", "gserviceaccount"}, []string{fmt.Sprint(err)})
}

// Objects that were opened are opened where the server does not answer, and not where
// it refuses.
func TestSilence(t *testing.T) {
	s := newFake(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	s.put("m/model.gguf", want)
	server := http.HandlerFunc(s.storage)
	s.open = true
	address := serve(t, server)
	for _, name := range []string{"gs://models/m/", "gs://models/m/model.gguf"} {
		testremote.Silence{Name: name, Want: want, Options: Options{Env: func(name string) string {
			if name == emulate {
				return address
			}
			return ""
		}},
			Open:  func(o Options) (*remote.Listing, string, error) { return Open(t.Context(), name, o) },
			Fault: func(answer func(http.ResponseWriter, *http.Request) bool) { s.change(func() { s.fault = answer }) },
		}.Test(t)
	}
}
