package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmount"
	"golang.org/x/sys/unix"
)

// needFUSE skips, loudly, where nothing can be mounted.
func needFUSE(t *testing.T) {
	t.Helper()
	testmount.Need(t)
}

// mounted mounts a model for the time of the test.
func mounted(t *testing.T, model string, flags ...string) string {
	t.Helper()
	needFUSE(t)
	dir := t.TempDir()
	mountAt(t, dir, model, flags...)
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	return dir
}

func mountAt(t *testing.T, dir, model string, flags ...string) {
	t.Helper()
	code, out, stderr := command(append(append([]string{"mount"}, flags...), model, dir)...)
	if code != 0 || out != "" || stderr != "" {
		t.Fatalf("mount: exit code %d, %q, %q", code, out, stderr)
	}
}

// statusOf returns the status of a mount, nil without one.
func statusOf(t *testing.T, dir string) *mountStatus {
	t.Helper()
	_, out, _ := command("status", "--json")
	var list []mountStatus
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if list[i].Mountpoint == dir {
			return &list[i]
		}
	}
	return nil
}

// ended waits until a process is gone.
func ended(t *testing.T, pid int) {
	t.Helper()
	testlimit.Wait(t, fmt.Sprintf("end of process %d", pid), func() bool { return !alive(pid) })
}

// Every file of every model, read through a mount, is what the views compute
// without one; and the mount is an orderly file system.
func TestMountShowsTheTree(t *testing.T) {
	t.Parallel()
	for _, model := range allModels(t) {
		t.Run(filepath.Base(model), func(t *testing.T) {
			dir := mounted(t, model)
			tree, err := (&modelFlags{}).open(model)
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Model.Close()
			var files []string
			err = tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
				switch {
				case e.Link != "":
					if target, err := os.Readlink(filepath.Join(dir, path)); err != nil || target != e.Link {
						t.Errorf("%s links to %q, %v; want %q", path, target, err, e.Link)
					}
				case e.Data != nil:
					files = append(files, path)
					want := make([]byte, e.Data.Size())
					if err := tensorfs.ReadFull(e.Data, want, 0); err != nil {
						return err
					}
					got, err := os.ReadFile(filepath.Join(dir, path))
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %d bytes, %v; want %d bytes", path, len(got), err, len(want))
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if model == q8 { // one will do: TestFS reads byte by byte
				if err := fstest.TestFS(os.DirFS(dir), files...); err != nil {
					t.Error(err)
				}
			}
			if st := statusOf(t, dir); st == nil || !st.Healthy || st.PID == 0 {
				t.Errorf("status: %+v", st)
			}
		})
	}
}

// The extents of the index, read from source/, are the bytes of the file.
func TestExtentsStandInSource(t *testing.T) {
	dir := mounted(t, splitTwo)
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Views map[string]map[string]struct {
			Bytes   int64
			Extents []tensorfs.Extent
		}
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	n := 0
	for view, files := range index.Views {
		for name, f := range files {
			if f.Extents == nil {
				continue
			}
			n++
			var stood []byte
			for _, e := range f.Extents {
				source, err := os.Open(filepath.Join(dir, "source", e.File))
				if err != nil {
					t.Fatal(err)
				}
				b := make([]byte, e.Bytes)
				if _, err := source.ReadAt(b, e.Offset); err != nil {
					t.Error(err)
				}
				source.Close()
				stood = append(stood, b...)
			}
			got, err := os.ReadFile(filepath.Join(dir, view, name))
			if err != nil || !bytes.Equal(got, stood) || int64(len(got)) != f.Bytes {
				t.Errorf("%s/%s: its extents hold other bytes (%v)", view, name, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d files have extents", n)
	}
}

func TestAttributes(t *testing.T) {
	path := filepath.Join(mounted(t, q8), "raw/layers.0.attention.q.weight")
	for name, want := range map[string]string{"dtype": "Q8_0", "shape": "[64,64]", "source_name": "blk.0.attn_q.weight", "view": "raw", "extents": `[{"file":"llama-xs.q8_0.gguf","offset":`} {
		var b [512]byte
		n, err := unix.Getxattr(path, "user.tensorfs."+name, b[:])
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Errorf("%s is %q, %v; want %q", name, b[:max(n, 0)], err, want)
		}
	}
}

// TestStatusTable holds the table for people: a line for each mount, below
// names of its columns.
func TestStatusTable(t *testing.T) {
	dir := mounted(t, q8)
	pid := statusOf(t, dir).PID
	code, out, stderr := command("status")
	lines := strings.Split(out, "\n")
	if code != 0 || stderr != "" || strings.Join(strings.Fields(lines[0]), " ") != "PID HEALTH AGE MOUNTPOINT MODEL" {
		t.Fatalf("exit code %d, %q, %q", code, out, stderr)
	}
	for _, line := range lines {
		if f := strings.Fields(line); len(f) > 4 && f[0] == fmt.Sprint(pid) {
			if f[1] != "ok" || f[3] != dir || !strings.HasSuffix(f[4], filepath.Base(q8)) {
				t.Errorf("%q", line)
			}
			return
		}
	}
	t.Errorf("the mount is not there:\n%s", out)
}

// A mount is the model that is mounted, through links too, and can be mounted itself;
// also where the model's own file is gone.
func TestMountIsModel(t *testing.T) {
	text, err := os.ReadFile(ggufDir + "llama-xs.q4_k_m.gguf")
	model := filepath.Join(t.TempDir(), "m.gguf")
	if err := errors.Join(err, os.WriteFile(model, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	mnt, link := mounted(t, model), filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(mnt, link))
	whole := fileSum(t, mnt, "gguf/model.gguf")
	for _, own := range []bool{true, false} {
		for _, path := range []string{mnt, mnt + "/", link} {
			code, stdout, stderr := command("info", path)
			if code != 0 || strings.Contains(stdout, "format        tensorfs") == own || stderr != "" {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
		}
		again := mounted(t, mnt, "--follow-links") // root does not, otherwise
		for _, name := range []string{"raw/output_norm.weight", "f16/token_embedding.weight", "packed/layers.0.ffn.up.weight"} {
			if got, want := fileSum(t, again, name), fileSum(t, mnt, name); got != want {
				t.Errorf("%s has other bytes (own files: %v)", name, own)
			}
		}
		if own {
			if got := fileSum(t, again, "gguf/model.gguf"); got != whole {
				t.Error("gguf/ has other bytes")
			}
			must(t, os.Rename(model, model+".old"))
		}
	}
	if code, stdout, stderr := command("diff", mnt, model+".old"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := command("ls", "--views", "none", mnt); code != 2 {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// fileSum returns the SHA-256 of a file of a mount.
func fileSum(t *testing.T, mnt, name string) string {
	t.Helper()
	out, err := exec.Command("sha256sum", filepath.Join(mnt, name)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sum, _, _ := strings.Cut(string(out), " ")
	return sum
}

func TestUmountWaitsForTheServer(t *testing.T) {
	dir := mounted(t, q8)
	st := statusOf(t, dir)
	if code, _, stderr := command("umount", dir); code != 0 || stderr != "" {
		t.Fatalf("umount: %d %s", code, stderr)
	}
	if statusOf(t, dir) != nil {
		t.Error("still mounted")
	}
	ended(t, st.PID)
}

func TestBusyMount(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	dir := mounted(t, q8, "--log", log)
	st := statusOf(t, dir)
	f, err := os.Open(filepath.Join(dir, "f16/output_norm.weight"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if code, _, stderr := command("umount", dir); code != 1 || !strings.Contains(stderr, "is in use") {
		t.Errorf("umount of a busy mount: %d %q", code, stderr)
	}
	if err := syscall.Kill(st.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "refusal to unmount in the log", func() bool {
		b, _ := os.ReadFile(log)
		return strings.Contains(string(b), "cannot unmount")
	})
	if statusOf(t, dir) == nil {
		t.Error("the first SIGTERM unmounted a busy mount")
	}
	if err := syscall.Kill(st.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "detaching by the second SIGTERM", func() bool { return statusOf(t, dir) == nil })
	b := make([]byte, 16)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Errorf("an open file of a detached mount: %v", err)
	}
	f.Close()
	ended(t, st.PID)
}

func TestSIGTERMUnmounts(t *testing.T) {
	dir := mounted(t, q8)
	st := statusOf(t, dir)
	if err := syscall.Kill(st.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended(t, st.PID)
	if statusOf(t, dir) != nil {
		t.Error("still mounted")
	}
}

func TestKilledServer(t *testing.T) {
	dir := mounted(t, q8)
	st := statusOf(t, dir)
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, st.PID)
	if st := statusOf(t, dir); st == nil || st.Healthy {
		t.Errorf("status after kill -9: %+v", st)
	}
	mountAt(t, dir, q8)
	if st := statusOf(t, dir); st == nil || !st.Healthy {
		t.Errorf("status after mounting again: %+v", st)
	}
	if code, _, stderr := command("mount", q8, dir); code != 1 || !strings.Contains(stderr, "tensorfs umount") {
		t.Errorf("mounting twice: %d %q", code, stderr)
	}
}

// A shard that is truncated under the mount gives EIO; other shards, listings and metadata stay.
func TestTruncatedShard(t *testing.T) {
	models := t.TempDir()
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("llama-xs.q8_0-%05d-of-00003.gguf", i)
		b, err := os.ReadFile(ggufDir + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(models, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lost := "llama-xs.q8_0-00002-of-00003.gguf"
	dir := mounted(t, filepath.Join(models, lost))
	if err := os.Truncate(filepath.Join(models, lost), 4096); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "raw"))
	if err != nil || len(entries) != 20 {
		t.Fatalf("listing: %d entries, %v", len(entries), err)
	}
	failed, read := 0, 0
	for _, view := range []string{"raw", "f16", "fused-f16"} {
		entries, err := os.ReadDir(filepath.Join(dir, view))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			switch _, err := os.ReadFile(filepath.Join(dir, view, e.Name())); {
			case err == nil:
				read++
			case errors.Is(err, syscall.EIO):
				failed++
			default:
				t.Errorf("%s/%s: %v, want EIO", view, e.Name(), err)
			}
		}
	}
	if failed == 0 || read == 0 {
		t.Errorf("%d files failed and %d did not; want some of both", failed, read)
	}
	if _, err := os.ReadFile(filepath.Join(dir, "metadata.json")); err != nil {
		t.Error(err)
	}
	st := statusOf(t, dir)
	if st == nil || st.State != "changed" || st.Healthy || !slices.Equal(st.Changed, []string{filepath.Join(models, lost)}) {
		t.Errorf("status: %+v", st)
	}
	if st.LastError == nil || !strings.Contains(st.LastError.Message, lost) {
		t.Errorf("last error: %+v", st.LastError)
	}
	if len(st.Errors) != 1 || !strings.Contains(st.Errors[0].Message, lost) {
		t.Errorf("one cause gives these messages: %+v", st.Errors)
	}
}

// Programs of other kinds read the mount as they read a disk.
func TestShellTools(t *testing.T) {
	dir := mounted(t, q8)
	script := `set -eu
cd "$1"
ls -l raw >/dev/null; find . -type f | wc -l
cmp -s raw/output_norm.weight packed/output_norm.weight && echo same || echo differ
dd if=f16/token_embedding.weight bs=777 skip=3 count=5 2>/dev/null | cksum
tail -c +2332 f16/token_embedding.weight | head -c 3885 | cksum
copy=$(mktemp -d); cp -r . "$copy/c"; diff -r . "$copy/c" && echo equal; chmod -R u+w "$copy"; rm -r "$copy"
du -s --apparent-size . >/dev/null; df . | tail -1 | awk '{print $4}'
touch new 2>&1 | grep -c 'Read-only file system'`
	out, err := exec.Command("sh", "-c", script, "sh", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 7 || lines[1] != "differ" || lines[2] != lines[3] || lines[4] != "equal" || lines[5] != "0" || lines[6] != "1" {
		t.Errorf("the tools print\n%s", out)
	}
}

func TestTwoReadersAtOnce(t *testing.T) {
	dir := mounted(t, q8)
	want, err := os.ReadFile(filepath.Join(dir, "f16/token_embedding.weight"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 20 {
				out, err := exec.Command("cat", filepath.Join(dir, "f16/token_embedding.weight")).Output()
				if err != nil || !bytes.Equal(out, want) {
					t.Errorf("cat: %d bytes, %v", len(out), err)
				}
			}
		})
	}
	wg.Wait()
}

// What mount(8) calls for a line of /etc/fstab.
func TestFstabForm(t *testing.T) {
	needFUSE(t)
	dir := t.TempDir()
	code, _, stderr := command(q8, dir, "-o", "rw,nofail,x-systemd.automount,i2s=64")
	t.Cleanup(func() { mounts.Unmount(dir, true) })
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	if st := statusOf(t, dir); st == nil || !st.Healthy || !strings.HasSuffix(st.Model, filepath.Base(q8)) {
		t.Errorf("status: %+v", st)
	}
}

// Paths in options are relative to the caller's directory, although the server
// runs in another one.
func TestLogOptionIsRelative(t *testing.T) {
	model, err := filepath.Abs(q8)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, flags := range [][]string{{"--log", "flag.log"}, {"-o", "ro,log=option.log"}} {
		mounted(t, model, flags...)
	}
	for _, name := range []string{"flag.log", "option.log"} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the server's log: %v", err)
		}
	}
}

// TestNumPyMapsEmpty holds that NumPy maps the file of an empty tensor: some
// versions refuse one whose header ends with a page.
func TestNumPyMapsEmpty(t *testing.T) {
	python := numPy(t)
	dir := mounted(t, ggufDir+"kv.gguf")
	out, err := exec.Command(python, "-c", "import glob, sys, numpy as np\nfor f in glob.glob(sys.argv[1] + '/npy/*'): print(np.load(f, mmap_mode='r').size)", dir).CombinedOutput()
	if err != nil || !strings.Contains("\n"+string(out), "\n0\n") {
		t.Errorf("%v: %s", err, out)
	}
}
