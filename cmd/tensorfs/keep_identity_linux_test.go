package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/models"
	"github.com/tensorfs/tensorfs/views"
)

// treeSum is a digest of all names and bytes of the tree of two models. After a change of what a model looks like, put
// the new digest here and raise treeVersion, once for each release: otherwise the next version of the program would
// continue mounts for which the kernel remembers other bytes.
const treeSum = "ef3da7a498571dd062f815be708ff3bb25df925516e1fb94ac9ec97def2f4b85"

// ofThisFile is a field of index.json that differs between checkouts.
var ofThisFile = regexp.MustCompile(`"(inode|mtime_ns|ctime_ns)":[0-9]+`)

func TestTreeVersion(t *testing.T) {
	h := sha256.New()
	for _, model := range []string{q8, "../../testdata/models-mlx/qwen3-mixed"} {
		path, err := filepath.Abs(model)
		must(t, err)
		tree, err := (&modelFlags{}).open(path)
		must(t, err)
		defer tree.Model.Close()
		place := []byte(filepath.Dir(path) + "/")
		must(t, tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
			fmt.Fprintf(h, "%q %v\n", path, e.Link != "")
			if e.Data == nil {
				return nil
			}
			b := make([]byte, e.Data.Size())
			err := tensorfs.ReadFull(e.Data, b, 0)
			h.Write(ofThisFile.ReplaceAll(bytes.ReplaceAll(b, place, nil), nil))
			return err
		}))
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != treeSum {
		t.Errorf("the trees have the digest %s, which was %s: if that is meant, note it here and raise treeVersion, now %d", sum, treeSum, treeVersion)
	}
}

// What the bytes of a mount follow from is part of its identity.
func TestIdentity(t *testing.T) {
	seen := map[string]string{}
	for _, f := range []struct {
		name  string
		model string
		flags *modelFlags
	}{
		{"as it is", q8, &modelFlags{}},
		{"another model", ggufDir + "llama-xs.q4_k_m.gguf", &modelFlags{}},
		{"a copy", copyOf(t, q8), &modelFlags{}},
		{"views", q8, &modelFlags{views: "raw"}},
		{"i2s", q8, &modelFlags{Options: models.Options{I2S: views.I2SLayouts[0]}}},
		{"types in gguf/", ggufDir + "llama-xs.f16.gguf", &modelFlags{Options: models.Options{Convert: models.Convert{GGUFType: "q8_0"}}}},
		{"other types in gguf/", ggufDir + "llama-xs.f16.gguf", &modelFlags{Options: models.Options{Convert: models.Convert{GGUFType: "q4_0"}}}},
	} {
		tree, err := f.flags.open(f.model)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		defer tree.Model.Close()
		id, err := f.flags.identity(tree)
		must(t, err)
		if again, err := f.flags.identity(tree); err != nil || again != id {
			t.Errorf("%s: another identity the second time, %v", f.name, err)
		}
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s have one identity", f.name, other)
		}
		seen[id] = f.name
	}
}
