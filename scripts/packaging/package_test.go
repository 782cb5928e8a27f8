// Package packaging tests what scripts/package and scripts/release build.
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

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("NOT TESTED: packages: %s is not installed, which looks into them", program)
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

// tryDeb looks at a package of Debian: its fields, its files with their modes, and what they contain.
func tryDeb(t *testing.T, dist, deb string) {
	needs(t, "dpkg-deb")
	tryPackage(undeb)(t, dist, deb)
	_, arch, _ := strings.Cut(strings.TrimSuffix(deb, ".deb"), packaged+"_")
	for field, want := range map[string]string{"Package": "tensorfs", "Version": packaged, "Architecture": arch, "Recommends": "fuse3", "Depends": ""} {
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
	if !bytes.Contains(licences, []byte("Copyright (c) Ollama")) {
		t.Error("formats/ollama/NOTICE is missing among the licences")
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
}

// compiler returns the C compiler that the go command takes; "" without one.
func compiler() string {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return ""
	}
	path, _ := exec.LookPath(strings.TrimSpace(string(out)))
	return path
}

// tryLibraryDeb looks at a package of the C interface for Debian. If it is for this machine, a program
// is built with it, and run.
func tryLibraryDeb(t *testing.T, dist, deb string) {
	needs(t, "dpkg-deb")
	tryLibrary(undeb)(t, dist, deb)
	_, arch, _ := strings.Cut(strings.TrimSuffix(deb, ".deb"), packaged+"_")
	for field, want := range map[string]string{"Package": "libtensorfs-dev", "Version": packaged, "Architecture": arch, "Section": "libdevel"} {
		if got := strings.TrimSpace(output(t, "dpkg-deb", "-f", deb, field)); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	if got := output(t, "dpkg-deb", "-f", deb, "Depends"); !strings.HasPrefix(got, "libc6 (>= 2.") {
		t.Errorf("it depends on %q", got)
	}
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	for _, name := range []string{"usr/include/tensorfs.h", "usr/lib/libtensorfs.so", "usr/lib/libtensorfs.a", "usr/lib/pkgconfig/tensorfs.pc",
		"usr/share/doc/libtensorfs-dev/THIRD-PARTY-LICENSES", "usr/share/doc/libtensorfs-dev/copyright"} {
		if st, err := os.Stat(filepath.Join(root, name)); err != nil || st.Mode().Perm()&0o444 != 0o444 || st.Size() == 0 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if arch != runtime.GOARCH {
		t.Logf("NOT TESTED: a program with the package, which is for %s", arch)
		return
	}
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Log("NOT TESTED: a program with the package, because there is no pkg-config")
		return
	}
	t.Setenv("PKG_CONFIG_PATH", filepath.Join(root, "usr/lib/pkgconfig"))
	program := filepath.Join(t.TempDir(), "engine")
	args := append([]string{"../../docs/examples/engine.c", "-o", program}, strings.Fields(output(t, "pkg-config", "--cflags", "--libs", "tensorfs"))...)
	output(t, compiler(), args...)
	t.Setenv("LD_LIBRARY_PATH", filepath.Join(root, "usr/lib"))
	if out := output(t, program, "../../testdata/gguf/llama-xs.q8_0.gguf", "raw", "output_norm.weight"); !strings.HasPrefix(out, "output_norm.weight F32 [64] 256 bytes, ") {
		t.Errorf("it prints %q", out)
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
