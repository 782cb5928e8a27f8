package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
)

// The tokens of these tests.
const (
	tokenA = "hf_SECRETAAAAAAAAAAAAAAAA"
	tokenB = "hf_SECRETBBBBBBBBBBBBBBBB"
)

// hubRig is a rig whose servers ask a Hub with a private model.
func hubRig(t *testing.T, flags ...string) (*rig, *testhub.Hub, attrs) {
	t.Helper()
	needMounts(t)
	h := testhub.NewHub(t)
	b, err := os.ReadFile(llama()["model"])
	must(t, err)
	commit := h.Commit("acme/tiny", map[string][]byte{"model.gguf": b})
	h.Private["acme/tiny"] = tokenA
	r := newRig(t, flags...)
	r.kill()
	// A disk that is nearly full has no room for a cache.
	must(t, unix.Mount("tmpfs", filepath.Join(r.dir, "cache"), "tmpfs", 0, "size=64m,mode=700"))
	r.env = []string{"HF_ENDPOINT=" + h.URL, "TENSORFS_OFFLINE=", "HF_HUB_OFFLINE=", "HTTP_PROXY=", "http_proxy=", "HF_TOKEN=" + tokenB}
	r.start()
	return r, h, attrs{"model": "hf:acme/tiny@" + commit}
}

// tokens are what the Hub was asked with since it was asked to forget.
func tokens(h *testhub.Hub) map[string]bool {
	all := map[string]bool{}
	for _, q := range h.Requests() {
		if !q.Data {
			all[strings.TrimPrefix(q.Authorization, "Bearer ")] = true
		}
	}
	return all
}

// Each secret has a server of its own, and is nowhere but in its memory.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r, h, model := hubRig(t)
	wantError(t, r.publish("none", model, nil), codes.Unauthenticated, "acme/tiny")
	if tokens(h)[tokenB] {
		t.Error("the driver's own token was used")
	}
	wantError(t, r.publish("wrong", model, attrs{"token": tokenB}), codes.Unauthenticated, "acme/tiny")
	r.mustUnpublish("none", "wrong")
	large := attrs{"token": tokenA, ".dockerconfigjson": fmt.Sprintf(`{"auths":{"%s":{}}}`, strings.Repeat("x", 200<<10))}
	r.mustPublish(model, attrs{"token": tokenA}, "a", "b")
	r.mustPublish(model, large, "c")
	if a, b, c := r.device("a"), r.device("b"), r.device("c"); a != b || a == c {
		t.Errorf("devices of a, b, c: %s, %s, %s; want the first two equal", a, b, c)
	}
	if got, want := r.digest("a", "gguf/model.gguf"), wanted(t, llama()["model"], "gguf/model.gguf"); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	r.nowhere(tokenA, tokenB, strings.Repeat("x", 100))
	h.Gated["acme/gated"] = true
	commit := h.Commit("acme/gated", map[string][]byte{"model.gguf": []byte("GGUF")})
	wantError(t, r.publish("gated", attrs{"model": "hf:acme/gated@" + commit}, attrs{"token": tokenA}), codes.Unauthenticated, "acme/gated")
	r.mustUnpublish("a", "b", "c", "gated")
	r.mustBeClean()
	r.nowhere(tokenA, strings.Repeat("x", 100))
}

// Servers do not use the node's identity in a cloud, unless the driver's own variables allow it.
// Credentials of the driver are never theirs.
func TestNoIdentity(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials")
	f := &fleet{dir: layout(t.TempDir())}
	last := func(name string) (value string) { // what os/exec takes
		for _, kv := range f.environ("k") {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				value = v
			}
		}
		return value
	}
	for name, want := range map[string]string{"AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "1", "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": ""} {
		t.Setenv(name, os.Getenv(name))
		if want != "" {
			must(t, os.Unsetenv(name))
		}
		if got := last(name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	if got := last("AWS_EC2_METADATA_DISABLED"); got != "false" {
		t.Errorf("the driver's variable is %s for servers", got)
	}
}

// nowhere fails where a secret can be read: command lines and environments of servers, the log, and files. Tests have the environment
// of the driver from themselves.
func (r *rig) nowhere(secrets ...string) {
	r.t.Helper()
	look := func(where string, b []byte) {
		for _, s := range secrets {
			if strings.Contains(string(b), s) {
				r.t.Errorf("%s has %q", where, s)
			}
		}
	}
	for _, key := range r.keys() {
		pid := r.server(key)
		if pid == 0 {
			r.t.Errorf("server %s does not answer", key)
		}
		for _, name := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			must(r.t, err)
			look(name, b)
		}
	}
	look("the log", []byte(r.log.String()))
	for _, dir := range []string{"volumes", "run", "cache"} {
		must(r.t, filepath.WalkDir(filepath.Join(r.dir, dir), func(path string, e os.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			look(path, b)
			return err
		}))
	}
}

// Kubelet publishes again with other secrets: the next request has them.
func TestRotation(t *testing.T) {
	t.Parallel()
	r, h, _ := hubRig(t)
	h.Expire(1)                        // an address of data is good for one request, and the next one is asked for with a token
	b, err := os.ReadFile(bigModel(t)) // not all of it comes when it is opened
	must(t, err)
	model := attrs{"model": "hf:acme/tiny@" + h.Commit("acme/tiny", map[string][]byte{"model.gguf": b})}
	r.mustPublish(model, attrs{"token": tokenA}, "a", "b")
	pids := map[string]int{}
	for _, key := range r.keys() {
		pids[key] = r.server(key)
	}
	r.mustPublish(model, attrs{"token": tokenB}, "a")
	if strings.Contains(r.log.String(), "took other secrets") {
		t.Error("the server was given secrets that not all of its pods have")
	}
	r.mustPublish(model, attrs{"token": tokenA}, "late") // its secret is another one now, though it began so
	if r.device("late") == r.device("a") {
		t.Error("a pod with the old secrets shares a server that gets new ones")
	}
	r.mustUnpublish("late")
	h.Private["acme/tiny"] = tokenB
	old := map[string]bool{} // addresses of data that are good no more: others are asked for with a token
	for _, q := range h.Requests() {
		if q.Data {
			old[q.Path] = true
		}
	}
	h.Break(func(w http.ResponseWriter, q *http.Request, data bool) bool {
		if data && old[q.URL.RequestURI()] {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	r.mustPublish(model, attrs{"token": tokenB}, "b")
	eventually(t, "the server takes other secrets", func() bool { return strings.Contains(r.log.String(), "took other secrets") })
	h.Reset()
	r.digest("a", "raw/t1.weight")
	if got := tokens(h); len(got) != 1 || !got[tokenB] {
		t.Errorf("it was asked with %v", got)
	}
	for key, pid := range pids {
		if got := r.server(key); got != pid {
			t.Errorf("server %s is process %d now; it was %d", key, got, pid)
		}
	}
	r.nowhere(tokenA, tokenB)

	// A driver that is new finds the server, and passes on what comes.
	r.kill()
	r.start()
	r.mustPublish(model, attrs{"token": tokenA}, "a", "b")
	eventually(t, "the server takes the next secrets", func() bool { return strings.Count(r.log.String(), "took other secrets") > 1 })
	r.mustUnpublish("a", "b")
	r.mustBeClean()
}

// A call that is over before the server is ready is made again, and finds it.
func TestSlowHub(t *testing.T) {
	t.Parallel()
	r, h, model := hubRig(t, "--linger=3s") // a server that mounts between two calls stays for the second
	open := make(chan struct{})
	h.Break(func(_ http.ResponseWriter, q *http.Request, _ bool) bool {
		select {
		case <-open:
		case <-q.Context().Done():
		}
		return false
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := r.node().NodePublishVolume(ctx, r.request("a", model, attrs{"token": tokenA}))
	wantError(t, err, codes.DeadlineExceeded)
	started := strings.Count(r.log.String(), "started a server")
	close(open)
	r.mustPublish(model, attrs{"token": tokenA}, "a")
	if n := strings.Count(r.log.String(), "started a server"); n != started {
		t.Errorf("%d servers were started, then %d", started, n)
	}
	r.digest("a", "gguf/model.gguf")
	h.Break(func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	commit := h.Commit("acme/other", map[string][]byte{"model.gguf": []byte("GGUF")})
	wantError(t, r.publish("busy", attrs{"model": "hf:acme/other@" + commit}, nil), codes.Unavailable, "acme/other")
	r.mustUnpublish("a", "busy")
	r.mustBeClean()
}

// A volume that has to be warm is published when all of it is in the node's cache.
func TestWarm(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"none", warmReady} {
		t.Run("after "+first, func(t *testing.T) {
			r, h, model := hubRig(t)
			r.mustPublish(with(model, "warm", first), attrs{"token": tokenA}, "first")
			r.mustPublish(with(model, "warm", warmReady, "path", "gguf"), attrs{"token": tokenA}, "a")
			h.Break(func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
				w.WriteHeader(http.StatusForbidden)
				return true
			})
			if got, want := r.digest("a", "model.gguf"), wanted(t, llama()["model"], "gguf/model.gguf"); got != want {
				t.Errorf("digest %s, want %s", got, want)
			}
			r.mustUnpublish("a", "first")
			r.mustBeClean()
		})
	}
	r, _, model := hubRig(t, "--cache-size=4K")
	wantError(t, r.publish("a", with(model, "warm", warmReady), attrs{"token": tokenA}), codes.ResourceExhausted, "--cache-size")
	r.mustUnpublish("a")
	r.mustBeClean()
}
