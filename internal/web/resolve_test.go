package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
)

// resolvedFile is a file of s, which the server at home redirects to.
func resolvedFile(t *testing.T, c *Client, home string, size int64) *File {
	t.Helper()
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := store.Entry(cache.ID{Key: "test", Size: size})
	if err != nil {
		t.Fatal(err)
	}
	f := c.File(&Resolved{Client: c,
		Ask: func(ctx context.Context) (*http.Request, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, home, nil)
			if err == nil {
				req.Header.Set("Authorization", "Bearer secret")
			}
			return req, err
		},
		Check: func(resp *http.Response, body []byte) error {
			if resp.StatusCode >= 400 {
				return Status("file", resp, string(body))
			}
			return nil
		},
	}, entry, "test", "file", "file")
	t.Cleanup(func() { f.Close(); store.Close() })
	return f
}

// A file is resolved once by any number of readers, and again when its address
// ended; no credentials go there, nor to an address inside from a public one.
func TestResolved(t *testing.T) {
	data := newServer(t, 40*mib)
	data.setFault(func(i int, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			t.Error("the credentials went to the data")
		}
		ended := i > 2 && r.URL.RawQuery == "sig=x"
		if ended {
			w.WriteHeader(http.StatusForbidden)
		}
		return ended
	})
	var mu sync.Mutex
	asked := 0
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked++
		sig := strings.Repeat("x", asked)
		mu.Unlock()
		if r.Header.Get("Authorization") == "" {
			t.Error("it got no credentials")
		}
		http.Redirect(w, r, data.URL+"/?sig="+sig, http.StatusFound)
	}))
	defer home.Close()
	c := NewClient(Options{Public: inside})
	defer c.Close()
	f := resolvedFile(t, c, home.URL, data.size)
	var wg sync.WaitGroup
	for reader := range int64(10) {
		wg.Go(func() { readRight(t, f.Section(0, data.size), 0, reader*4*mib, mib) })
	}
	wg.Wait()
	if asked != 2 {
		t.Errorf("it was resolved %d times", asked)
	}
}

// A public server that resolves to an address of this machine is not followed there,
// by no range.
func TestResolvedInside(t *testing.T) {
	data := newServer(t, mib)
	to := strings.Replace(data.URL, "127.0.0.1", "127.0.0.2", 1)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to, http.StatusFound)
	}))
	defer home.Close()
	c := NewClient(Options{Public: func(a netip.Addr) bool { return a.String() == "127.0.0.1" }})
	defer c.Close()
	f := resolvedFile(t, c, home.URL, data.size)
	if _, err := f.ReadAt(make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), "not public: 127.0.0.2") {
		t.Errorf("%v", err)
	}
	if r := data.requests(); len(r) > 0 {
		t.Errorf("it was asked: %q", r)
	}
}

// If a server does not redirect, its first answer is used, with or without ranges, also if it
// breaks off; an error is Check's error.
func TestResolvedHere(t *testing.T) {
	s := newServer(t, mib)
	c := NewClient(Options{Public: inside})
	defer c.Close()
	f := resolvedFile(t, c, s.URL, s.size)
	readRight(t, f, 0, 0, mib)
	if asks := s.requests(); len(asks) != 1 || asks[0] != fmt.Sprintf("bytes=0-%d", mib-1) {
		t.Errorf("it was asked for %q", asks)
	}
	for name, serve := range map[string]func(w http.ResponseWriter, tries int32, content []byte){
		"whole": func(w http.ResponseWriter, _ int32, content []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.Write(content)
		},
		"broken": func(w http.ResponseWriter, tries int32, content []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			if tries == 1 {
				content = content[:len(content)/2]
			}
			w.Write(content)
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := make([]byte, mib)
			fill(content, 0)
			var tries atomic.Int32
			one := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, tries.Add(1), content) }))
			defer one.Close()
			f := resolvedFile(t, c, one.URL, mib)
			readRight(t, f, 0, 0, mib)
			if want := map[string]int32{"whole": 1, "broken": 2}[name]; tries.Load() != want {
				t.Errorf("it was asked %d times", tries.Load())
			}
		})
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "because", http.StatusForbidden)
	}))
	defer refusing.Close()
	f = resolvedFile(t, c, refusing.URL, mib)
	if _, err := f.ReadAt(make([]byte, 10), 0); err == nil || !bytes.Contains([]byte(err.Error()), []byte("403 Forbidden; because")) {
		t.Errorf("%v", err)
	}
}

func TestOffline(t *testing.T) {
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	entry, err := store.Entry(cache.ID{Key: "test", Size: mib})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(Options{})
	f := c.File(Offline("--offline"), entry, "test", "hf:o/n/file", "file")
	defer f.Close()
	if _, err := f.ReadAt(make([]byte, 1), 0); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "hf:o/n/file: not on this machine, and --offline forbids asking for it") {
		t.Errorf("%v", err)
	}
}
