package plain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

const mib = 1 << 20

// options are the options of a process on a machine.
func options(m *testremote.Machine) Options {
	return Options{Client: m.Client, Store: m.Store, Env: m.Getenv}
}

func newOptions(t testing.TB) Options { return options(testremote.NewMachine(t)) }

// pattern is the content of a file.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*7 ^ byte(i>>16)*31
	}
	return b
}

// zeros is a large file that takes no memory.
type zeros int64

func (z zeros) Size() int64 { return int64(z) }
func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	n, err := tensorfs.ClipRange(int64(z), p, off)
	clear(p[:n])
	return n, err
}

// mustRead opens an address and reads the file.
func mustRead(t testing.TB, o Options, address string, want []byte) {
	t.Helper()
	l, file, err := Open(context.Background(), address, o)
	if err != nil {
		t.Errorf("%s: %v", conceal.Name(address), err)
		return
	}
	defer l.Close()
	if got, err := testremote.Read(l, file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes of %d, %v", conceal.Name(address), len(got), len(want), err)
	}
}

// A file comes once, and is asked for its version when it is opened again; offline it
// is not asked for.
func TestOpen(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"large": 5*mib + 77, "of one cell": cache.CellSize, "small": 100, "of one byte": 1, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			s := testweb.New(t)
			b := pattern(size)
			s.Put("/a dir/m.gguf", bytes.NewReader(b))
			address := s.URL + "/a%20dir/m.gguf"
			m := testremote.NewMachine(t)
			o := options(m)
			l, file, err := Open(context.Background(), address, o)
			if err != nil {
				t.Fatal(err)
			}
			if file != "m.gguf" || l.Name != s.URL+"/a%20dir" || l.Location(file) != s.URL+"/a%20dir/m.gguf" {
				t.Errorf("it is %s of %s", file, l.Name)
			}
			if got, err := testremote.Read(l, file); err != nil || !bytes.Equal(got, b) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			l.Close()
			if got := s.Sent(); got != int64(size) && size > 0 {
				t.Errorf("%d bytes were sent of %d", got, size)
			}
			s.Reset()
			m.Restart(t, time.Minute)
			o = options(m)
			mustRead(t, o, address, b)
			if n := len(s.Requests()); n != 1 || s.Sent() > 1 && size > 0 {
				t.Errorf("%d requests and %d bytes to open it again", n, s.Sent())
			}
			s.Reset()
			o.Offline = "--offline"
			if size > 0 {
				mustRead(t, o, address, b)
			}
			if _, _, err := Open(context.Background(), s.URL+"/other.gguf", o); err == nil || !strings.Contains(err.Error(), "not on this machine, and --offline forbids asking for it") || !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			if r := s.Requests(); len(r) != 0 {
				t.Errorf("offline it was asked for %v", r)
			}
		})
	}
}

// Each range asks for the version, and a file of another one is not read. Row 13.
func TestVersions(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		set     func(b *testweb.Behaviour)
		change  func(b *testweb.Behaviour)
		require string // the header that asks for the version
	}{
		"strong ETag":            {func(b *testweb.Behaviour) {}, func(b *testweb.Behaviour) { b.ETag = `"two"` }, "If-Match"},
		"strong ETag, ignored":   {func(b *testweb.Behaviour) { b.Careless = true }, func(b *testweb.Behaviour) { b.ETag = `"two"` }, "If-Match"},
		"time":                   {func(b *testweb.Behaviour) { b.ETag = "" }, func(b *testweb.Behaviour) { b.Modified = b.Modified.Add(time.Hour) }, "If-Unmodified-Since"},
		"time, ignored":          {func(b *testweb.Behaviour) { b.ETag, b.Careless = "", true }, func(b *testweb.Behaviour) { b.Modified = b.Modified.Add(time.Hour) }, "If-Unmodified-Since"},
		"weak ETag":              {func(b *testweb.Behaviour) { b.ETag = `W/"one"` }, func(b *testweb.Behaviour) { b.ETag = `W/"two"` }, "If-Unmodified-Since"},
		"weak ETag alone":        {func(b *testweb.Behaviour) { b.ETag, b.Modified = `W/"one"`, time.Time{} }, func(b *testweb.Behaviour) { b.ETag = `W/"two"` }, ""},
		"no ETag any more":       {func(b *testweb.Behaviour) { b.Careless = true }, func(b *testweb.Behaviour) { b.ETag = "" }, "If-Match"},
		"gone":                   {func(b *testweb.Behaviour) {}, func(b *testweb.Behaviour) { b.Fault = status(404) }, "If-Match"},
		"shorter (416)":          {func(b *testweb.Behaviour) {}, func(b *testweb.Behaviour) { b.Fault = status(416) }, "If-Match"},
		"precondition (412)":     {func(b *testweb.Behaviour) {}, func(b *testweb.Behaviour) { b.Fault = status(412) }, "If-Match"},
		"another size, careless": {func(b *testweb.Behaviour) { b.Careless = true }, func(b *testweb.Behaviour) { b.Fault = otherSize }, "If-Match"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testweb.New(t)
			s.Change(x.set)
			b := pattern(20 * mib)
			s.Put("/m.gguf", bytes.NewReader(b))
			l, file, err := Open(context.Background(), s.URL+"/m.gguf", newOptions(t))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			f, err := l.OpenFile(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			d := f.Section(0, f.Size())
			p := make([]byte, 4096)
			if err := tensorfs.ReadFull(d, p, 9*mib); err != nil || !bytes.Equal(p, b[9*mib:][:4096]) {
				t.Fatal(err)
			}
			if r := s.Requests(); x.require != "" && r[len(r)-1].Header.Get(x.require) == "" {
				t.Errorf("asked without %s: %v", x.require, r[len(r)-1])
			}
			s.Change(x.change)
			for range 2 {
				if err := tensorfs.ReadFull(d, p, 15*mib); !errors.Is(err, tensorfs.ErrChanged) || !errors.Is(err, syscall.ESTALE) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v", err)
				}
			}
			if err := tensorfs.ReadFull(d, p, 9*mib); err != nil || !bytes.Equal(p, b[9*mib:][:4096]) {
				t.Errorf("what came before: %v", err)
			}
		})
	}
}

func status(code int) func(int, http.ResponseWriter, *http.Request) bool {
	return func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(code)
		return true
	}
}

func otherSize(_ int, w http.ResponseWriter, r *http.Request) bool {
	first, last := testweb.Part(w, r, 21*mib)
	w.Write(make([]byte, last-first+1))
	return true
}

// A file without anything that identifies its version is not shared with other readers.
func TestPrivate(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(b *testweb.Behaviour){
		"nothing":   func(b *testweb.Behaviour) { b.ETag, b.Modified = "", time.Time{} },
		"weak ETag": func(b *testweb.Behaviour) { b.ETag, b.Modified = `W/"x"`, time.Time{} },
		"later":     func(b *testweb.Behaviour) { b.ETag, b.Modified = "", time.Now().Add(time.Hour) },
		"whole":     func(b *testweb.Behaviour) { b.ETag, b.Modified, b.Whole = "", time.Time{}, true },
	} {
		t.Run(name, func(t *testing.T) {
			s := testweb.New(t)
			s.Change(set)
			b := pattern(3*mib + 5)
			s.Put("/m.gguf", bytes.NewReader(b))
			o := newOptions(t)
			mustRead(t, o, s.URL+"/m.gguf", b)
			if list, err := o.Store.List(); err != nil || len(list) != 0 {
				t.Errorf("the cache keeps %v, %v", list, err)
			}
			o.Offline = "--offline"
			if _, _, err := Open(context.Background(), s.URL+"/m.gguf", o); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

// Servers that send only whole files. Row 14.
func TestWhole(t *testing.T) {
	t.Parallel()
	s := testweb.New(t)
	s.Change(func(b *testweb.Behaviour) { b.Whole = true })
	b := pattern(10*mib + 1)
	s.Put("/small.gguf", bytes.NewReader(b))
	s.Put("/large.gguf", zeros(65*mib))
	s.Put("/huge.gguf", zeros(5_000_000_000))
	o := newOptions(t)
	mustRead(t, o, s.URL+"/small.gguf", b)
	if n := s.Sent(); n != int64(len(b)) {
		t.Errorf("%d bytes were sent of %d", n, len(b))
	}
	for name, size := range map[string]string{"/large.gguf": "68.2 MB", "/huge.gguf": "5.0 GB"} {
		_, _, err := Open(context.Background(), s.URL+name, o)
		if want := s.URL + name + ": the server sends only whole files (" + size + "); use --download to fetch it first"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	var came int64
	o.Download = true
	o.Progress = func(what string, total int64) (func(int64), func()) {
		if what != "download large.gguf" || total != 65*mib {
			t.Errorf("%s, %d bytes", what, total)
		}
		return func(n int64) { came += n }, func() {}
	}
	// It breaks off twice.
	var sent int64
	s.Break(func(i int, w http.ResponseWriter, r *http.Request) bool {
		if sent++; sent > 2 {
			return false
		}
		w.Header().Set("Last-Modified", time.Unix(1_700_000_000, 0).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(65*mib))
		w.Write(make([]byte, sent*20*mib))
		panic(http.ErrAbortHandler)
	})
	mustRead(t, o, s.URL+"/large.gguf", make([]byte, 65*mib))
	if came != 65*mib {
		t.Errorf("%d bytes of progress", came)
	}
	s.Break(nil)
	s.Reset()
	o.Offline = "--offline"
	mustRead(t, o, s.URL+"/large.gguf", make([]byte, 65*mib))
	if r := s.Requests(); len(r) > 0 {
		t.Errorf("%v", r)
	}
}

// The other files of a split model come from beside it, with the same query.
func TestSplit(t *testing.T) {
	t.Parallel()
	s := testweb.New(t)
	files := map[string][]byte{}
	for i := range 3 {
		name := fmt.Sprintf("m-%05d-of-00003.gguf", i+1)
		files[name] = pattern(300_000 + i)
		s.Put("/d/"+name, bytes.NewReader(files[name]))
	}
	s.Change(func(b *testweb.Behaviour) { b.ETag = "" }) // files have one each on real servers
	o := newOptions(t)
	l, file, err := Open(context.Background(), s.URL+"/d/m-00002-of-00003.gguf?sig=secret", o)
	if err != nil || file != "m-00002-of-00003.gguf" {
		t.Fatal(file, err)
	}
	defer l.Close()
	for name, want := range files {
		if got, err := testremote.Read(l, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	for _, r := range s.Requests() {
		if !strings.HasSuffix(r.Path, "?sig=secret") {
			t.Errorf("asked for %s", r.Path)
		}
	}
	s.Put("/d/m-00003-of-00003.gguf", nil)
	l, _, err = Open(context.Background(), s.URL+"/d/m-00001-of-00003.gguf", newOptions(t))
	if err != nil || len(l.Items()) != 2 {
		t.Errorf("one is missing: %v", err)
	}
	s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "00002") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	if _, _, err = Open(context.Background(), s.URL+"/d/m-00001-of-00003.gguf?sig=secret", newOptions(t)); !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "m-00002-of-00003.gguf?...: the server answers 403") {
		t.Errorf("one is forbidden: %v", err)
	}
}

// A server that redirects to another gets the credentials, and the other the ETag.
func TestRedirect(t *testing.T) {
	t.Parallel()
	data, names := testweb.New(t), testweb.New(t)
	b := pattern(12 * mib)
	data.Put("/blob", bytes.NewReader(b))
	names.Put("/m.gguf", bytes.NewReader(nil))
	uses := 0
	data.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if uses++; uses == 3 || r.URL.RawQuery == "sig=secret1" && uses > 3 { // the address has ended
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	signed := 0
	names.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		signed++
		w.Header().Set("ETag", `"of the redirect"`)
		http.Redirect(w, r, fmt.Sprintf("%s/blob?sig=secret%d", data.URL, signed), http.StatusFound)
		return true
	})
	u, _ := url.Parse(names.URL)
	u.User, u.Path = url.UserPassword("me", "secret"), "/m.gguf"
	mustRead(t, newOptions(t), u.String(), b)
	if n := len(names.Requests()); n > 3 {
		t.Errorf("it was resolved %d times for %d ranges", n, len(data.Requests()))
	}
	for _, r := range names.Requests() {
		if user, password, ok := (&http.Request{Header: r.Header}).BasicAuth(); !ok || user != "me" || password != "secret" || r.Header.Get("If-Match") != "" {
			t.Errorf("the first was asked with %v", r.Header)
		}
	}
	for i, r := range data.Requests() {
		if r.Header.Get("Authorization") != "" || i > 0 && r.Header.Get("If-Match") != `"one"` || r.Header.Get("Referer") != "" {
			t.Errorf("the second was asked with %v", r.Header)
		}
	}
}

// A password of ~/.netrc is not sent where others can read it on the way, or to whatever listens at
// a port; a password in an address is. Neither is stored.
func TestNetrcOverHTTP(t *testing.T) {
	t.Parallel()
	s := testweb.New(t)
	s.Put("/m.gguf", bytes.NewReader(pattern(10)))
	s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool {
		if _, password, _ := r.BasicAuth(); password == "secret" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	home := t.TempDir()
	m := testremote.NewMachine(t)
	m.Env["HOME"] = home
	o := options(m)
	_, _, err := Open(context.Background(), s.URL+"/m.gguf?token=secret", o)
	if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), s.URL+"/m.gguf?...: the server answers 401 Unauthorized; give a user and password as http://USER:PASSWORD@HOST/") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".netrc"), []byte("machine 127.0.0.1 login me password secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = Open(context.Background(), s.URL+"/m.gguf?token=secret", o)
	if !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "passwords of ~/.netrc are sent only over https") {
		t.Error(err)
	}
	mustRead(t, o, strings.Replace(s.URL, "http://", "http://me:secret@", 1)+"/m.gguf?token=secret&key=secret", pattern(10))
	testremote.NoSecrets(t, m.Dir, []string{"secret"}, nil)
}

// What a server may answer instead of a file: each is one line without secrets.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		"not found":  {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) }, "the server answers 404 Not Found; check the address"},
		"forbidden":  {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }, "the server answers 403 Forbidden; check the permission"},
		"teapot":     {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(418) }, "the server answers 418"},
		"no content": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, "the server answers 204"},
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("x"))
		}, "the server sends it compressed"},
		"no length":    {parts("bytes 0-9/*", 10), "the server does not say how long it is"},
		"no range":     {parts("", 10), "the server sends another part of it than was asked for"},
		"another part": {parts("bytes 10-19/100", 10), "the server sends another part of it than was asked for"},
		"other length": {parts("bytes 0-19/100", 10), "the server sends another part of it than was asked for"},
		"too large":    {parts("bytes 0-9/99999999999999999", 10), "the server sends another part of it than was asked for"},
		"huge":         {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "99999999999999999") }, "by the server's answer it has 99999999999999999 bytes"},
		"unending":     {unending, "the server sends only whole files, and does not say how long they are"},
		"loop": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again?sig=secret", http.StatusFound)
		}, "it was redirected 10 times"},
		"to nowhere": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "file:///secret")
			w.WriteHeader(302)
		}, "it redirects to an address that is not of the web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testweb.New(t)
			s.Put("/m.gguf", bytes.NewReader(nil))
			s.Put("/again", bytes.NewReader(nil))
			s.Break(func(_ int, w http.ResponseWriter, r *http.Request) bool { x.answer(w, r); return true })
			_, _, err := Open(context.Background(), s.URL+"/m.gguf?sig=secret", newOptions(t))
			if err == nil || !strings.Contains(err.Error(), "?...: "+x.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, x.want)
			}
		})
	}
}

func parts(contentRange string, n int) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if contentRange != "" {
			w.Header().Set("Content-Range", contentRange)
		}
		w.Header().Set("Content-Length", fmt.Sprint(n))
		w.WriteHeader(http.StatusPartialContent)
		w.Write(make([]byte, n))
	}
}

func unending(w http.ResponseWriter, r *http.Request) {
	b := make([]byte, mib)
	for {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}
