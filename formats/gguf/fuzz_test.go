package gguf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// FuzzParse opens any bytes and reads all that the model then has.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{
		goldenDir + "/kv.gguf", goldenDir + "/nested.gguf", goldenDir + "/align*.gguf", goldenDir + "/v*.gguf", goldenDir + "/tl*.gguf",
		goldenDir + "/id39-mxfp4.gguf", "../../testdata/ggml/big_endian.gguf", "../../testdata/bitnet/i2s-128.gguf",
		hostileDir + "/valid/[a-z]*.gguf", hostileDir + "/split/*/*.gguf", hostileDir + "/o*.gguf",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			st, err := os.Stat(path)
			if err != nil {
				f.Fatal(err)
			}
			if !st.Mode().IsRegular() || st.Size() > 40_000 {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := OpenFS(memory.New(map[string][]byte{"m.gguf": b}), "m.gguf")
		if err != nil {
			checkRefusal(t, "/memory", err)
			return
		}
		readAll(t, m, map[string]int64{"m.gguf": int64(len(b))})
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}
