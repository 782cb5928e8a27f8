package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A library's requests follow the rules of all others: its credentials stay, its
// answers are bounded, and what it posts is sent again after a server was busy.
func TestTransport(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(echo))
	defer other.Close()
	busy := 2
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/long":
			w.Write(make([]byte, 2000))
		case "/busy":
			if busy--; busy >= 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			io.Copy(w, r.Body)
		}
	}))
	defer home.Close()
	c := NewClient(Options{Public: inside})
	defer c.Close()
	library := &http.Client{Transport: c.Transport(1000)}
	post := func(path string) (string, error) {
		req, _ := http.NewRequest(http.MethodPost, home.URL+path, strings.NewReader(url.Values{"password": {"hunter2"}}.Encode()))
		req.Header.Set("Authorization", "Bearer secret")
		resp, err := library.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if got, err := post("/busy"); err != nil || got != "password=hunter2" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := post("/there"); err != nil || strings.Contains(got, "secret") || !strings.Contains(got, "Content-Length: 0\r\n") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := post("/long"); err == nil || !strings.Contains(err.Error(), "more than 1000 bytes") {
		t.Errorf("%v", err)
	}
}

// If redirects are the answer, they are not followed.
func TestWithoutRedirects(t *testing.T) {
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Region", "there")
		w.WriteHeader(http.StatusMovedPermanently) // and no Location
	}))
	defer home.Close()
	c := NewClient(Options{Public: inside})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, _, err := c.Do(ctx, 1000, func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, home.URL, nil)
		return WithoutRedirects(req), err
	})
	if err != nil || resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("X-Region") != "there" {
		t.Errorf("%v, %v", resp, err)
	}
}
