package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testweb"
)

// Rows 8, 9 and 10: whatever breaks off or is not what was asked for is asked for
// again, and no byte is wrong.
func TestRemoteFaults(t *testing.T) {
	const size = 6 << 20
	file := newMadeFile(2, size)
	part := func(w http.ResponseWriter, r *http.Request) []byte {
		first, last := testweb.Part(w, r, file.size)
		b := make([]byte, last-first+1)
		_, _ = file.ReadAt(b, first)
		return b
	}
	var mu sync.Mutex
	told := map[string]time.Time{} // by what was asked for
	for name, fault := range map[string]func(i int, w http.ResponseWriter, r *http.Request) bool{
		"reset": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%3 != 1 {
				return false
			}
			b := part(w, r)
			w.Write(b[:len(b)/2])
			panic(http.ErrAbortHandler)
		},
		"too short": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%2 == 0 {
				return false
			}
			first, last := testweb.Asked(r)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, min(last, file.size-1), file.size))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, 0))
			return true
		},
		"too long": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%2 == 0 {
				return false
			}
			first, last := testweb.Asked(r)
			last = min(last, file.size-1)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, file.size))
			w.Header().Set("Content-Length", fmt.Sprint(last-first+100))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, last-first+100))
			return true
		},
		"another start": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%2 == 0 {
				return false
			}
			first, last := testweb.Asked(r)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first-1, min(last, file.size-1)-1, file.size))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, last-first+1))
			return true
		},
		"unavailable": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i%3 == 2 {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		},
		"too many requests": func(i int, w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			at, again := told[r.Header.Get("Range")]
			if wait := time.Since(at); again && wait < time.Second { // a slow machine waits longer
				t.Errorf("asked again %v after it was told to wait 1 s", wait)
			}
			if i == 0 || again {
				return false
			}
			told[r.Header.Get("Range")] = time.Now()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			apart(t)
			s := testweb.New(t)
			s.Break(fault)
			s.Put("/m.safetensors", file)
			for i := range 2 {
				if got := succeeds(t, "cat", s.URL+"/m.safetensors", fmt.Sprintf("raw/t%d", i)); got != string(file.tensor(i, size, 0, size)) {
					t.Errorf("t%d differs", i)
				}
			}
			if name == "reset" && resumed(s.Requests()) == 0 {
				t.Errorf("nothing was resumed: %v", s.Requests())
			}
		})
	}
}

// resumed counts the requests for the rest of what was asked for before.
func resumed(asked []testweb.Request) (n int) {
	starts := map[string]int64{} // by the end
	for _, r := range asked {
		var first, last int64
		fmt.Sscanf(r.Range, "bytes=%d-%d", &first, &last)
		end := fmt.Sprint(last)
		if before, ok := starts[end]; ok && first > before {
			n++
		}
		starts[end] = first
	}
	return n
}

// Rows 9, 11 and 12: what never comes right, or not in time, is an error of one line
// once the deadline has come, and nothing wrong is read.
func TestRemoteDeadline(t *testing.T) {
	file := newMadeFile(1, 3<<20)
	const limit = "300ms"
	run := func(t *testing.T, args []string, want string) {
		t.Helper()
		var code int
		var out, stderr string
		testlimit.Return("tensorfs "+args[0], func() { code, out, stderr = command(append(args, "--timeout", limit)...) })
		if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) || strings.Contains(stderr, "context") ||
			args[0] == "cat" && !strings.HasPrefix(string(file.tensor(0, 3<<20, 0, 3<<20)), out) {
			t.Errorf("%s: exit code %d, %d bytes, %q, want %q", args[0], code, len(out), stderr, want)
		}
	}
	for name, fault := range map[string]func(i int, w http.ResponseWriter, r *http.Request) bool{
		"another start": func(i int, w http.ResponseWriter, r *http.Request) bool {
			if i == 0 {
				return false
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-9/%d", file.size))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, 10))
			return true
		},
		"broken":         func(_ int, w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(500); return true },
		"silent":         func(_ int, w http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true },
		"breaking off":   func(int, http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
		"silent later":   func(i int, w http.ResponseWriter, r *http.Request) bool { return i > 0 && silentAfter(w, r, file) },
		"silent midway":  func(_ int, w http.ResponseWriter, r *http.Request) bool { return silentAfter(w, r, file) },
		"drop by drop":   func(_ int, w http.ResponseWriter, r *http.Request) bool { return dripping(w, r, file) },
		"dripping later": func(i int, w http.ResponseWriter, r *http.Request) bool { return i > 0 && dripping(w, r, file) },
	} {
		t.Run(name, func(t *testing.T) {
			apart(t)
			s := testweb.New(t)
			s.Break(fault)
			s.Put("/m.safetensors", file)
			address := s.URL + "/m.safetensors"
			run(t, []string{"cat", address, "raw/t0"}, address)
			run(t, []string{"fetch", address}, address)
			if !strings.HasSuffix(name, "later") && name != "another start" {
				run(t, []string{"info", address}, address)
				run(t, []string{"ls", address}, address)
			}
		})
	}
	// What names models may be silent too.
	for name, fault := range map[string]func(w http.ResponseWriter, r *http.Request, _ bool) bool{
		"silent":       func(w http.ResponseWriter, r *http.Request, _ bool) bool { <-r.Context().Done(); return true },
		"drop by drop": func(w http.ResponseWriter, r *http.Request, _ bool) bool { return drip(w, r) },
	} {
		t.Run(name+" names", func(t *testing.T) {
			apart(t)
			h, r := testhub.NewHub(t), testhub.NewRegistry(t)
			h.Break(fault)
			r.Break(fault)
			t.Setenv("HF_ENDPOINT", h.URL)
			t.Setenv("AWS_ENDPOINT_URL", h.URL)
			t.Setenv("AWS_NO_SIGN_REQUEST", "1")
			t.Setenv("STORAGE_EMULATOR_HOST", h.URL)
			t.Setenv("AZURE_STORAGE_BLOB_ENDPOINT", h.URL)
			t.Setenv("MODELSCOPE_ENDPOINT", h.URL)
			for _, model := range []string{"hf:acme/tiny", "ms:acme/tiny", "ollama:" + r.Host() + "/library/tiny", "oci://" + r.Host() + "/library/tiny", "s3://models/dir/", "gs://models/dir/", "az://models/dir/"} {
				run(t, []string{"info", model}, "did not answer: it took too long")
			}
		})
	}
}

// dripping sends a part of a file, one byte at a time, until the connection is closed.
func dripping(w http.ResponseWriter, r *http.Request, file madeFile) bool {
	testweb.Part(w, r, file.size)
	return drip(w, r)
}

// drip does so of an answer that has begun.
func drip(w http.ResponseWriter, r *http.Request) bool {
	next := time.NewTicker(5 * time.Millisecond)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			if _, err := w.Write([]byte{' '}); err != nil { // such as an answer to HEAD
				return true
			}
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return true
		}
	}
}

func silentAfter(w http.ResponseWriter, r *http.Request, file madeFile) bool {
	testweb.Part(w, r, file.size)
	w.Write(make([]byte, 0))
	w.(http.Flusher).Flush()
	<-r.Context().Done()
	return true
}
