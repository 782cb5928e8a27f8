package ms

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

const testdata = "../../../testdata"

// fake is ModelScope, by its client's documentation: a list of files, and redirects to another server
// with addresses that are good for a while.
type fake struct {
	api, data *httptest.Server

	mu     sync.Mutex
	files  map[string][]byte // of org/m at master
	token  string            // that it asks for, "" for none
	signed int               // addresses that were given out
	expire bool              // only the latest of them is good
	plain  bool              // it sends the bytes itself
	change func(entry map[string]any)
	fault  func(w http.ResponseWriter, r *http.Request) bool
	asked  []string
	leaked []string // credentials that reached the other server
}

const commit = "0123456789012345678901234567890123456789"

func newFake(t testing.TB) *fake {
	s := &fake{files: map[string][]byte{}}
	s.api = httptest.NewServer(http.HandlerFunc(s.serve))
	s.data = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range []string{"Authorization", "Cookie"} {
			if v := r.Header.Get(name); v != "" {
				s.leaked = append(s.leaked, v)
			}
		}
		if s.expire && r.URL.Query().Get("sig") != fmt.Sprint("secret", s.signed) {
			http.Error(w, "expired", http.StatusForbidden)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.files[strings.TrimPrefix(r.URL.Path, "/")]))
	}))
	t.Cleanup(s.api.Close)
	t.Cleanup(s.data.Close)
	return s
}

func (s *fake) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fake) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.URL.RequestURI())
	q := r.URL.Query()
	fail := func(status int, message string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"Code":%d,"Success":false,"Data":{"Files":[]},"Message":%q}`, status, message)
	}
	if s.fault != nil && s.fault(w, r) {
		return
	}
	cookie, _ := r.Cookie("m_session_id")
	if s.token != "" && (r.Header.Get("Authorization") != "Bearer "+s.token || cookie == nil || cookie.Value != s.token) {
		fail(http.StatusForbidden, "no")
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v1/models/org/m/")
	revision := q.Get("Revision")
	switch file, known := s.files[q.Get("FilePath")]; {
	case !ok, revision != "master" && revision != "v1 +" && revision != commit:
		fail(http.StatusNotFound, "model not found")
	case path == "repo/files" && q.Get("Recursive") == "True":
		entries := []map[string]any{{"Type": "tree", "Path": "dir", "Name": "dir", "Size": 0}}
		for _, name := range slices.Sorted(maps.Keys(s.files)) {
			e := map[string]any{"Type": "blob", "Path": name, "Size": len(s.files[name]), "Sha256": fmt.Sprintf("%x", sha256.Sum256(s.files[name])), "Revision": commit, "IsLFS": true, "CommittedDate": 1_700_000_000}
			if s.change != nil {
				s.change(e)
			}
			entries = append(entries, e)
		}
		json.NewEncoder(w).Encode(map[string]any{"Code": 200, "Success": true, "Message": "success", "Data": map[string]any{"Files": entries}})
	case path == "repo" && known && s.plain:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	case path == "repo" && known:
		s.signed++
		http.Redirect(w, r, fmt.Sprintf("%s/%s?sig=secret%d", s.data.URL, q.Get("FilePath"), s.signed), http.StatusFound)
	default:
		fail(http.StatusNotFound, "no such file")
	}
}

func (s *fake) options(t testing.TB, env ...string) Options {
	all := map[string]string{"MODELSCOPE_ENDPOINT": s.api.URL}
	for i := 0; i < len(env); i += 2 {
		all[env[i]] = env[i+1]
	}
	store, _ := testremote.Cache(t)
	return Options{Client: testremote.Client(t, 20*time.Second), Store: store, Env: func(name string) string { return all[name] }}
}

// Models of each shape have all bytes of the local model, private ones by the token, also offline; the
// token is sent to no other server.
func TestModels(t *testing.T) {
	for _, plain := range []bool{false, true} {
		for _, m := range testremote.Models(t, testdata) {
			t.Run(fmt.Sprint(m.Name, plain), func(t *testing.T) {
				s := newFake(t)
				s.files, s.plain, s.token = m.Files, plain, "my-token"
				o := s.options(t, tokenSetting, "my-token")
				for _, revision := range []string{"", "v1 +"} {
					l, err := Open(t.Context(), "org/m", revision, o)
					if err != nil {
						t.Fatal(err)
					}
					testremote.Same(t, l, m.Open, m.Local(t))
				}
				asked := len(s.asked)
				o.Offline = "--offline"
				l, err := Open(t.Context(), "org/m", "", o)
				if err != nil {
					t.Fatal(err)
				}
				testremote.Same(t, l, m.Open, m.Local(t))
				if n := len(s.asked); n != asked || len(s.leaked) > 0 {
					t.Errorf("%d requests although offline; the other server got %q", n-asked, s.leaked)
				}
				testremote.NoSecrets(t, o.Store.Dir(), []string{"my-token", "sig=secret"}, nil)
			})
		}
	}
}

// An address that has ended is asked for again, and one address serves many ranges.
func TestAddresses(t *testing.T) {
	s := newFake(t)
	s.files["m.bin"], s.expire = make([]byte, 40<<20), true
	l, err := Open(t.Context(), "org/m", "", s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.OpenFile("m.bin")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 8<<20)
	for i := range int64(4) {
		if err := tensorfs.ReadFull(f, b, i*int64(len(b))); err != nil {
			t.Error(err)
		}
		if i == 1 {
			s.set(func() { s.signed++ })
		}
	}
	if n := len(s.asked); n > 4 {
		t.Errorf("%q", s.asked)
	}
}

// Bytes with another digest than the list states are an error, and so is a file that is gone.
func TestWrongBytes(t *testing.T) {
	s := newFake(t)
	s.files["m.bin"] = make([]byte, 1000)
	s.change = func(e map[string]any) { e["Sha256"] = strings.Repeat("0", 64) }
	l, err := Open(t.Context(), "org/m", "", s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := testremote.Read(l, "m.bin"); !errors.Is(err, tensorfs.ErrChanged) {
		t.Errorf("%v", err)
	}
	s.change = func(e map[string]any) { e["Path"] = "gone.bin" }
	if l, err = Open(t.Context(), "org/m", "", s.options(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := testremote.Read(l, "gone.bin"); !errors.Is(err, syscall.ESTALE) {
		t.Errorf("%v", err)
	}
	// Without a digest the commit identifies a file, and without both it is forgotten when it is closed.
	for _, revision := range []string{commit, "master"} {
		s.change = func(e map[string]any) { e["Sha256"], e["Revision"] = "c04f", revision }
		o := s.options(t)
		if l, err = Open(t.Context(), "org/m", "", o); err != nil {
			t.Fatal(err)
		}
		if b, err := testremote.Read(l, "m.bin"); err != nil || len(b) != 1000 {
			t.Errorf("%v", err)
		}
		if list, err := o.Store.List(); err != nil || len(list) > 0 != (revision == commit) {
			t.Errorf("%s: %+v, %v", revision, list, err)
		}
	}
}

// Errors are one line with the next step.
func TestErrors(t *testing.T) {
	answers := func(status int, text string) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", "55")
			w.WriteHeader(status)
			fmt.Fprint(w, text)
			return true
		}
	}
	list := func(entries string) func(w http.ResponseWriter, r *http.Request) bool {
		return answers(200, `{"Success":true,"Data":{"Files":[`+entries+`]}}`)
	}
	const none = ": by ModelScope's answer there is no such model, or you may not see it; check the name and the revision"
	for _, tt := range []struct {
		name, revision string
		env            []string
		fault          func(w http.ResponseWriter, r *http.Request) bool
		want           string
		kind           error
	}{
		{"org/none", "", nil, nil, "ms:org/none" + none + ", or set MODELSCOPE_API_TOKEN", fs.ErrNotExist},
		{"org/m", "v9", nil, nil, "ms:org/m@v9" + none, fs.ErrNotExist},
		{"org/m", "", nil, answers(401, ""), "ms:org/m" + none + ", or set MODELSCOPE_API_TOKEN", syscall.EACCES},
		{"org/m", "", []string{tokenSetting, "hunter2"}, answers(403, "hunter2"), "ms:org/m" + none, syscall.EACCES},
		{"org/m", "", nil, answers(429, ""), "ms:org/m: ModelScope limits requests; try again in 55 s", syscall.EIO},
		{"org/m", "", nil, answers(503, ""), "ms:org/m: ModelScope did not answer: it answers 503 Service Unavailable; try again later", nil},
		{"org/m", "", nil, answers(200, "<html>"), "ms:org/m: ModelScope's list of files is not JSON that can be read; try again later", nil},
		{"org/m", "", nil, answers(200, `{"Code":404,"Success":false,"Data":null}`), "ms:org/m" + none, fs.ErrNotExist},
		{"org/m", "", nil, answers(200, `{"Data":{}}`), "ms:org/m: ModelScope's list of files is missing in its answer; ", nil},
		{"org/m", "", nil, list(`{"Path":"../x","Size":1}`), `ms:org/m: ModelScope's list of files is wrong: "../x" is not the name of a file in a model; `, nil},
		{"org/m", "", nil, list(`{"Path":"x","Size":-1}`), `ms:org/m: ModelScope's list of files is wrong: "x" has a size that no file can have; `, nil},
		{"org/m", "", nil, list(`{"Path":"x","Size":1},{"Path":"x/y","Size":1}`), `ms:org/m: "x" is a file and also a directory; `, nil},
		{"org/../m", "", nil, nil, "ms:org/../m: it is not a name that ModelScope may have; write it as ms:ORG/NAME or ms:ORG/NAME@REVISION", tensorfs.ErrUnsupported},
		{"org/..", "", nil, nil, "ms:org/..: it is not a name that ModelScope may have", nil},
		{"org", "", nil, nil, "ms:org: it is not a name that ModelScope may have", nil},
		{"org/m", "", []string{tokenSetting, "hunter2\nX: y"}, nil, "MODELSCOPE_API_TOKEN: it contains characters that a token cannot have, such as blanks; ", nil},
		{"org/m", "", []string{"MODELSCOPE_ENDPOINT", "https://me:hunter2@host"}, nil, "MODELSCOPE_ENDPOINT: it is not an address like https://modelscope.cn; set it right, or unset it", nil},
		{"org/m", "", []string{"MODELSCOPE_ENDPOINT", "", "MODELSCOPE_DOMAIN", "me:hunter2@host"}, nil, "MODELSCOPE_DOMAIN: it is not an address like ", nil},
	} {
		t.Run(tt.want, func(t *testing.T) {
			s := newFake(t)
			s.files["m.bin"], s.fault = []byte("x"), tt.fault
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := Open(ctx, tt.name, tt.revision, s.options(t, tt.env...))
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "unter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			if tt.kind != nil && !errors.Is(err, tt.kind) {
				t.Errorf("%v is not %v", err, tt.kind)
			}
		})
	}
}

// A repository that was opened is opened where the server does not answer, and not where it refuses.
func TestSilence(t *testing.T) {
	s := newFake(t)
	want := []byte(strings.Repeat("0123456789abcdef", 200_000))
	s.files["m.gguf"], s.plain = want, true
	testremote.Silence{Name: "ms:org/m", Want: want, Options: Options{Env: s.options(t).Env},
		Open: func(o Options) (*remote.Listing, string, error) {
			l, err := Open(t.Context(), "org/m", "", o)
			return l, "m.gguf", err
		},
		Fault: func(answer func(http.ResponseWriter, *http.Request) bool) { s.set(func() { s.fault = answer }) },
	}.Test(t)
}

// FuzzList reads any text as a list: what is taken of it has names, sizes and digests that files can have.
func FuzzList(f *testing.F) {
	f.Add(`{"Success":true,"Data":{"Files":[{"Type":"blob","Path":"a/b","Size":5,"Sha256":"`+strings.Repeat("0a", 32)+`","Revision":"`+commit+`"}]}}`, "master")
	f.Add(`{"Success":false}`, "v1")
	f.Add(`{"Data":{"Files":[{"Path":"a","Size":1e3},{"Path":"a","Size":99999999999999999999}]}}`, commit)
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		f.Fatal(err)
	}
	at, err := endpoint(func(string) string { return "" })
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, revision string) {
		files, err := readList([]byte(body), revision)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		s := &server{o: Options{Store: store}, at: at, name: "ms:org/m", repo: "org/m"}
		l, err := s.listing(remote.Answer[fileList]{Value: fileList{files}, Offline: "--offline"})
		if err != nil {
			return
		}
		for _, x := range l.Items() {
			if _, err := cache.NewHash(x.ID.Digest, x.Size()); err != nil || !fs.ValidPath(x.Name) || x.Size() < 0 {
				t.Errorf("%+v: %v", x, err)
			}
		}
	})
}
