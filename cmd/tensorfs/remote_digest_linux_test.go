package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"golang.org/x/sys/unix"
)

// hubOf returns a Hub with a model hf:acme/m of a file whose digest it states, and a
// switch of what it sends instead of it.
func hubOf(t *testing.T, file []byte) (h *testhub.Hub, sends func(b []byte)) {
	h = testhub.NewHub(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	h.Commit("acme/m", map[string][]byte{"m.gguf": file})
	return h, func(b []byte) {
		h.Break(func(w http.ResponseWriter, r *http.Request, data bool) bool {
			if data {
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
			}
			return data
		})
	}
}

// Of a small file no wrong byte is given out, whatever asks for it.
func TestSmallVerifiedFirst(t *testing.T) {
	needFUSE(t)
	good, _, _ := twoModels(t, 2, 256)
	wrong := slices.Clone(good)
	wrong[len(wrong)-1] ^= 1
	const says = "m.gguf: the bytes that came have the digest sha256:"
	for _, flags := range [][]string{nil, {"--cache-size", "0"}} {
		apart(t)
		_, sends := hubOf(t, good)
		sends(wrong)
		with := func(args ...string) []string { return append(args, flags...) }
		for _, args := range [][]string{{"info"}, {"ls"}, {"cat", "raw/layers.0.ffn.up.weight"}, {"cat", "source/m.gguf"}, {"cat", "config.json"}, {"stat"}, {"verify"}} {
			code, out, stderr := command(with(append([]string{args[0], "hf:acme/m"}, args[1:]...)...)...)
			if code != 1 || out != "" || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s: exit code %d, %.8q, %q", args, code, out, stderr)
			}
		}
		dir := t.TempDir()
		failsWith(t, 1, with("export", "hf:acme/m", dir, "raw/*"), says)
		if list := exported(t, dir); len(list) > 0 {
			t.Errorf("exported %q", list)
		}
		failsWith(t, 1, with("mount", "hf:acme/m", t.TempDir()), says)
		sends(good)
		for range 2 {
			if got := succeeds(t, with("cat", "hf:acme/m", "source/m.gguf")...); got != string(good) {
				t.Error("the right bytes differ")
			}
			if got := succeeds(t, with("info", "hf:acme/m")...); strings.Contains(got, "not verified") {
				t.Error(got)
			}
		}
	}
	// What was right when it was mounted and is gone from the cache, and then is not
	// right when it is fetched again.
	dir := apart(t)
	_, sends := hubOf(t, good)
	mount := mountedFar(t, "hf:acme/m", "--cache-size", "0")
	sends(wrong)
	if got, err := os.ReadFile(filepath.Join(mount, "source/m.gguf")); err == nil && !bytes.Equal(got, good) {
		t.Error("wrong bytes are mounted")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A large file is verified before a command reports success, even with a small cache; unverified
// bytes are reported.
func TestVerifiedBeforeSuccess(t *testing.T) {
	good, _, _ := twoModels(t, 3, 3<<10)
	wrong := slices.Clone(good)
	wrong[len(wrong)-1] ^= 1
	const says = "the bytes that came have the digest "
	h, sends := hubOf(t, good)
	for _, test := range []struct {
		name  string
		args  []string
		wrong string // the message about the wrong bytes; "" if they cannot be noticed
		right string // at the end of what is printed of right ones
	}{
		{"a tensor", []string{"cat", "hf:acme/m", "raw/layers.2.ffn.up.weight"}, "", string(good[len(good)-8:])},
		{"the file", []string{"cat", "hf:acme/m", "source/m.gguf"}, says, string(good[len(good)-8:])},
		{"the file through a small cache", []string{"cat", "--cache-size", "2M", "hf:acme/m", "source/m.gguf"}, says, string(good[len(good)-8:])},
		{"the file without a cache", []string{"cat", "--cache-size", "0", "hf:acme/m", "source/m.gguf"}, says, string(good[len(good)-8:])},
		{"all of its tensors", []string{"stat", "hf:acme/m"}, says, "\n"},
		{"compare it", []string{"diff", "hf:acme/m", "hf:acme/m"}, says, ""},
		{"export a tensor", []string{"export", "hf:acme/m", "DIR", "raw/layers.2.ffn.up.weight"}, "", " MiB here)\n"},
		{"export all tensors", []string{"export", "hf:acme/m", "DIR", "raw"}, says, " MiB\n"},
		{"export the model", []string{"export", "hf:acme/m", "DIR", "gguf"}, says, " MiB\n"},
		{"export the file", []string{"export", "hf:acme/m", "DIR", "source"}, says, " MiB\n"},
		{"export the file through a small cache", []string{"export", "--cache-size", "2M", "hf:acme/m", "DIR", "source"}, says, " MiB\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			apart(t)
			t.Setenv("HF_ENDPOINT", h.URL)
			dir := t.TempDir()
			args := slices.Clone(test.args)
			if i := slices.Index(args, "DIR"); i > 0 {
				args[i] = dir
			}
			sends(wrong)
			switch {
			case test.wrong == "":
				succeeds(t, args...)
			case args[0] == "diff":
				failsWith(t, cli.ExitTrouble, args, test.wrong)
			default:
				failsWith(t, 1, args, test.wrong)
			}
			if info := succeeds(t, "info", "hf:acme/m"); !strings.Contains(info, "not verified (") || !strings.Contains(info, " of 18.0 MiB here)") {
				t.Error(info)
			}
			sends(good)
			t.Setenv("TENSORFS_CACHE", t.TempDir())
			again := args
			if args[0] == "export" && test.wrong != "" {
				if _, err := os.Lstat(filepath.Join(dir, "index.json")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("index.json says that it is complete: %v", err)
				}
				failsWith(t, 1, args, "--force") // it does not take them for complete
			}
			if args[0] == "export" { // also because the file is younger in another cache
				again = append([]string{"export", "--force"}, args[1:]...)
			}
			if got := succeeds(t, again...); !strings.HasSuffix(got, test.right) {
				t.Errorf("%.80q", got[max(0, len(got)-80):])
			}
		})
	}
	apart(t)
	t.Setenv("HF_ENDPOINT", h.URL)
	sends(good)
	var r exportReport
	if err := json.Unmarshal([]byte(succeeds(t, "export", "--json", "hf:acme/m", t.TempDir(), "raw/layers.0*")), &r); err != nil || r.Unverified == nil || r.Unverified.Files != 1 || r.Unverified.Here < 6<<20 || r.Unverified.Bytes != int64(len(good)) {
		t.Errorf("%+v, %v", r, err)
	}
	succeeds(t, "fetch", "hf:acme/m")
	if got := succeeds(t, "info", "hf:acme/m"); strings.Contains(got, "not verified") {
		t.Error(got)
	}
}

// A mismatch that is noticed while a model is mounted is in its log and its status, also after the
// last read.
func TestMismatchMounted(t *testing.T) {
	apart(t)
	good, _, _ := twoModels(t, 3, 3<<10)
	wrong := slices.Clone(good)
	wrong[len(wrong)-1] ^= 1
	_, sends := hubOf(t, good)
	sends(wrong)
	log := filepath.Join(t.TempDir(), "log")
	mount := mountedFar(t, "hf:acme/m", "--log", log)
	f, err := os.Open(filepath.Join(mount, "source/m.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(io.Discard, f); err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ESTALE) {
		t.Error(err)
	}
	testlimit.Wait(t, "mismatch in the log", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "have the digest "+digestOfBytes(wrong))
	})
	if st := statusOf(t, mount); st == nil || st.State != "changed" || st.Healthy {
		t.Errorf("status %+v", st)
	}
}

// fetch fails with a reason if the fetched bytes are not on the disk.
func TestFetchKept(t *testing.T) {
	apart(t)
	good, _, _ := twoModels(t, 3, 3<<10)
	hubOf(t, good)
	failsWith(t, 1, []string{"fetch", "--cache-size", "2M", "hf:acme/m:m.gguf"}, "hf:acme/m:m.gguf: only ", " of its 18.0 MiB are on the disk: the cache ", " may have 2.0 MiB; give it more with --cache-size")
	succeeds(t, "fetch", "hf:acme/m:m.gguf") // which stays in the cache of tensorfs
	disk := t.TempDir()
	if err := unix.Mount("tensorfs-test", disk, "tmpfs", 0, "mode=0700,size=12m"); err != nil {
		t.Skipf("NOT TESTED: a full disk, because no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(disk, "cache")
	failsWith(t, 1, []string{"fetch", "--cache", dir, "--cache-size", "1G", "hf:acme/m"}, " of its 18.0 MiB are on the disk: the disk of the cache "+dir+" is full; make room on it, or name a directory on another with --cache")
	failsWith(t, 1, []string{"fetch", "--cache", dir, "hf:acme/m"}, " of its 18.0 MiB are on the disk: the cache "+dir+" may have 1.2 MiB")
}
