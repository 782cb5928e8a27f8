package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/source"
)

// eve and bob are other users than root and the one of the test.
const eve, bob = 65531, 65532

// TestStrangersLinks: a link of another user, in a path that is named, leads to their own
// files and to what everybody may read. Links of root lead anywhere.
func TestStrangersLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give links to other users")
	}
	dir := tree(t, map[string]string{
		"secret/m": "secret", "private/m": "secret", "public/m": "public", "public/secret": "secret", "hers/m": "hers", "hers/secret": "secret", "bobs/m": "bobs",
		"eve/secret": "->../secret/m", "eve/private": "->DIR/private/m", "eve/public": "->../public/m", "eve/hers": "->../hers/m", "eve/bobs": "->../bobs/m", "eve/roots": "->../public/secret",
		"eve/dir": "->../secret", "eve/pdir": "->../private", "eve/pubdir": "->../public", "eve/herdir": "->../hers", "eve/plain": "plain", "eve/x/m": "plain",
		"eve/chain": "->byroot", "eve/byroot": "->../secret/m", "eve/middle/l": "->../../secret", "eve/bylink": "->bobslink", "eve/bobslink": "->hers", "eve/up": "->./x/../../secret/m",
		"root/secret": "->../secret/m", "root/dir": "->../secret", "root/viaeve": "->../eve/secret", "root/tohers": "->../eve/hers",
		"eve/m-1-of-2": "->../hers/m-1-of-2", "eve/m-2-of-2": "->../hers/m-2-of-2", "hers/m-1-of-2": "hers", "hers/m-2-of-2": "secret",
		"hub/models--o--n/blobs/1": "hers", "hub/models--o--n/snapshots/c/m": "->../../blobs/1",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	var all []error
	for _, name := range []string{"secret/m", "public/secret", "hers/secret", "hers/m-2-of-2", "bobs/m"} {
		all = append(all, os.Chmod(at(name), 0o600))
	}
	all = append(all, os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(at("secret"), 0o700), os.Chmod(at("private"), 0o700), os.Chmod(at("private/m"), 0o644),
		os.Lchown(at("bobs/m"), bob, bob), os.Lchown(at("eve/bobslink"), bob, bob))
	for _, name := range []string{"hers", "hers/m", "hers/m-1-of-2", "eve", "eve/plain", "eve/secret", "eve/private", "eve/public", "eve/hers", "eve/bobs", "eve/roots", "eve/dir", "eve/pdir", "eve/pubdir", "eve/herdir",
		"eve/chain", "eve/middle/l", "eve/bylink", "eve/up", "eve/m-1-of-2", "eve/m-2-of-2", "hub/models--o--n/blobs/1", "hub/models--o--n/snapshots/c/m"} {
		all = append(all, os.Lchown(at(name), eve, eve))
	}
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
	public := "public"
	for up := dir; up != "/"; up = filepath.Dir(up) {
		if st, err := os.Stat(up); err != nil || st.Mode()&1 == 0 { // TMPDIR may be readable only by root
			public = ""
		}
	}
	for _, x := range []struct {
		named string
		file  string // in its directory; "" for named itself
		want  string // "" if it is refused
	}{
		{"eve/plain", "", "plain"}, {"eve/x", "m", "plain"}, {"secret/m", "", "secret"},
		{"eve/secret", "", ""}, {"eve/private", "", ""}, {"eve/roots", "", ""}, {"eve/bobs", "", ""}, {"eve/chain", "", ""}, {"eve/up", "", ""},
		{"eve/public", "", public}, {"eve/hers", "", "hers"},
		{"eve/dir", "m", ""}, {"eve/dir/m", "", ""}, {"eve/middle/l/m", "", ""}, {"eve/pdir", "m", ""},
		{"eve/pubdir", "m", public}, {"eve/pubdir", "secret", ""}, {"eve/pubdir/secret", "", ""}, {"eve/herdir", "m", "hers"}, {"eve/herdir", "secret", ""},
		{"eve/bylink", "", ""}, // bob may not read her private file
		{"root/secret", "", "secret"}, {"root/dir", "m", "secret"}, {"root/viaeve", "", ""}, {"root/tohers", "", "hers"},
		{"eve/m-1-of-2", "", "hers"}, {"eve/m-1-of-2", "m-2-of-2", ""},
		{"hub/models--o--n/snapshots/c", "m", "hers"}, {"hub/models--o--n/snapshots/c/m", "", "hers"},
	} {
		if x.named == "eve/bylink" {
			if err := os.Chmod(at("hers/m"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, links := range []source.Links{source.Inside, source.Anywhere} {
			b, err := func() ([]byte, error) {
				d, name, err := source.Named(at(x.named), links)
				if err != nil {
					return nil, err
				}
				defer d.Close()
				if x.file != "" {
					name = x.file
				}
				return source.ReadSmall(d, name, 100)
			}()
			switch {
			case x.want != "" || links == source.Anywhere:
				if err != nil || x.want != "" && string(b) != x.want {
					t.Errorf("%s: %s: %q, %v", x.named, x.file, b, err)
				}
			case !errors.Is(err, source.ErrLink) || strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), "with --follow-links"):
				t.Errorf("%s: %s: %q, error %v", x.named, x.file, b, err)
			}
		}
	}
}

// TestHoldModel: a model below a directory is opened below its handle, and its own links lead
// nowhere else.
func TestHoldModel(t *testing.T) {
	dir := tree(t, map[string]string{
		"out/m": "secret", "d/m/file": "in", "d/m/up": "->../other", "d/other": "other", "d/l": "->m", "d/abs": "->DIR/d/m", "d/abs.gguf": "->DIR/d/m/file", "d/out": "->../out", "d/sub/l": "->../../out",
		"d/models--o--n/blobs/1": "blob", "d/models--o--n/snapshots/c/file": "->../../blobs/1",
	})
	d, err := source.Dir(filepath.Join(dir, "d"), source.Inside)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, x := range []struct{ name, file, holds, want string }{
		{"m", "file", ".", "in"}, {"l", "file", ".", "in"}, {"abs", "file", ".", "in"}, {"m/file", "file", "file", "in"}, {"abs.gguf", "file", "file", "in"}, {"other", "other", "other", "other"},
		{"m", "up", ".", ""}, {"out", "", "", ""}, {"out/m", "", "", ""}, {"sub/l/m", "", "", ""}, {"../out", "", "", ""}, {"nothing", "", "", ""},
		{"models--o--n/snapshots/c", "file", ".", "blob"},
	} {
		h, name, err := d.HoldModel(x.name)
		if (err == nil) != (x.holds != "") || name != x.holds {
			t.Errorf("%s: %q, %v", x.name, name, err)
			continue
		}
		if err != nil {
			continue
		}
		b, err := source.ReadSmall(h, x.file, 100)
		if string(b) != x.want || (err == nil) != (x.want != "") {
			t.Errorf("%s: %s: %q, %v", x.name, x.file, b, err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHandles: what has the path later is not opened, nor is what a link there leads to.
func TestHandles(t *testing.T) {
	for _, named := range []string{"d", "d/m", "l", "l/m", "lm"} {
		dir := tree(t, map[string]string{"d/m": "in", "d/x": "in", "other/m": "secret", "other/x": "secret", "l": "->d", "lm": "->d/m"})
		at := func(name string) string { return filepath.Join(dir, name) }
		d, name, err := source.Named(at(named), source.Inside)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := errors.Join(os.Rename(at("d"), at("away")), os.Symlink("other", at("d")), os.Remove(at("l")), os.Symlink("other", at("l")), os.Remove(at("lm")), os.Symlink("other/m", at("lm"))); err != nil {
			t.Fatal(err)
		}
		files := []string{"m", "x"}
		if named == "lm" {
			files = []string{"lm"}
		} else if name != "." && name != "m" {
			t.Fatal(name)
		}
		for _, file := range files {
			if b, err := source.ReadSmall(d, file, 100); string(b) != "in" {
				t.Errorf("%s: %s: %q, %v", named, file, b, err)
			}
		}
	}
}
