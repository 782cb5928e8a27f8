package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// These tests use an installation of scripts/build-capi from outside the tree, as an independent
// program does.

// workDir holds what is built once, until the tests end.
var workDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tensorfs-capi")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	workDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// tool returns the first of the programs that there is, or skips.
func tool(t *testing.T, what string, names ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("not in the short form: it needs a C compiler and its tools")
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Skipf("NOT TESTED: %s, because none of these is installed: %s", what, strings.Join(names, ", "))
	return ""
}

// output runs a program, which must succeed and write no warnings.
func output(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%q: %v\n%s%s", c.Args, err, out, stderr.Bytes())
	}
	return string(out)
}

// prefix returns where the C interface is installed.
func prefix(t *testing.T) string {
	t.Helper()
	tool(t, "the C interface", os.Getenv("CC"), "cc", "gcc", "clang")
	dir, err := install()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var install = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(workDir, "a prefix") // a space, as in the names of Macs' disks
	if out, err := exec.Command("../../scripts/build-capi", "--prefix", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build-capi: %w\n%s", err, out)
	}
	return dir, nil
})

// pkgConfig returns pkg-config's answer about the installed library.
func pkgConfig(t *testing.T, args ...string) []string {
	t.Helper()
	c := exec.Command(tool(t, "the installed library", "pkg-config", "pkgconf"), append(args, "tensorfs")...)
	c.Env = append(os.Environ(), "PKG_CONFIG_PATH="+filepath.Join(prefix(t), "lib/pkgconfig"))
	// It escapes spaces; a shell would take them back.
	out := strings.ReplaceAll(strings.TrimSpace(output(t, c)), `\ `, "\x00")
	words := strings.Fields(out)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "\x00", " ")
	}
	return words
}

// compile builds a program with the installed library and returns it. A .c file is
// C and anything else is C++.
func compile(t *testing.T, source string, flags ...string) string {
	t.Helper()
	source, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	cc, std := tool(t, source, "c++", "g++", "clang++"), "-std=c++11"
	if filepath.Ext(source) == ".c" {
		cc, std = tool(t, source, os.Getenv("CC"), "cc", "gcc", "clang"), "-std=c11"
	}
	program := filepath.Join(t.TempDir(), "program")
	args := append([]string{std, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-pthread", "-o", program, source}, flags...)
	args = append(args, pkgConfig(t, "--cflags", "--libs")...)
	args = append(args, "-Wl,-rpath,"+filepath.Join(prefix(t), "lib"))
	if strings.HasSuffix(source, "testdata/fork.c") {
		args = append(args, "-D_DEFAULT_SOURCE")
	}
	c := exec.Command(cc, args...)
	c.Dir = t.TempDir()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", c.Args, err, out)
	}
	return program
}

func TestInstalledFiles(t *testing.T) {
	dir := prefix(t)
	shared, link := "libtensorfs.so.1", "libtensorfs.so"
	if runtime.GOOS == "darwin" {
		shared, link = "libtensorfs.1.dylib", "libtensorfs.dylib"
	}
	for _, name := range []string{"include/tensorfs.h", "include/tensorfs/module.modulemap", "lib/libtensorfs.a", "lib/pkgconfig/tensorfs.pc", "lib/" + shared} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "lib", link)); err != nil || to != shared {
		t.Errorf("%s leads to %q: %v", link, to, err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`#define TENSORFS_VERSION_\w+ (\d+)`).FindAllStringSubmatch(declarations(t), -1) {
		want = append(want, m[1])
	}
	if v := pkgConfig(t, "--modversion"); len(v) != 1 || len(want) != 3 || v[0] != strings.Join(want, ".") {
		t.Errorf("pkg-config says version %q, and tensorfs.h %q", v, want)
	}
	if out, err := exec.Command("../../scripts/build-capi", "--nonsense").CombinedOutput(); err == nil || !strings.Contains(string(out), "Usage:") {
		t.Errorf("an unknown option: %v, %s", err, out)
	}
}

// The shared library shows the functions of tensorfs.h and nothing else, and has
// the name that programs are to remember.
func TestSymbols(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: symbols, because nm has other options here")
	}
	lib := filepath.Join(prefix(t), "lib/libtensorfs.so")
	var got []string
	for line := range strings.Lines(output(t, exec.Command(tool(t, "symbols", "nm"), "-D", "--defined-only", lib))) {
		got = append(got, strings.Fields(line)[2])
	}
	want := functions(t)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the library shows\n%q\nand tensorfs.h has\n%q", got, want)
	}
	if out := output(t, exec.Command(tool(t, "the name of the library", "readelf"), "-d", lib)); !strings.Contains(out, "soname: [libtensorfs.so.1]") {
		t.Errorf("its name is not libtensorfs.so.1:\n%s", out)
	}
}

// The archive links as well, with all that must be in it.
func TestArchive(t *testing.T) {
	dir := prefix(t)
	program := filepath.Join(t.TempDir(), "fork")
	args := []string{"-I", filepath.Join(dir, "include"), "-o", program, "testdata/fork.c", filepath.Join(dir, "lib/libtensorfs.a"), "-lpthread"}
	if runtime.GOOS == "darwin" {
		args = append(args, "-framework", "CoreFoundation")
	}
	if out, err := exec.Command(tool(t, "the archive", os.Getenv("CC"), "cc", "gcc", "clang"), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	output(t, exec.Command(program, golden))
}
