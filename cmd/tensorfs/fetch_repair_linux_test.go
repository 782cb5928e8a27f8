package main

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// damage changes a byte of a file, as a disk does.
func damage(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// TestFetchRepair breaks files of the Hugging Face cache: verify names them, and fetch --repair fetches these and no others.
func TestFetchRepair(t *testing.T) {
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	b, err := os.ReadFile(q8)
	must(t, err)
	files := map[string][]byte{"tiny.gguf": b, "README.md": []byte("# tiny"), "other.txt": bytes.Repeat([]byte("a line\n"), 100_000)}
	first := h.Commit("acme/tiny", files)
	snapshot := filepath.Join(os.Getenv("HOME"), ".cache/huggingface/hub/models--acme--tiny/snapshots", first)
	for name, c := range map[string]struct {
		commit bool // another one is the newest by now
		linked bool // the file of tensorfs's own cache is the one that is broken
	}{"a copy": {}, "a file of tensorfs's cache": {linked: true}, "an older commit": {commit: true}} {
		t.Run(name, func(t *testing.T) {
			succeeds(t, "fetch", "hf:acme/tiny")
			if !c.linked {
				succeeds(t, "cache", "prune", "--all")
			}
			if c.commit {
				h.Commit("acme/tiny", map[string][]byte{"tiny.gguf": append([]byte(nil), b...), "README.md": []byte("# another")})
			}
			if out := succeeds(t, "fetch", "--repair", "hf:acme/tiny"); !strings.HasPrefix(out, "hf:acme/tiny: 3 digests compared, none is broken\n") {
				t.Error(out)
			}
			broken := filepath.Join(snapshot, "tiny.gguf")
			damage(t, broken, int64(len(b))-9)
			open, err := os.Open(broken)
			must(t, err)
			defer open.Close()
			failsWith(t, 1, []string{"verify", "hf:acme/tiny"}, "tensorfs fetch --repair hf:acme/tiny")
			h.Reset()
			var r fetchReport
			must(t, json.Unmarshal([]byte(succeeds(t, "fetch", "--repair", "--json", "hf:acme/tiny")), &r))
			if len(r.Repaired) != 1 || r.Repaired[0] != "tiny.gguf" {
				t.Errorf("%+v", r)
			}
			if sent := h.Sent(); sent > int64(len(b))+100_000 {
				t.Errorf("%d bytes were sent for a file of %d", sent, len(b))
			}
			for name, want := range files {
				if got, err := os.ReadFile(filepath.Join(snapshot, name)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, %v", name, len(got), err)
				}
			}
			succeeds(t, "verify", "hf:acme/tiny")
			left, err := filepath.Glob(filepath.Join(snapshot, "../../blobs/*.incomplete"))
			if err != nil || left != nil {
				t.Errorf("left over: %q, %v", left, err)
			}
		})
	}
	failsWith(t, 1, []string{"fetch", "--repair", "--offline", "hf:acme/tiny"}, "--offline forbids it")
	failsWith(t, 2, []string{"fetch", "--repair", q8}, "--repair takes a name, such as hf:ORG/NAME")
}

// TestFetchRepairOllama breaks a blob of Ollama's store, which ollama pull would keep.
func TestFetchRepairOllama(t *testing.T) {
	apart(t)
	r := testhub.NewRegistry(t)
	b, err := os.ReadFile(q8)
	must(t, err)
	config := []byte(`{"model_format":"gguf","model_family":"llama"}`)
	layer := func(kind string, b []byte) string {
		return fmt.Sprintf(`{"mediaType":"application/vnd.%s","digest":"sha256:%x","size":%d}`, kind, sha256.Sum256(b), len(b))
	}
	manifest := []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":%s,"layers":[%s]}`,
		layer("docker.container.image.v1+json", config), layer("ollama.image.model", b)))
	r.Push("lib/tiny/latest", manifest, config, b)
	store := os.Getenv("OLLAMA_MODELS")
	blob := func(b []byte) string { return fmt.Sprintf("blobs/sha256-%x", sha256.Sum256(b)) }
	must(t, testmodel.Write(store, map[string][]byte{"manifests/" + r.Host() + "/lib/tiny/latest": manifest, blob(config): config, blob(b): b}))
	name := "ollama:" + r.Host() + "/lib/tiny"
	succeeds(t, "verify", name)
	for _, at := range []int64{0, int64(len(b)) - 9} { // with the first one it does not open
		damage(t, filepath.Join(store, blob(b)), at)
		if out := succeeds(t, "fetch", "--repair", name); !strings.Contains(out, ": 2 digests compared, 1 broken, and fetched again (") {
			t.Error(out)
		}
		succeeds(t, "verify", name)
		if got, err := os.ReadFile(filepath.Join(store, blob(b))); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// TestFetchRepairCache breaks a cell of tensorfs's own cache, and holds that only this cell is fetched.
func TestFetchRepairCache(t *testing.T) {
	dir := apart(t)
	b, _, _ := twoModels(t, 3, 3<<10)
	h, _ := hubOf(t, b)
	succeeds(t, "fetch", "hf:acme/m:m.gguf")
	var data string
	must(t, filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		if err == nil && st.Size() == int64(len(b)) {
			data = path
		}
		return err
	}))
	damage(t, data, 5<<20)
	h.Reset()
	succeeds(t, "fetch", "--repair", "hf:acme/m:m.gguf")
	if sent := h.Sent(); sent < cache.CellSize || sent > 3*cache.CellSize {
		t.Errorf("%d bytes were sent for a broken cell of a file of %d", sent, len(b))
	}
	if got := succeeds(t, "cat", "--offline", "hf:acme/m:m.gguf", "source/m.gguf"); got != string(b) {
		t.Error("the bytes differ")
	}
}

// TestFetchRepairDirectory breaks a file of a directory of hf download --local-dir, changes another by hand, and holds
// that the broken one is fetched again and verify still knows its digest.
func TestFetchRepairDirectory(t *testing.T) {
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	b, err := os.ReadFile(q8)
	must(t, err)
	files := map[string][]byte{"tiny.gguf": b, "notes/a.txt": []byte("a"), "README.md": []byte("# tiny")}
	first := h.Commit("acme/tiny", files)
	h.Commit("acme/tiny", map[string][]byte{"tiny.gguf": b[:99]})
	dir := filepath.Join(t.TempDir(), "tiny")
	must(t, testmodel.Write(dir, files))
	failsWith(t, 1, []string{"fetch", "--repair", "hf:acme/tiny", dir}, "it has no file of hf:acme/tiny whose download")
	long := time.Now().Add(-time.Hour)
	records := map[string][]byte{}
	for name, b := range files {
		must(t, os.Chtimes(filepath.Join(dir, name), long, long))
		sum := fmt.Sprintf("%x", sha256.Sum256(b))
		if name != "tiny.gguf" {
			sum = fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...)))
		}
		records[".cache/huggingface/download/"+name+".metadata"] = fmt.Appendf(nil, "%s\n%s\n%d.5\n", first, sum, long.Unix())
	}
	must(t, testmodel.Write(dir, records))
	if out := succeeds(t, "fetch", "--repair", "hf:acme/tiny", dir); out != "hf:acme/tiny: 3 digests compared, none is broken\n" {
		t.Error(out)
	}
	damage(t, filepath.Join(dir, "tiny.gguf"), int64(len(b))-9)
	must(t, os.Chtimes(filepath.Join(dir, "tiny.gguf"), long, long)) // as a disk does
	must(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("# mine"), 0o644))
	failsWith(t, 1, []string{"verify", dir}, "tensorfs fetch --repair hf:ORG/NAME "+dir)
	if out := succeeds(t, "fetch", "--repair", "hf:acme/tiny", dir); !strings.HasPrefix(out, "hf:acme/tiny: 2 digests compared, 1 broken, and fetched again (87.2 KiB): tiny.gguf\n") {
		t.Error(out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "tiny.gguf")); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil || string(got) != "# mine" {
		t.Errorf("%q, %v", got, err)
	}
	if out := succeeds(t, "verify", dir); !strings.Contains(out, "1 digest read") {
		t.Error(out)
	}
	failsWith(t, 2, []string{"fetch", "hf:acme/tiny", dir}, "a directory follows the model only with --repair")
	failsWith(t, 2, []string{"fetch", "--repair", dir}, "for a directory of hf download --local-dir its name and the directory")
	failsWith(t, 2, []string{"fetch", "--repair", "ollama:tiny", dir}, "tensorfs fetch --repair hf:ORG/NAME "+dir)
}

// TestFetchRepairLibrary repairs all models of the Hugging Face cache: one is broken, one is sound, and one is not on the
// server.
func TestFetchRepairLibrary(t *testing.T) {
	apart(t)
	h := testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	b, err := os.ReadFile(q8)
	must(t, err)
	other, err := os.ReadFile(ggufDir + "kv.gguf")
	must(t, err)
	first := h.Commit("acme/broken", map[string][]byte{"tiny.gguf": b})
	h.Commit("acme/sound", map[string][]byte{"kv.gguf": other})
	succeeds(t, "fetch", "hf:acme/broken")
	succeeds(t, "fetch", "hf:acme/sound")
	succeeds(t, "cache", "prune", "--all")
	hub := filepath.Join(os.Getenv("HOME"), ".cache/huggingface/hub")
	damage(t, filepath.Join(hub, "models--acme--broken/snapshots", first, "tiny.gguf"), 0) // it does not open
	if out := succeeds(t, "fetch", "--repair", "hf:"); !strings.HasPrefix(out, "hf:acme/broken: 1 digest compared, 1 broken, and fetched again (") ||
		!strings.HasSuffix(out, "\nhf:acme/sound: 1 digest compared, none is broken\n2 models: 1 repaired, 1 sound, 0 not repaired\n") {
		t.Error(out)
	}
	succeeds(t, "verify", "hf:")
	const snapshot = "models--acme--gone/snapshots/0123456789012345678901234567890123456789/"
	must(t, testmodel.Write(hub, map[string][]byte{snapshot + "m.gguf": b, "models--acme--gone/refs/main": []byte("0123456789012345678901234567890123456789")}))
	code, out, stderr := command("fetch", "--repair", "hf:")
	if code != 1 || stderr != "" || !strings.Contains(out, "hf:acme/gone: not repaired: ") || !strings.HasSuffix(out, "\n3 models: 0 repaired, 2 sound, 1 not repaired\n") {
		t.Errorf("%d\n%s%s", code, out, stderr)
	}
	var all []repairReport
	code, out, _ = command("fetch", "--repair", "--json", "hf:")
	must(t, json.Unmarshal([]byte(out), &all))
	if code != 1 || len(all) != 3 || all[0].Model != "hf:acme/broken" || all[1].Error == "" {
		t.Errorf("%d, %+v", code, all)
	}
	failsWith(t, 2, []string{"fetch", "--repair", "lmstudio:"}, "--repair takes hf: or ollama: instead")
}
