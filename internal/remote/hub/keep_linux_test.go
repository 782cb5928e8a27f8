package hub

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"golang.org/x/sys/unix"
)

// keptFiles are the files of a repository: large ones, known by their SHA-256, small ones,
// known by git's id of them, two of the same content, an empty one.
var keptFiles = map[string][]byte{
	"config.json": []byte(`{"model_type":"llama"}`), "README.md": []byte("# tiny\n"), "copy/README.md": []byte("# tiny\n"),
	"model.safetensors": pattern(3<<20+77, 1), "onnx/model.onnx": pattern(200_000, 2), "empty.txt": nil,
}

// checkSnapshot holds a snapshot to what huggingface_hub makes.
func checkSnapshot(t *testing.T, cache, repository, commit string, files map[string][]byte) {
	t.Helper()
	dir := filepath.Join(cache, "models--"+strings.ReplaceAll(repository, "/", "--"))
	for name, want := range files {
		path := filepath.Join(dir, "snapshots", commit, name)
		to, err := os.Readlink(path)
		if up := strings.Repeat("../", strings.Count(name, "/")+2) + "blobs/"; err != nil || !strings.HasPrefix(to, up) || strings.Contains(to[len(up):], "/") {
			t.Errorf("%s leads to %q, %v", name, to, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != string(want) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o600 != 0o600 {
			t.Error(name, st.Mode(), err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "refs/main")); err != nil || string(b) != commit {
		t.Errorf("main is %q, %v", b, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*/*.incomplete")); len(left) > 0 {
		t.Error("left over:", left)
	}
}

// filesBelow returns the names of all files below a directory.
func filesBelow(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			list = append(list, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Keep lays out a commit as huggingface_hub does, without asking for a byte that the cache
// has, and once more without changing anything.
func TestKeep(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	commit := h.Commit("acme/tiny", keptFiles)
	m := newMachine(t, h)
	l := m.mustOpen(t, "acme/tiny", "")
	if _, err := readParts(l, "model.safetensors"); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "hub")
	for range 2 {
		if err := Keep(t.Context(), dir, "acme/tiny", "", l); err != nil {
			t.Fatal(err)
		}
		checkSnapshot(t, dir, "acme/tiny", commit, keptFiles)
	}
	if size, most := h.Sent(), int64(len(keptFiles["model.safetensors"])+len(keptFiles["onnx/model.onnx"]))+16<<10; size > most {
		t.Errorf("%d bytes were sent", size)
	}
	if blobs, err := os.ReadDir(filepath.Join(dir, "models--acme--tiny/blobs")); err != nil || len(blobs) != len(keptFiles)-1 {
		t.Error(blobs, err)
	}
	// Another commit, by another branch: what is equal is not asked for.
	more := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": keptFiles["model.safetensors"]}
	next := h.Commit("acme/tiny", more, "refs/pr/7")
	m = newMachine(t, h) // which has nothing in a cache of ours
	m.o.HubCache = dir
	before := h.Sent()
	if err := Keep(t.Context(), dir, "acme/tiny", "refs/pr/7", m.mustOpen(t, "acme/tiny", "refs/pr/7")); err != nil {
		t.Fatal(err)
	}
	if sent := h.Sent() - before; sent > 16<<10 {
		t.Errorf("%d bytes were sent for what is there", sent)
	}
	checkSnapshot(t, dir, "acme/tiny", commit, keptFiles)
	if b, err := os.ReadFile(filepath.Join(dir, "models--acme--tiny/refs/refs/pr/7")); err != nil || string(b) != next {
		t.Errorf("refs/pr/7 is %q, %v", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "models--acme--tiny/snapshots", next, "config.json")); err != nil || string(b) != "{}" {
		t.Errorf("%q, %v", b, err)
	}
	// A commit by its own name is no ref.
	if err := Keep(t.Context(), dir, "acme/tiny", next, m.mustOpen(t, "acme/tiny", next)); err != nil {
		t.Fatal(err)
	}
	if names := filesBelow(t, filepath.Join(dir, "models--acme--tiny/refs")); !slices.Equal(names, []string{"main", "refs/pr/7"}) {
		t.Error(names)
	}
}

// Nothing gets the name of a blob that is not its content, and no ref is written before all
// is there. A blob that is there stays.
func TestKeepWrong(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	commit := h.Commit("acme/tiny", keptFiles)
	h.Break(func(w http.ResponseWriter, r *http.Request, data bool) bool {
		if !data {
			return false
		}
		wrong := slices.Clone(keptFiles["model.safetensors"])
		wrong[len(wrong)-1] ^= 1
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(wrong)))
		return true
	})
	dir := filepath.Join(t.TempDir(), "hub")
	m := newMachine(t, h)
	if err := Keep(t.Context(), dir, "acme/tiny", "", m.mustOpen(t, "acme/tiny", "")); !errors.Is(err, tensorfs.ErrChanged) {
		t.Error(err)
	}
	_, id, _ := strings.Cut(m.mustOpen(t, "acme/tiny", "").Items()[4].ID.Digest, ":")
	blob := filepath.Join(dir, "models--acme--tiny/blobs", id)
	if _, err := os.Lstat(blob); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the wrong bytes have the name:", err)
	}
	if names := filesBelow(t, filepath.Join(dir, "models--acme--tiny/refs")); len(names) > 0 {
		t.Error("a ref names what is not there:", names)
	}
	h.Break(nil)
	there := slices.Repeat([]byte{'x'}, len(keptFiles["model.safetensors"])) // made by another program, with the right size
	if err := os.WriteFile(blob, there, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Keep(t.Context(), dir, "acme/tiny", "", m.mustOpen(t, "acme/tiny", "")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(blob); err != nil || string(b) != string(there) {
		t.Error("a blob that was there was replaced:", err)
	}
	if err := os.WriteFile(blob, there[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Keep(t.Context(), dir, "acme/tiny", "", m.mustOpen(t, "acme/tiny", "")); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Error("a blob of another size:", err)
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := Keep(t.Context(), dir, "acme/tiny", "", newMachine(t, h).mustOpen(t, "acme/tiny", "")); err != nil {
		t.Fatal(err)
	}
	checkSnapshot(t, dir, "acme/tiny", commit, keptFiles)
}

// Every maker of a blob takes huggingface_hub's lock; many concurrent makers make one snapshot.
func TestKeepLocks(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	commit := h.Commit("acme/tiny", keptFiles)
	m := newMachine(t, h)
	l := m.mustOpen(t, "acme/tiny", "")
	dir := filepath.Join(t.TempDir(), "hub")
	_, id, _ := strings.Cut(l.Items()[4].ID.Digest, ":")
	lock := filepath.Join(dir, ".locks/models--acme--tiny", id+".lock")
	if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*lockPoll)
	defer cancel()
	if err := Keep(ctx, dir, "acme/tiny", "", l); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("it does not wait:", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "models--acme--tiny/blobs", id)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a blob without its lock:", err)
	}
	f.Close()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := Keep(t.Context(), dir, "acme/tiny", "main", l); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	checkSnapshot(t, dir, "acme/tiny", commit, keptFiles)
}

// On another file system the files are copied; without enough room, no incomplete file gets its
// name.
func TestKeepElsewhere(t *testing.T) {
	t.Parallel()
	h := testhub.NewHub(t)
	commit := h.Commit("acme/tiny", keptFiles)
	m := newMachine(t, h)
	l := m.mustOpen(t, "acme/tiny", "")
	for size, fits := range map[string]bool{"2m": false, "16m": true} {
		dir := t.TempDir()
		if err := unix.Mount("tensorfs-test", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
			t.Skipf("NOT TESTED: another file system, because no tmpfs can be mounted here: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		if err := os.Chmod(dir, 0o770); err != nil { // a cache of a group
			t.Fatal(err)
		}
		err := Keep(t.Context(), dir, "acme/tiny", "", l)
		if fits {
			if err != nil {
				t.Fatal(err)
			}
			checkSnapshot(t, dir, "acme/tiny", commit, keptFiles)
			if st, err := os.Stat(filepath.Join(dir, "models--acme--tiny/snapshots", commit, "config.json")); err != nil || st.Mode().Perm()&0o066 == 0 {
				t.Error("others cannot read it:", st.Mode(), err)
			}
			continue
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Error(err)
		}
		for _, name := range filesBelow(t, filepath.Join(dir, "models--acme--tiny")) {
			if strings.HasSuffix(name, ".incomplete") || strings.HasPrefix(name, "refs/") {
				t.Error("left over:", name)
			}
		}
	}
}
