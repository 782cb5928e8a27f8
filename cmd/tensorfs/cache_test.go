package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/metal"
)

// fillCache puts a cell of a file of each source into a cache.
func fillCache(t *testing.T, dir string, sources ...string) *cache.Store {
	t.Helper()
	s, err := cache.Open(cache.Options{Dir: dir, Budget: 1 << 30, OnDisk: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, source := range sources {
		e := cacheEntry(t, s, source)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func cacheEntry(t *testing.T, s *cache.Store, source string) *cache.Entry {
	t.Helper()
	e, err := s.Entry(cache.ID{Key: source, Size: 3 * cache.CellSize, Source: source})
	if err == nil {
		_, err = e.WriteAt(make([]byte, cache.CellSize), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCacheDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	t.Setenv("TENSORFS_CACHE", dir)
	if code, out, stderr := command("cache", "dir"); code != 0 || out != dir+"\n" || stderr != "" {
		t.Error(code, out, stderr)
	}
	if _, out, _ := command("cache", "dir", "--cache", "/other"); out != "/other\n" {
		t.Error(out)
	}
	// What was never used is empty, and is not made.
	for args, want := range map[string]string{
		"list":        "CACHED  SIZE  WHOLE  IN USE  LAST USE  SOURCE\n\n0 files, 0 B on the disk\n",
		"list --json": "[]\n",
		"prune":       "0 files removed, 0 B\n",
		"prune --all": "0 files removed, 0 B\n",
	} {
		if code, out, stderr := command(append([]string{"cache"}, strings.Fields(args)...)...); code != 0 || out != want || stderr != "" {
			t.Errorf("%s: %d, %q, %q", args, code, out, stderr)
		}
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the directory was made")
	}
}

func TestCacheList(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TENSORFS_CACHE", dir)
	s := fillCache(t, dir, "hf:acme/tiny/model.gguf", "https://host/\x1b[2J.gguf")
	open := cacheEntry(t, s, "s3://b/open.gguf")
	defer open.Close()
	code, out, stderr := command("cache", "list")
	if lines := strings.Split(out, "\n"); code != 0 || stderr != "" || len(lines) != 7 ||
		!strings.HasPrefix(lines[1], "128.0 KiB  384.0 KiB  -      -       2") || !strings.HasSuffix(lines[1], "  hf:acme/tiny/model.gguf") ||
		!strings.HasSuffix(lines[2], `  "https://host/\x1b[2J.gguf"`) || !strings.Contains(lines[3], "-      yes") || !strings.HasPrefix(lines[5], "3 files, ") {
		t.Errorf("%d %s\n%s", code, stderr, out)
	}
	var list []map[string]any
	code, out, stderr = command("cache", "list", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || stderr != "" || len(list) != 3 {
		t.Fatal(code, out, stderr, err)
	}
	for key, want := range map[string]any{"source": "hf:acme/tiny/model.gguf", "bytes": 393216., "cached": 131072., "whole": false, "in_use": false} {
		if list[0][key] != want {
			t.Errorf("%s is %v", key, list[0][key])
		}
	}
	if list[2]["in_use"] != true || list[0]["last_use"] == nil {
		t.Error(list)
	}
}

func TestCachePrune(t *testing.T) {
	dir := t.TempDir()
	s := fillCache(t, dir, "hf:a/b/x.gguf", "hf:a/b/y.gguf", "hf:a/bc/z.gguf", "https://host/z.gguf")
	open := cacheEntry(t, s, "s3://b/open.gguf")
	defer open.Close()
	for _, test := range []struct {
		args string
		code int
		out  string // its beginning, or part of the error
		left int
	}{
		{"--all --size 1G", 2, "exclude each other", 5},
		{"--all x", 2, "exclude each other", 5},
		{"x y", 2, "usage: tensorfs cache prune", 5},
		{"[", 2, "[ without ]", 5},
		{"--size x", 2, "512M or 8G", 5},
		{"nothing", 1, "no file in the cache matches", 5},
		{"hf:a/b", 0, "2 files removed, ", 3},
		{"*z.gguf", 0, "2 files removed, ", 1},
		{"s3:*", 0, "0 files removed, 0 B; 1 file in use left\n", 1},
		{"--size 1G", 0, "0 files removed, 0 B\n", 1},
		{"", 0, "0 files removed, 0 B\n", 1},
		{"--all", 0, "0 files removed, 0 B; 1 file in use left\n", 1},
	} {
		code, out, stderr := command(append([]string{"cache", "prune", "--cache", dir}, strings.Fields(test.args)...)...)
		if code != test.code || code == 0 && (!strings.HasPrefix(out, test.out) || stderr != "") ||
			code != 0 && (!strings.Contains(stderr, test.out) || strings.Count(stderr, "\n") != 1) {
			t.Errorf("prune %s: %d, %q, %q", test.args, code, out, stderr)
		}
		if list, err := s.List(); len(list) != test.left || err != nil {
			t.Errorf("prune %s leaves %d, %v", test.args, len(list), err)
		}
	}
	if len(open.Missing(0, 1)) > 0 {
		t.Error("a file in use lost bytes")
	}
}

func TestCacheRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cache", "list", "--cache", dir}, 1, "chmod go-w " + dir},
		{[]string{"cache", "prune", "--cache", dir}, 1, "chmod go-w " + dir},
		{[]string{"cache", "lst"}, 2, `"lst" is not a command; did you mean list?`},
		{[]string{"cache", "list", "x"}, 2, "too many arguments; usage: tensorfs cache list"},
	} {
		code, _, stderr := command(test.args...)
		if code != test.code || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: %d, %q", test.args, code, stderr)
		}
	}
	if code, out, stderr := command("cache"); code != 0 || !strings.Contains(out, "cache prune") || stderr != "" {
		t.Error(code, out, stderr)
	}
}

// convertF16 keeps f16/ of a model in a cache, and returns what has it open.
func convertF16(t *testing.T, dir, model string) *metal.Loader {
	t.Helper()
	h, err := metal.NewHost(metal.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := metal.Open(model, metal.Options{CacheDir: dir, Device: h})
	if err != nil {
		t.Fatal(err)
	}
	var refs []metal.Ref
	for _, name := range l.Names("f16") {
		refs = append(refs, metal.Ref{View: "f16", Name: name})
	}
	set, err := l.Load(t.Context(), refs, metal.LoadOptions{Cache: metal.CacheReadWrite})
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Release(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestCacheConverted lists and prunes converted models beside remote files.
func TestCacheConverted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TENSORFS_CACHE", dir)
	s := fillCache(t, dir, "hf:acme/tiny/model.gguf")
	if err := convertF16(t, dir, q8).Close(); err != nil {
		t.Fatal(err)
	}
	open := convertF16(t, dir, "../../testdata/gguf/llama-xs.bf16.gguf")
	code, out, stderr := command("cache", "list")
	if lines := strings.Split(out, "\n"); code != 0 || stderr != "" || len(lines) != 7 ||
		!strings.HasSuffix(lines[2], "llama-xs.bf16.gguf (converted)") || !strings.Contains(lines[2], "yes    yes") || !strings.HasPrefix(lines[5], "1 file and 2 converted models, ") {
		t.Errorf("%d %s\n%s", code, stderr, out)
	}
	var list []cache.Info
	code, out, stderr = command("cache", "list", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || stderr != "" || len(list) != 3 {
		t.Fatal(code, out, stderr, err)
	}
	if list[0].Converted || !list[1].Converted || !list[1].InUse || !list[2].Converted || list[2].InUse || list[2].Bytes == 0 || !filepath.IsAbs(list[2].Source) {
		t.Errorf("%+v", list)
	}
	left := func(files, models int) {
		t.Helper()
		c, err := s.Converted()
		have, lerr := s.List()
		if err := errors.Join(err, lerr); err != nil {
			t.Fatal(err)
		}
		if n := len(c.List()); n != models || len(have) != files {
			t.Errorf("%d files and %d models are left", len(have), n)
		}
	}
	prune := func(want string, args ...string) {
		t.Helper()
		if code, out, stderr := command(append([]string{"cache", "prune"}, args...)...); code != 0 || stderr != "" || !strings.HasPrefix(out, want) {
			t.Errorf("prune %v: %d %q %q", args, code, out, stderr)
		}
	}
	prune("0 files removed, 0 B\n", "--size", "1G")
	prune("0 files and 1 converted model removed, ", "*q8_0*")
	left(1, 1)
	prune("0 files removed, 0 B; 0 files and 1 converted model in use left\n", "*bf16*")
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	// Sizes are of both together, and what was used last stays.
	keep := list[1].Disk + list[1].Disk/2
	prune("1 file removed, ", "--size", strconv.FormatInt(keep>>10, 10)+"K")
	left(0, 1)
	prune("0 files and 1 converted model removed, ", "--all")
	left(0, 0)
}
