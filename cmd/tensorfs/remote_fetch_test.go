package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
)

// fetch brings in all of a model, and compares it.
func TestFetch(t *testing.T) {
	dir := apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	h.Commit("acme/tiny", map[string][]byte{"tiny.gguf": b})
	if got, want := succeeds(t, "fetch", q8), q8+": all of it is on this machine\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a local model made a cache: %v", err)
	}
	if got, want := succeeds(t, "fetch", "hf:acme/tiny:tiny.gguf"), "1 file, "+cli.Size(int64(len(b)))+" in the cache "+dir+": "+cli.Size(int64(len(b)))+" fetched, 1 digest compared\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var r fetchReport
	if err := json.Unmarshal([]byte(succeeds(t, "fetch", "--json", "hf:acme/tiny:tiny.gguf")), &r); err != nil || r.Files != 1 || r.Bytes != int64(len(b)) || r.Fetched != 0 || r.Digests != 1 || r.Cache != dir {
		t.Errorf("%+v, %v", r, err)
	}
	h.Reset()
	if got := succeeds(t, "cat", "--offline", "hf:acme/tiny:tiny.gguf", "source/tiny.gguf"); got != string(b) || len(h.Requests()) > 0 {
		t.Errorf("%d bytes, requests %v", len(got), h.Requests())
	}
	failsWith(t, 1, []string{"fetch", "--cache-size", "0", "hf:acme/tiny"}, "there is no cache on a disk to fetch into")
	// Another digest.
	h.Break(func(w http.ResponseWriter, r *http.Request, data bool) bool {
		if !data {
			return false
		}
		wrong := bytes.Clone(b)
		wrong[len(wrong)-1] ^= 1
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wrong))
		return true
	})
	failsWith(t, 1, []string{"fetch", "--cache", filepath.Join(t.TempDir(), "other"), "hf:acme/tiny"}, "the bytes that came have the digest sha256:")
	failsWith(t, 1, []string{"verify", "--cache", filepath.Join(t.TempDir(), "other"), "hf:acme/tiny"}, "the bytes that came have the digest sha256:")
	h.Break(nil)
	if out := succeeds(t, "verify", "--remote", "hf:acme/tiny:tiny.gguf"); !strings.Contains(out, "1 digest read") {
		t.Error(out)
	}
	store, err := cache.Open(cache.Options{Dir: dir, OnDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if list, err := store.List(); err != nil || len(list) != 1 || !list[0].Whole {
		t.Errorf("%+v, %v", list, err)
	}
}

// fetch of all of a repository gives it to Hugging Face's own programs too, in their cache.
// Of a part of it, or of one with other weights beside the model, it does not.
func TestFetchHuggingFace(t *testing.T) {
	dir := apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	b, err := os.ReadFile(q8)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"tiny.gguf": b, "README.md": []byte("# tiny"), "docs/a.txt": []byte("a")}
	commit := h.Commit("acme/tiny", files)
	hub := filepath.Join(os.Getenv("HOME"), ".cache/huggingface/hub")
	if out := succeeds(t, "fetch", "hf:acme/tiny:tiny.gguf"); strings.Contains(out, "Hugging Face") {
		t.Error(out)
	}
	if _, err := os.Stat(hub); !os.IsNotExist(err) {
		t.Error("a part of a repository is there:", err)
	}
	h.Reset()
	if out := succeeds(t, "fetch", "hf:acme/tiny"); !strings.HasSuffix(out, ": 0 B fetched, 1 digest compared, also in the Hugging Face cache "+hub+"\n") {
		t.Errorf("%q", out)
	}
	if sent := h.Sent(); sent > int64(len(b))/2 {
		t.Errorf("%d bytes were sent of what the cache has", sent)
	}
	snapshot := filepath.Join(hub, "models--acme--tiny/snapshots", commit)
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(snapshot, name)); err != nil || string(got) != string(want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	succeeds(t, "cache", "prune", "--all") // it is not needed for what follows
	h.Reset()
	if out := succeeds(t, "info", "--offline", "hf:acme/tiny"); !strings.Contains(out, commit) {
		t.Error(out)
	}
	if got := succeeds(t, "cat", "hf:acme/tiny", "source/tiny.gguf"); got != string(b) || len(h.Requests()) > 0 {
		t.Errorf("%d bytes, %v", len(got), h.Requests())
	}
	if out := succeeds(t, "fetch", "hf:acme/tiny"); !strings.Contains(out, "all of it is on this machine, in "+snapshot) {
		t.Error(out)
	}
	h.Commit("acme/more", map[string][]byte{"tiny.gguf": b, "other.bin": make([]byte, 16<<20+1)})
	if out := succeeds(t, "fetch", "hf:acme/more"); strings.Contains(out, "Hugging Face") {
		t.Error(out)
	}
	// If the Hub's cache cannot be written, the model is only in tensorfs's cache.
	h.Commit("acme/closed", files)
	if err := os.WriteFile(filepath.Join(hub, ".locks/models--acme--closed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failsWith(t, 1, []string{"fetch", "hf:acme/closed"}, "the model is in tensorfs's cache, but not in the cache of Hugging Face's programs")
	if got := succeeds(t, "cat", "--offline", "--cache", dir, "hf:acme/closed", "source/tiny.gguf"); got != string(b) {
		t.Errorf("%d bytes", len(got))
	}
}
