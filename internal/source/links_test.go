package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// tree makes files, and links ("->TARGET", in which DIR is the tree).
func tree(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if target, isLink := strings.CutPrefix(content, "->"); isLink {
			err = os.Symlink(strings.ReplaceAll(target, "DIR", dir), path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestLinks follows links as far as they may lead.
func TestLinks(t *testing.T) {
	dir := tree(t, map[string]string{
		"secret": "secret", "other/secret": "secret", "disk/models/m-2": "two", "disk/models/m-1": "one", "disk/models/secret": "secret",
		"m/file": "in", "m/sub/file": "in", "m/relative": "->sub/file", "m/absolute": "->DIR/m/sub/file", "m/chain": "->absolute", "m/back": "->../m/file", "m/dir": "->DIR/m/sub",
		"m/out": "->../secret", "m/out-absolute": "->DIR/secret", "m/out-chain": "->out", "m/out-dir": "->../other", "m/out-far": "->sub/far", "m/sub/far": "->../../secret",
		"m/device": "->/dev/null", "m/nothing": "->gone", "m/out-nothing": "->../gone", "m/loop": "->loop", "m-link": "->m", "mm": "outside",

		"hub/models--o--n/blobs/1": "blob", "hub/models--o--n/snapshots/c/file": "->../../blobs/1", "hub/models--o--n/snapshots/c/q4/file": "->../../../blobs/1",
		"hub/models--o--n/snapshots/c/out": "->../../../models--o--x/blobs/2", "hub/models--o--x/blobs/2": "secret", "snap": "->hub/models--o--n/snapshots/c",
		"disk/n/blobs/1": "blob", "disk/n/snapshots/c/file": "->../../blobs/1", "disk/n/snapshots/c/out": "->../../../models/secret", "hub/models--moved": "->DIR/disk/n",
		"notcache/snapshots/c/file": "->../../blobs/1", "notcache/blobs/1": "secret",

		"home/m-1": "->DIR/disk/models/m-1", "home/m-2": "->DIR/disk/models/m-2", "home/m-3": "->DIR/disk/models/secret", "home/m-4": "->../secret",
	})
	for _, x := range []struct {
		named string // by the user
		file  string // in its directory; "" for named itself
		want  string // its content; "" if it is refused
	}{
		{"m", "file", "in"}, {"m", "sub/file", "in"}, {"m", "relative", "in"}, {"m", "absolute", "in"}, {"m", "chain", "in"}, {"m", "back", "in"}, {"m", "dir/file", "in"},
		{"m", "out", ""}, {"m", "out-absolute", ""}, {"m", "out-chain", ""}, {"m", "out-dir/secret", ""}, {"m", "out-far", ""}, {"m", "sub/far", ""},
		{"m-link", "file", "in"}, {"m-link", "absolute", "in"}, {"m-link", "out", ""},
		{"m/sub", "file", "in"}, {"m/sub", "far", ""},
		// What the user names is followed, and nothing beside it.
		{"m/out", "", "secret"}, {"m/out-chain", "", "secret"}, {"m/out", "file", "in"}, {"m/out", "out-absolute", ""}, {"m/file", "out", ""},
		// The cache.
		{"hub/models--o--n/snapshots/c", "file", "blob"}, {"hub/models--o--n", "snapshots/c/file", "blob"}, {"snap", "file", "blob"}, {"hub/models--o--n/snapshots/c/q4", "file", "blob"},
		{"hub/models--o--n/snapshots/c/file", "", "blob"}, {"hub/models--o--n/snapshots/c/q4/file", "file", "blob"},
		{"hub/models--o--n/snapshots/c", "out", ""}, {"hub/models--o--n", "snapshots/c/out", ""}, {"snap", "out", ""}, {"hub/models--o--n/snapshots/c/file", "out", ""},
		{"hub/models--moved/snapshots/c", "file", "blob"}, {"hub/models--moved", "snapshots/c/file", "blob"}, {"hub/models--moved/snapshots/c", "out", ""},
		{"notcache/snapshots/c", "file", ""},
		// Shards that are linked one by one.
		{"home/m-1", "", "one"}, {"home/m-1", "m-2", "two"}, {"home/m-1", "m-3", ""}, {"home/m-1", "m-4", ""}, {"home", "m-2", ""},
	} {
		t.Run(x.named+":"+x.file, func(t *testing.T) {
			for _, links := range []source.Links{source.Inside, source.Anywhere} {
				d, name, err := source.Named(filepath.Join(dir, x.named), links)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				if x.file != "" {
					name = x.file
				}
				b, err := source.ReadSmall(d, name, 100)
				if x.want != "" || links == source.Anywhere {
					if err != nil || x.want != "" && string(b) != x.want {
						t.Errorf("%q, %v", b, err)
					}
					continue
				}
				if err == nil {
					t.Fatalf("read %q", b)
				}
				if s := err.Error(); !errors.Is(err, source.ErrLink) || !errors.Is(err, tensorfs.ErrUnsupported) || strings.Contains(s, "\n") || !strings.HasPrefix(s, d.Location(name)+": ") ||
					!strings.Contains(s, "it is a symbolic link that leaves "+dir) || !strings.HasSuffix(s, "put the file itself there, or allow such links with --follow-links") {
					t.Errorf("error %q", err)
				}
			}
		})
	}
	// What is wrong with a link is said before where it leads.
	for name, says := range map[string]string{
		"nothing": `it is a link to "gone", which does not exist; finish the download`, "out-nothing": `it is a link to "../gone", which does not exist`,
		"loop": "its symbolic links form a loop", "device": "it is a symbolic link that leaves", "none": "no such file or directory",
	} {
		d, err := source.Dir(filepath.Join(dir, "m"), source.Inside)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.OpenFile(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v does not say %q", name, err, says)
		}
		if _, err := d.ReadDir("out-dir"); !errors.Is(err, source.ErrLink) {
			t.Errorf("a directory outside is listed: %v", err)
		}
	}
}

// TestSwapped opens a name that another process replaces all the time, by a file, a link out of the
// directory and a FIFO with a writer. The file is opened or refused; nothing waits, and nothing
// outside is read.
func TestSwapped(t *testing.T) {
	dir := tree(t, map[string]string{"secret": "secret", "m/x": "in", "spare/file": "in", "spare/link": "->../secret", "spare/absolute": "->DIR/secret"})
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(at("spare/fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(at("spare/fifo"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			kind := []string{"file", "link", "absolute", "fifo"}[i%4]
			if err := errors.Join(os.Link(at("spare/"+kind), at("spare/next")), os.Rename(at("spare/next"), at("m/x"))); err != nil {
				stopped <- err
				return
			}
			os.Remove(at("spare/next")) // a rename of a name to itself leaves it
		}
	}()
	d, err := source.Dir(at("m"), source.Inside)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	read, refused := 0, 0
	for n := 0; n < 200_000 && (n < 2000 || read < 10 || refused < 10); n++ {
		b, err := source.ReadSmall(d, "x", 100)
		switch {
		case err != nil:
			refused++
		case string(b) != "in":
			t.Fatalf("read %q", b)
		default:
			read++
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if read < 10 || refused < 10 {
		t.Errorf("read %d times, refused %d times", read, refused)
	}
}
