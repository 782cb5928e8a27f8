package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/formats/ollama"
	"github.com/tensorfs/tensorfs/internal/export"
	"golang.org/x/sys/unix"
)

// TestMain lets the test's program be the user who exchanges entries of a store.
func TestMain(m *testing.M) {
	if store := os.Getenv("TENSORFS_TEST_SWAP"); store != "" {
		swap(store, os.Getenv("TENSORFS_TEST_VICTIM"))
		return
	}
	os.Exit(m.Run())
}

// swap exchanges all directories and files of a store with links to what is another user's, and
// back, until it is killed.
func swap(store, victim string) {
	link, file := filepath.Join(store, "l"), filepath.Join(store, "m")
	for {
		_ = filepath.WalkDir(store, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == store || path == link || path == file {
				return nil
			}
			to, with := victim, link
			if !e.IsDir() {
				to, with = filepath.Join(victim, "model.gguf"), file
			}
			_ = os.Remove(with)
			if os.Symlink(to, with) != nil {
				return nil
			}
			for range 2 {
				_ = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, with, unix.RENAME_EXCHANGE)
				time.Sleep(time.Duration(os.Getpid()%7) * 100 * time.Microsecond)
			}
			return nil
		})
	}
}

// toEach writes a model into a store of each kind.
var toEach = []struct {
	name  string
	write func(ctx context.Context, dir string, n int, files []export.File, o Options) error
}{
	{"Ollama", func(ctx context.Context, dir string, n int, files []export.File, o Options) error {
		parsed, err := ollama.ParseName("m" + strconv.Itoa(n))
		if err == nil {
			_, err = Ollama(ctx, dir, parsed, files, Parent{}, o)
		}
		return err
	}},
	{"LM Studio", func(ctx context.Context, dir string, n int, files []export.File, o Options) error {
		_, err := LMStudio(ctx, dir, "p/m"+strconv.Itoa(n), files, o)
		return err
	}},
	{"Hugging Face", func(ctx context.Context, dir string, n int, files []export.File, o Options) error {
		_, err := HuggingFace(ctx, dir, "p/m"+strconv.Itoa(n), files, o)
		return err
	}},
}

// Another user, who owns a store, exchanges its directories and files all the time while root
// writes to it: nothing of root's changes its owner, its bytes or its place.
func TestSwap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	runs := 60
	if testing.Short() {
		runs = 12
	}
	for _, to := range toEach {
		t.Run(to.name, func(t *testing.T) {
			m := model(t)
			top := t.TempDir()
			for dir := top; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) { // others have to come here
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			store, victim := filepath.Join(top, "store"), filepath.Join(top, "victim")
			secret := filepath.Join(victim, "model.gguf")
			if err := errors.Join(os.Mkdir(store, 0o755), os.Chown(store, otherUser, otherUser), os.Mkdir(victim, 0o700), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
				t.Fatal(err)
			}
			done := 0
			for n := range runs {
				cmd := exec.Command("/proc/self/exe")
				cmd.Env = append(os.Environ(), "TENSORFS_TEST_SWAP="+store, "TENSORFS_TEST_VICTIM="+victim)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}, Pdeathsig: syscall.SIGKILL}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				err := to.write(t.Context(), store, n, []export.File{{Path: "model.gguf", Data: m}}, Options{Copy: true, Force: n%2 == 0})
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if err == nil {
					done++
				}
				entries, err := os.ReadDir(victim)
				if err != nil || len(entries) != 1 {
					t.Fatalf("run %d: %v, %v", n, entries, err)
				}
				st, err := os.Lstat(secret)
				if err != nil {
					t.Fatal(err)
				}
				if uid, _ := owner(st); uid != 0 || st.Mode() != 0o600 {
					t.Fatalf("run %d: %v of %d", n, st.Mode(), uid)
				}
				if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
					t.Fatalf("run %d: %q, %v", n, b, err)
				}
				if st, err := os.Stat(victim); err != nil {
					t.Fatal(err)
				} else if uid, _ := owner(st); uid != 0 || st.Mode().Perm() != 0o700 {
					t.Fatalf("run %d: the directory: %v of %d", n, st.Mode(), uid)
				}
			}
			t.Logf("%d of %d were written", done, runs)
		})
	}
}

// What a store's owner has put in the way of an export beforehand is refused, and nothing of
// root's is touched.
func TestPlanted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	for _, to := range toEach {
		for _, plant := range []struct{ path, kind string }{
			{".", "link"}, {"blobs", "link"}, {"manifests", "link"}, {"manifests/registry.ollama.ai", "link"}, {"p", "link"}, {"p/m0", "link"},
			{"models--p--m0", "link"}, {"models--p--m0/blobs", "link"}, {"models--p--m0/refs", "link"}, {"models--p--m0/snapshots", "link"}, {".locks", "link"},
			{"p/m0/.tensorfs", "link"}, {"models--p--m0/.tensorfs", "link"}, {"p/m0/.tensorfs", "dir"}, {"models--p--m0/.tensorfs", "dir"},
			{"p/m0/model.gguf", "file"}, {"models--p--m0/refs/main", "file"}, {"p/m0/model.gguf", "fifo"}, {"models--p--m0/refs/main", "fifo"},
			{"manifests/registry.ollama.ai/library/m0/latest", "fifo"}, {"manifests/registry.ollama.ai/library/m0/latest", "file"},
		} {
			t.Run(to.name+" "+plant.path+" "+plant.kind, func(t *testing.T) {
				m := model(t)
				top := t.TempDir()
				store, victim := filepath.Join(top, "his/store"), filepath.Join(top, "victim")
				secret := filepath.Join(victim, "secret")
				if err := errors.Join(os.MkdirAll(store, 0o755), os.Mkdir(victim, 0o700), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(store, plant.path)
				err := os.MkdirAll(filepath.Dir(path), 0o755)
				switch plant.kind {
				case "link":
					_ = os.Remove(path)
					err = errors.Join(err, os.Symlink(victim, path))
				case "file":
					err = errors.Join(err, os.Symlink(secret, path))
				case "fifo":
					err = errors.Join(err, unix.Mkfifo(path, 0o644))
				case "dir":
					err = errors.Join(err, os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "model.gguf"), []byte("his"), 0o644))
				}
				if err != nil {
					t.Fatal(err)
				}
				err = filepath.WalkDir(filepath.Join(top, "his"), func(path string, _ fs.DirEntry, err error) error {
					return errors.Join(err, os.Lchown(path, otherUser, otherUser))
				})
				if err != nil {
					t.Fatal(err)
				}
				err = to.write(t.Context(), store, 0, []export.File{{Path: "model.gguf", Data: m}}, Options{Force: true})
				entries, rerr := os.ReadDir(victim)
				b, serr := os.ReadFile(secret)
				if rerr != nil || serr != nil || len(entries) != 1 || string(b) != "secret" {
					t.Fatalf("%v, %q, %v, %v", entries, b, rerr, serr)
				}
				for _, path := range []string{victim, secret} {
					if st, err := os.Lstat(path); err != nil {
						t.Error(err)
					} else if uid, _ := owner(st); uid != 0 {
						t.Errorf("%s is of %d", path, uid)
					}
				}
				if plant.path == "." && (err == nil || !strings.Contains(err.Error(), "another user")) {
					t.Errorf("the store itself is a link: %v", err)
				}
			})
		}
	}
}
