package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs/internal/mounts"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwatch"
	"golang.org/x/sys/unix"
)

// halves are enough for a file that no read-ahead brings in at once.
const halves = 4 << 20

// replaceFile replaces a file by another file.
func replaceFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", content, 0o666), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// openModels returns which models of a library are open.
func openModels(t *testing.T, dir string) []string {
	t.Helper()
	st := statusOf(t, dir)
	if st == nil || !st.Library {
		t.Fatalf("it is no library: %+v", st)
	}
	return st.Open
}

// closed waits until no model of a library is open.
func closed(t *testing.T, dir string) {
	t.Helper()
	testlimit.Wait(t, "closing of idle models", func() bool { return len(openModels(t, dir)) == 0 })
}

// letGo waits until a server has closed its models and their files: the status reports them as
// closed before the last descriptor is.
func letGo(t *testing.T, dir string, pid int, folder string) {
	t.Helper()
	closed(t, dir)
	testlimit.Wait(t, "letting go of model files", func() bool { return len(kept(t, pid, folder)) == 0 })
}

// kept are the model files that a process has open or mapped.
func kept(t *testing.T, pid int, folder string) (files []string) {
	t.Helper()
	proc := "/proc/" + strconv.Itoa(pid)
	fds, err := filepath.Glob(proc + "/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, folder) {
			files = append(files, target)
		}
	}
	maps, err := os.ReadFile(proc + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if _, path, ok := strings.Cut(line, folder); ok {
			files = append(files, folder+path)
		}
	}
	return files
}

// TestLibrary300 (row 25) is a library of 300 models, one of them broken and one a FIFO.
func TestLibrary300(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	small, err := os.ReadFile(ggufDir + "align8.gguf")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"d5/broken.gguf": small[:len(small)/2]}
	for i := range 298 {
		files[fmt.Sprintf("d%d/m%03d.gguf", i%10, i)] = small
	}
	if err := errors.Join(testmodel.Write(folder, files), syscall.Mkfifo(filepath.Join(folder, "d5", "fifo.gguf"), 0o666)); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	dir := mounted(t, folder, "--idle", "300ms", "--log", log)
	st := statusOf(t, dir)
	if *st.Models != 299 || len(st.Open) != 0 {
		t.Errorf("%d models, %d open", *st.Models, len(st.Open))
	}
	// ls -l of each level
	level := func(path string) (names []string) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := os.Lstat(filepath.Join(dir, path, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if e.Name() != "README" && (info.Mode() != iofs.ModeDir|0o555 || info.Sys().(*syscall.Stat_t).Nlink != 1) {
				t.Errorf("%s/%s: %v", path, e.Name(), info.Mode())
			}
			names = append(names, e.Name())
		}
		return names
	}
	if got := level("."); !slices.Equal(got, []string{"README", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9"}) {
		t.Errorf("the top has %v", got)
	}
	for i := range 10 {
		want := 0
		for name := range files {
			if strings.HasPrefix(name, fmt.Sprintf("d%d/", i)) {
				want++
			}
		}
		if got := len(level(fmt.Sprint("d", i))); got != want {
			t.Errorf("d%d has %d models, want %d", i, got, want)
		}
	}
	if open := openModels(t, dir); len(open) != 0 {
		t.Errorf("ls -l opened %v", open)
	}
	if k := kept(t, st.PID, folder); len(k) != 0 {
		t.Errorf("ls -l made the server open %v", k)
	}
	// du -s
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for most := 0; ; {
			if open := len(openModels(t, dir)); open > 16 {
				t.Errorf("%d models are open", open)
				return
			} else if most = max(most, open); most == 0 {
				continue
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	failed, seen := []string{}, 0
	err = filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			rel, _ := filepath.Rel(dir, path)
			failed = append(failed, rel)
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s: %v", rel, err)
			}
			return nil
		}
		if d.Name() == "README" {
			seen++
		}
		_, err = d.Info()
		return err
	})
	close(done)
	watch.Wait()
	if err != nil || seen != 299 || !slices.Equal(failed, []string{"d5/broken"}) {
		t.Errorf("%v; %d models could be read, not %v", err, seen-1, failed)
	}
	letGo(t, dir, st.PID, folder)
	said, err := os.ReadFile(log)
	if n := strings.Count(string(said), "\n"); err != nil || n != 1 || !strings.Contains(string(said), `model=d5/broken`) {
		t.Errorf("log: %v\n%s", err, said)
	}
	if st := statusOf(t, dir); !st.Healthy || len(st.Errors) != 1 {
		t.Errorf("status: %+v", st)
	}
}

// TestLibraryChanges (row 25) adds, replaces and removes models of a mounted library.
func TestLibraryChanges(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name+".gguf") }
	for _, name := range []string{"a", "b"} {
		replaceFile(t, path(name), modelOf('1', halves))
	}
	dir := mounted(t, folder, "-o", "idle=100ms,max_open=2")
	data := func(name string) string { return filepath.Join(dir, name, "raw", "t") }
	first := func(f *os.File, off int64) (string, error) {
		b := make([]byte, 1)
		_, err := f.ReadAt(b, off)
		return string(b), err
	}
	// added
	replaceFile(t, path("c"), modelOf('1', 32))
	testlimit.Wait(t, "a model that was added", func() bool { _, err := os.Stat(data("c")); return err == nil })

	// replaced
	old, err := os.Open(data("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if b, err := first(old, 0); b != "1" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	replaceFile(t, path("a"), modelOf('2', halves))
	closed(t, dir)
	if b, err := first(old, 6<<20); !errors.Is(err, syscall.ESTALE) && !errors.Is(err, syscall.EIO) { // a page that was not read yet
		t.Errorf("an old handle: %q, %v", b, err)
	}
	if f, err := os.Open("/proc/self/fd/" + strconv.Itoa(int(old.Fd()))); !errors.Is(err, syscall.ESTALE) {
		f.Close()
		t.Errorf("opening the old file again: %v", err)
	}
	testlimit.Wait(t, "the new bytes by name", func() bool {
		f, err := os.Open(data("a"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := first(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		return b == "2"
	})

	// removed
	f, err := os.Open(data("b"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(path("b")); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "end of a model that was removed", func() bool { _, err := os.Stat(filepath.Join(dir, "b")); return errors.Is(err, iofs.ErrNotExist) })
	if entries, err := os.ReadDir(dir); len(entries) != 3 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestLibraryRemovedStays holds that a removed model can be read while it is open.
func TestLibraryRemovedStays(t *testing.T) {
	testwatch.Need(t)
	folder := t.TempDir()
	model := filepath.Join(folder, "sub", "a.gguf")
	if err := testmodel.Write(folder, map[string][]byte{"sub/a.gguf": modelOf('1', halves)}); err != nil {
		t.Fatal(err)
	}
	dir := mounted(t, folder)
	f, err := os.Open(filepath.Join(dir, "sub/a/raw/t"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(model); err != nil {
		t.Fatal(err)
	}
	testlimit.Wait(t, "end of a model that was removed", func() bool { _, err := os.Stat(filepath.Join(dir, "sub")); return errors.Is(err, iofs.ErrNotExist) })
	if n, err := io.Copy(io.Discard, f); n != 2*halves || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestLibraryMapped holds that a mapping, and a file in passthrough, outlive the closing of their
// model.
func TestLibraryMapped(t *testing.T) {
	for _, flags := range [][]string{nil, {"--no-passthrough"}} {
		t.Run(strings.Join(append([]string{"mapped"}, flags...), " "), func(t *testing.T) {
			folder := t.TempDir()
			content := modelOf('7', halves)
			if err := testmodel.Write(folder, map[string][]byte{"a.gguf": content, "b.gguf": content}); err != nil {
				t.Fatal(err)
			}
			dir := mounted(t, folder, append([]string{"--idle", "100ms"}, flags...)...)
			pid := statusOf(t, dir).PID
			f, err := os.Open(filepath.Join(dir, "a/raw/t"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			mem, err := unix.Mmap(int(f.Fd()), 0, 2*halves, unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Munmap(mem)
			whole, err := os.Open(filepath.Join(dir, "a/gguf/model.gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			for _, at := range []int{0, len(mem) - 1} {
				letGo(t, dir, pid, folder)
				if mem[at] != '7' {
					t.Errorf("byte %d is %q", at, mem[at])
				}
			}
			closed(t, dir)
			again, err := os.Open(filepath.Join(dir, "a/gguf/model.gguf"))
			if err != nil {
				t.Fatal(err)
			}
			closed(t, dir)
			for _, f := range []*os.File{whole, again} {
				if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				f.Close()
			}
			letGo(t, dir, pid, folder)
			if err := os.Remove(filepath.Join(folder, "a.gguf")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestLibraryOfStores mounts the stores by name.
func TestLibraryOfStores(t *testing.T) {
	store, err := filepath.Abs(testdata + "ollama/models")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OLLAMA_MODELS", store)
	dir := mounted(t, "ollama:")
	var models []string
	err = filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err == nil && d.Name() == "README" && filepath.Dir(path) != dir {
			rel, _ := filepath.Rel(dir, filepath.Dir(path))
			models = append(models, rel)
		}
		return err
	})
	if want := []string{"hf.co/Acme-Org/Tiny.Model-GGUF/F16", "tiny/bf16", "tiny/feb", "tiny/int4", "tiny/int4-nometa", "tiny/jan", "tiny/mixed", "tiny/mxfp8", "tiny/nvfp4", "tinyllama/latest", "tinyllama/vl"}; err != nil || !slices.Equal(models, want) {
		t.Errorf("%v: %q", err, models)
	}
	one := mounted(t, "ollama:tiny:feb")
	files, err := filepath.Glob(filepath.Join(one, "f16", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, file := range []string{"README", "index.json", "metadata.json", "f16/" + filepath.Base(files[0]), "raw/" + filepath.Base(files[len(files)-1])} {
		got, err1 := os.ReadFile(filepath.Join(dir, "tiny/feb", file))
		want, err2 := os.ReadFile(filepath.Join(one, file))
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is another file in the library: %v, %v", file, err1, err2)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "README")); err != nil || !strings.Contains(string(text), "tensorfs list ollama:\n") {
		t.Errorf("README: %s, %v", text, err)
	}
}

// TestLibraryHostile mounts a folder that others may write to.
func TestLibraryHostile(t *testing.T) {
	folder, outside := t.TempDir(), t.TempDir()
	if err := testmodel.Write(outside, map[string][]byte{"secret.gguf": modelOf('s', 32)}); err != nil {
		t.Fatal(err)
	}
	m := modelOf('1', 32)
	if err := testmodel.Write(folder, map[string][]byte{"a.gguf": m, "x\x1b[31m\n.gguf": m, "..b.gguf": m, "README.gguf": m}); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"leaves.gguf": filepath.Join(outside, "secret.gguf"), "loop.gguf": "loop.gguf", "up": "..", "stays.gguf": "a.gguf", "dir.gguf": "."} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	dir := mounted(t, folder, "--allow-other=false")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		_, err := os.ReadDir(filepath.Join(dir, e.Name()))
		if refused := e.Name() == "leaves" && os.Geteuid() == 0; (err != nil) != refused {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
	if want := []string{"%2E.b", "README", "a", "leaves", "stays", "x%1B[31m%0A"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if e := statusOf(t, dir).Errors; os.Geteuid() == 0 && (len(e) != 1 || !strings.Contains(e[0].Message, "it is a symbolic link that leaves")) {
		t.Errorf("errors: %v", e)
	}
	follows := mounted(t, folder, "--follow-links")
	if _, err := os.ReadDir(filepath.Join(follows, "leaves")); err != nil {
		t.Errorf("with --follow-links: %v", err)
	}
}

// peakOf returns the most memory that a process had, in KiB.
func peakOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLibraryOfHugeNumbers has a model in a library whose config.json has a length of 10^9. Its
// tensorfs.json gives the reason for no gguf/, and the other models work.
func TestLibraryOfHugeNumbers(t *testing.T) {
	folder := t.TempDir()
	must(t, os.CopyFS(filepath.Join(folder, "evil"), os.DirFS(testdata+"whole-gguf/llama3")))
	must(t, os.CopyFS(filepath.Join(folder, "good"), os.DirFS(testdata+"whole-gguf/llama3")))
	config := filepath.Join(folder, "evil", "config.json")
	text, err := os.ReadFile(config)
	must(t, err)
	must(t, os.WriteFile(config, append([]byte(`{"head_dim":1000000000,`), text[1:]...), 0o666))
	must(t, testmodel.Write(folder, map[string][]byte{"small.gguf": modelOf('1', 32), "other.gguf": modelOf('2', 32)}))
	dir := mounted(t, folder)
	read := func(path string) string {
		b, err := os.ReadFile(filepath.Join(dir, path))
		must(t, err)
		return string(b)
	}
	if got := read("evil/gguf/tensorfs.json"); !strings.Contains(got, `"available": false`) || !strings.Contains(got, "config.json: head_dim would be 1000000000, and files of llama may have 1 to 65536") {
		t.Errorf("evil has %s", got)
	}
	if got := read("good/gguf/tensorfs.json"); !strings.Contains(got, `"available": true`) {
		t.Errorf("good has %s", got)
	}
	if got := read("small/raw/t"); got != strings.Repeat("1", 64) {
		t.Errorf("small has %q", got)
	}
	if got := read("good/gguf/model.gguf"); !strings.HasPrefix(got, "GGUF") {
		t.Errorf("%d bytes that begin with %.4q", len(got), got)
	}
	if st := statusOf(t, dir); peakOf(t, st.PID) > 512<<10 {
		t.Errorf("the server had %d KiB", peakOf(t, st.PID))
	}
}

// TestLibraryRefused holds what is no library, and what is wrong with the command.
func TestLibraryRefused(t *testing.T) {
	needFUSE(t)
	folder, empty := t.TempDir(), t.TempDir()
	if err := testmodel.Write(folder, map[string][]byte{"a.gguf": modelOf('1', 32), "b.gguf": modelOf('1', 32), "mnt/x": nil}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OLLAMA_MODELS", empty)
	t.Setenv("HF_HUB_CACHE", filepath.Join(empty, "none"))
	for _, x := range []struct {
		code int
		args []string
		want string
	}{
		{1, []string{folder, filepath.Join(folder, "mnt")}, "is inside " + folder + ", the library that is to be mounted there; choose another directory"},
		{1, []string{empty, t.TempDir()}, "it is an empty directory"},
		{2, []string{"--max-open", "0", folder, t.TempDir()}, "want a number and a time above 0"},
		{2, []string{"--idle", "0s", folder, t.TempDir()}, "want a number and a time above 0"},
		{2, []string{"--i2s", "x", folder, t.TempDir()}, "want 128, 64"},
		{2, []string{"-o", "idle=x", folder, t.TempDir()}, "-o idle=x: want a time like 5m"},
		{2, []string{"-o", "max_open=", folder, t.TempDir()}, "-o max_open=: want a number"},
		{2, []string{"-o", "max_open=-1", folder, t.TempDir()}, "want a number and a time above 0"},
		{2, []string{"-o", "x=1", folder, t.TempDir()}, "unknown mount option"},
	} {
		dir := x.args[len(x.args)-1]
		code, out, stderr := command(append([]string{"mount"}, x.args...)...)
		if code != x.code || out != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, x.want) {
			t.Errorf("%q: exit code %d, %q, %q", x.args, code, out, stderr)
		}
		if isMounted(t, dir) {
			t.Errorf("%q: it is mounted", x.args)
			mounts.Unmount(dir, true)
		}
	}
}
