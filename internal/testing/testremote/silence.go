package testremote

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// Silence is a name whose server can be made to answer nothing.
type Silence struct {
	Name    string         // for people
	Options remote.Options // the client and the store aside
	Open    func(o remote.Options) (l *remote.Listing, file string, err error)
	// Fault makes the server ask answer first, which reports whether it answered.
	Fault func(answer func(w http.ResponseWriter, r *http.Request) bool)
	Want  []byte // the file
}

// open opens the file with a client and a store.
func (s Silence) open(client *web.Client, store *cache.Store) (*remote.Listing, string, error) {
	s.Options.Client, s.Options.Store = client, store
	return s.Open(s.Options)
}

// answers makes the server answer all requests so; nil as ever.
func (s Silence) answers(answer http.HandlerFunc) {
	s.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if answer != nil {
			answer(w, r)
		}
		return answer != nil
	})
}

// Test checks that what was opened once is opened again if the server does not answer, with
// a note; that a refusal is an error; and that missing bytes are requested in vain only
// once.
func (s Silence) Test(t *testing.T) {
	t.Helper()
	client := Client(t, time.Minute)
	known, _ := Cache(t)
	open := func(store *cache.Store, read, silent bool) {
		t.Helper()
		l, file, err := s.open(client, store)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if said := strings.Contains(l.Note, "did not answer"); said != silent || silent && !strings.Contains(l.Note, s.Name) || strings.Contains(l.Note, "\n") {
			t.Errorf("it notes %q", l.Note)
		}
		if !read {
			return
		}
		if got, err := Read(l, file); err != nil || !bytes.Equal(got, s.Want) {
			t.Errorf("%d bytes of %d, %v", len(got), len(s.Want), err)
		}
	}
	open(known, true, false)
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, answer := range map[string]http.HandlerFunc{"hangs up": hangUp, "503": status(503), "429": status(429)} {
		t.Run(name, func(t *testing.T) {
			s.answers(answer)
			open(known, true, true)
		})
	}
	for name, kind := range map[int]error{401: fs.ErrPermission, 403: fs.ErrPermission, 404: fs.ErrNotExist} {
		t.Run(http.StatusText(name), func(t *testing.T) {
			s.answers(status(name))
			if _, _, err := s.open(client, known); !errors.Is(err, kind) || web.Unanswered(err) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("not here", func(t *testing.T) {
		s.answers(nil)
		headers, _ := Cache(t)
		open(headers, false, false)
		var asked atomic.Int64
		s.answers(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			hangUp(w, r)
		})
		l, file, err := s.open(client, headers)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		before := asked.Load()
		_, err = Read(l, file)
		if err == nil || !strings.Contains(err.Error(), "did not answer") || !strings.Contains(err.Error(), "not all of it is in the cache") || asked.Load() > before {
			t.Errorf("%v, after %d requests more", err, asked.Load()-before)
		}
	})
	t.Run("never asked", func(t *testing.T) {
		s.answers(hangUp)
		empty, _ := Cache(t)
		_, _, err := s.open(Client(t, 2*time.Second), empty)
		if !web.Unanswered(err) || !strings.HasPrefix(err.Error(), s.Name+": ") || !strings.Contains(err.Error(), "did not answer: ") || strings.Count(err.Error(), "http://") > strings.Count(s.Name, "http://") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
	})
	s.answers(nil)
	open(known, true, false)
}
