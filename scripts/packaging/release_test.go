package packaging

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// all makes TestRelease build what a release has, and not this machine's part of it.
var all = flag.Bool("all", false, "in TestRelease, all platforms and the wheels, and Go 1.21: about a quarter of an hour on two cores")

// packaged is version as packages write it.
const packaged = "1.2.3~rc1"

// kinds describes how each file of a release is tried, by the first pattern that its path matches.
// Every file must have one.
var kinds = []struct {
	pattern string
	try     func(t *testing.T, dist, file string)
}{
	{"SHA256SUMS", trySums},
	{"libtensorfs*.tar.gz", tryLibrary(untar)},
	{"libtensorfs*.deb", tryLibraryDeb},
	{"libtensorfs*.rpm", tryLibrary(unrpm)},
	{"tensorfs_*.deb", tryDeb},
	{"tensorfs_*.apk", tryPackage(untar)}, // three streams of gzip, one after the other
	{"tensorfs-*.rpm", tryRPM},
	{"tensorfs_models-*.whl", tryWheel},
	{"tensorfs-csi-*-image.tar", tryImage("tensorfs-csi")},
	{"tensorfs-*-image.tar", tryImage("tensorfs")},
	{"tensorfs-*.cdx.json", tryParts},
	{"tensorfs-*-linux-*.tar.gz", tryPackage(untar)},
	{"tensorfs-*-darwin-*.tar.gz", tryPackage(untar)},
	{"tensorfs-" + packaged + ".tar.gz", trySources},
	{"tensorfs-*-linux-*", tryProgram},
	{"tensorfs-*-darwin-*", tryProgram},
	{"tensorfs.rb", tryFormula},
	{"goproxy/*/*/*/@v/*.zip", tryInstall},
	{"goproxy/*/*/*/@v/*", func(*testing.T, string, string) {}}, // which that reads
}

// TestRelease builds the files of a release twice, in two directories, whose bytes must be
// the same, and installs or unpacks each and runs it, where this machine can.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("not in the short form: it builds a release")
	}
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: releases, which are built on Linux")
	}
	dist := t.TempDir()
	write(t, filepath.Join(dist, "tensorfs_models-0.0.1-py3-none-any.whl"), "scripts/wheel was here")
	write(t, filepath.Join(dist, "goproxy", "old.zip"), "a release was interrupted")
	c := exec.Command("../release", "--check", "--trial", version)
	c.Env = append(os.Environ(), "DIST="+dist)
	if !*all {
		c.Env = append(c.Env, "TARGETS=linux/"+runtime.GOARCH, "WHEELS=")
	}
	out, err := c.CombinedOutput()
	if err != nil {
		skipOffline(t, out)
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if left, ok := strings.CutPrefix(line, "LEFT OUT: "); ok {
			t.Logf("NOT TESTED: %s", left)
		}
	}
	used := map[string]bool{}
	for _, file := range files(t, dist) {
		name := "none"
		for _, k := range kinds {
			if ok, err := path.Match(k.pattern, file); err != nil || !ok {
				continue
			}
			name, used[k.pattern] = k.pattern, true
			t.Run(path.Base(file), func(t *testing.T) { k.try(t, dist, filepath.Join(dist, file)) })
			break
		}
		if name == "none" {
			t.Errorf("nothing tries %s", file)
		}
	}
	for _, k := range kinds {
		if *all && !used[k.pattern] {
			t.Errorf("the release has no %s:\n%s", k.pattern, out)
		}
	}
}

// skipOffline skips a test whose program found no network, which its modules come from.
func skipOffline(t *testing.T, said []byte) {
	t.Helper()
	for _, lack := range []string{"proxyconnect", "dial tcp", "module lookup disabled"} {
		if bytes.Contains(said, []byte(lack)) {
			t.Skipf("NOT TESTED: what it takes is not in Go's cache and cannot be fetched: %s", bytes.TrimSpace(said))
		}
	}
}

// files are those below a directory, with slashes, in order.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, filepath.ToSlash(path[len(dir)+1:]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func digest(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// trySums holds that the list has all other files with their digests.
func trySums(t *testing.T, dist, file string) {
	var want strings.Builder
	for _, name := range files(t, dist) {
		if name != "SHA256SUMS" {
			fmt.Fprintf(&want, "%s  %s\n", digest(t, filepath.Join(dist, name)), name)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want.String() {
		t.Errorf("%v, it has\n%swant\n%s", err, got, want.String())
	}
}

// tryFormula holds the formula to the archive beside it.
func tryFormula(t *testing.T, dist, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if rest := regexp.MustCompile(`@[A-Z0-9]+@`).Find(text); rest != nil {
		t.Errorf("%s is left in it", rest)
	}
	for _, want := range []string{
		`sha256 "` + digest(t, filepath.Join(dist, "tensorfs-"+packaged+".tar.gz")) + `"`,
		`/releases/download/v1.2.3-rc1/tensorfs-` + packaged + `.tar.gz"`, `version "` + packaged + `"`,
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Log("NOT TESTED: the formula's grammar, because there is no ruby")
		return
	}
	output(t, "ruby", "-c", file)
}

// trySources builds the archive of sources as the formula does, and runs that. The archive has no data of tests.
func trySources(t *testing.T, _, file string) {
	if st, err := os.Stat(file); err != nil || st.Size() > 6<<20 {
		t.Errorf("the archive has %d bytes, %v: does .gitattributes leave out what only tests of a clone read?", st.Size(), err)
	}
	dir := t.TempDir()
	untar(t, file, dir)
	dir = filepath.Join(dir, "tensorfs-"+packaged)
	tracked := []string{"testdata/go.mod", "testdata/gguf/kv.gguf", "testdata/gguf/llama-xs.q8_0.gguf"} // the formula's and the demo's
	for _, name := range strings.Split(output(t, "git", "-C", "../..", "ls-files"), "\n") {
		if strings.HasPrefix(name, "testdata/") {
			continue
		}
		if _, err := os.Lstat(filepath.Join("../..", name)); err == nil && name != "" {
			tracked = append(tracked, name)
		}
	}
	if got := files(t, dir); len(got) != len(tracked) {
		t.Errorf("it has %d files, git %d", len(got), len(tracked))
	}
	program := filepath.Join(t.TempDir(), "tensorfs")
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.release="+packaged, "-o", program, "./cmd/tensorfs")
	c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run(t, program, packaged)
}

// tryInstall installs the program from only this proxy. Other modules come from their usual proxy,
// into an empty cache. Little is fetched.
func tryInstall(t *testing.T, dist, file string) {
	if st, err := os.Stat(file); err != nil || st.Size() > 8<<20 {
		t.Errorf("the module has %d bytes, %v: is there anything in it that only tests of a clone read?", st.Size(), err)
	}
	env := func(more ...string) []string {
		return append(append(os.Environ(), "GOPROXY=file://"+filepath.ToSlash(dist)+"/goproxy,"+strings.TrimSpace(output(t, "go", "env", "GOPROXY")),
			"GONOSUMDB=github.com/tensorfs/tensorfs", "GOFLAGS=-trimpath -modcacherw", "CGO_ENABLED=0"), more...)
	}
	const what = "github.com/tensorfs/tensorfs/cmd/tensorfs@v" + version
	cache, bin := t.TempDir(), t.TempDir()
	c := exec.Command("go", "install", what)
	c.Dir, c.Env = bin, env("GOMODCACHE="+cache, "GOBIN="+bin)
	if out, err := c.CombinedOutput(); err != nil {
		skipOffline(t, out)
		t.Fatalf("%v\n%s", err, out)
	}
	run(t, filepath.Join(bin, "tensorfs"), version)
	if !*all {
		return
	}
	// The oldest Go that takes go.mod: it fetches a newer one, and builds with that.
	const old = "go1.21.13"
	c = exec.Command("go", "env", "GOROOT")
	c.Dir, c.Env = bin, env("GOMODCACHE="+cache, "GOTOOLCHAIN="+old)
	root, err := c.Output()
	if err != nil {
		t.Fatalf("%s cannot be had: %v", old, err)
	}
	bin = t.TempDir()
	c = exec.Command(filepath.Join(strings.TrimSpace(string(root)), "bin", "go"), "install", what)
	c.Dir, c.Env = bin, env("GOMODCACHE="+cache, "GOBIN="+bin, "GOTOOLCHAIN=auto", "GOROOT=")
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("switching to go1.")) {
		t.Fatalf("%s: %v\n%s", old, err, out)
	}
	run(t, filepath.Join(bin, "tensorfs"), version)
}
