package testclient

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Unpack returns the content of a gzipped file.
func Unpack(tb testing.TB, file string) []byte {
	tb.Helper()
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// UnpackDir returns a copy of a directory whose large files are gzipped.
func UnpackDir(tb testing.TB, from string) string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("%s: %d files, %v", from, len(files), err)
	}
	dir := tb.TempDir()
	for _, file := range files {
		name, packed := strings.CutSuffix(filepath.Base(file), ".gz")
		var b []byte
		if packed {
			b = Unpack(tb, file)
		} else if b, err = os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}
