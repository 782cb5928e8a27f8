// Package packaging tests what scripts/package builds.
package packaging

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const version = "1.2.3-rc1"

// build runs scripts/package for this machine's architecture.
func build(t *testing.T, formats string) (dir string) {
	t.Helper()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("it builds packages, which takes a while, on Linux")
	}
	dir = t.TempDir()
	c := exec.Command("../package", version)
	c.Env = append(os.Environ(), "TARGETS=linux/"+runtime.GOARCH, "FORMATS="+formats, "DIST="+dir)
	out, err := c.CombinedOutput()
	if err != nil {
		if bytes.Contains(out, []byte("proxyconnect")) || bytes.Contains(out, []byte("dial tcp")) || bytes.Contains(out, []byte("module lookup disabled")) {
			t.Skipf("nfpm, which builds packages, is not in Go's cache and cannot be fetched: %s", bytes.TrimSpace(out))
		}
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed, which looks into packages", program)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestDeb(t *testing.T) {
	needs(t, "dpkg-deb")
	dir := build(t, "deb")
	deb := filepath.Join(dir, "tensorfs_1.2.3~rc1_"+runtime.GOARCH+".deb")
	for field, want := range map[string]string{"Package": "tensorfs", "Version": "1.2.3~rc1", "Architecture": runtime.GOARCH, "Recommends": "fuse3", "Depends": ""} {
		if got := strings.TrimSpace(output(t, "dpkg-deb", "-f", deb, field)); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	var files []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name := path[len(root):]
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case mode&os.ModeSymlink != 0:
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s leads to nothing: %v", name, err)
			}
		case d.IsDir() || name == "/usr/bin/tensorfs":
			if mode.Perm() != 0o755 {
				t.Errorf("%s has mode %o", name, mode.Perm())
			}
		case mode.Perm() != 0o644 || info.Size() == 0:
			t.Errorf("%s has mode %o and %d bytes", name, mode.Perm(), info.Size())
		}
		files = append(files, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/etc/tensorfs", "/usr/bin/tensorfs", "/usr/sbin/mount.tensorfs", "/usr/sbin/mount.fuse.tensorfs",
		"/usr/lib/modules-load.d/tensorfs.conf", "/usr/lib/systemd/system/tensorfs@.service",
		"/usr/share/bash-completion/completions/tensorfs", "/usr/share/fish/vendor_completions.d/tensorfs.fish", "/usr/share/zsh/vendor-completions/_tensorfs",
		"/usr/share/man/man1/tensorfs.1.gz", "/usr/share/man/man1/tensorfs-mount.1.gz", "/usr/share/man/man8/mount.tensorfs.8.gz",
		"/usr/share/doc/tensorfs/copyright", "/usr/share/doc/tensorfs/changelog.gz", "/usr/share/doc/tensorfs/THIRD-PARTY-LICENSES", "/usr/share/doc/tensorfs/README.md",
		"/usr/share/doc/tensorfs/CHANGELOG.md", "/usr/share/doc/tensorfs/docs/install.md", "/usr/share/doc/tensorfs/examples/llama.conf"} {
		if !slices.Contains(files, want) {
			t.Errorf("%s is missing", want)
		}
	}
	program := filepath.Join(root, "usr/bin/tensorfs")
	if out := output(t, program, "--version"); !strings.HasPrefix(out, "tensorfs 1.2.3~rc1 (") {
		t.Errorf("--version prints %q", out)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	licences, err := os.ReadFile(filepath.Join(root, "usr/share/doc/tensorfs/THIRD-PARTY-LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !bytes.Contains(licences, []byte(m.Path+" "+m.Version+"\n")) {
			t.Errorf("the licence of %s is missing", m.Path)
		}
	}
	page, err := os.Open(filepath.Join(root, "usr/share/man/man8/mount.tensorfs.8.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	z, err := gzip.NewReader(page)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || !bytes.Contains(text, []byte("tensorfs 1.2.3~rc1")) {
		t.Errorf("the page of mount.tensorfs: %v, %.80q", err, text)
	}

	// The same commit gives the same bytes, whenever and wherever it is built.
	again := filepath.Join(build(t, "deb"), filepath.Base(deb))
	a, aerr := os.ReadFile(deb)
	b, berr := os.ReadFile(again)
	if aerr != nil || berr != nil || !bytes.Equal(a, b) {
		t.Errorf("two runs give different packages (%v, %v)", aerr, berr)
	}
}

func TestVersions(t *testing.T) {
	for _, bad := range []string{"1", "1.2", "next", "1.2.3-", "1.2.3 4", "../1.2.3", "$(x)"} {
		c := exec.Command("../package", bad)
		c.Env = append(os.Environ(), "TARGETS=", "DIST="+t.TempDir())
		out, err := c.CombinedOutput()
		if c.ProcessState.ExitCode() != 2 || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%q: %v %s", bad, err, out)
		}
	}
}
