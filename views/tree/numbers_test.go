package tree

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/compare"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testclient"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// hostileNumbers replace each number of a config in turn. An allocation of such a length would be
// noticed.
var hostileNumbers = []string{"1000000000", "999999998", "2147483648", "4294967295", "9223372036854775807", "-1", "1e9", "0.5", "1e300"}

// numberIn finds the numbers of a JSON text that are values.
var numberIn = regexp.MustCompile(`[:\[,]\s*(-?[0-9][-+.eE0-9]*)`)

// fieldIn finds the names of fields that are numbers.
var fieldIn = regexp.MustCompile(`"(\w+)":\s*-?[0-9]`)

// affordable is what may be allocated for a model of so many bytes: the small
// models here need some of the first part, and none a multiple of it.
func affordable(size int) uint64 { return 24<<20 + 64*uint64(size) }

// TestNumbersOfConfig changes every number of config.json in turn, adds numbers that other models have, and looks
// into gguf/, hf/ and mlx/: whatever the numbers are, allocations are in proportion to the model's files.
func TestNumbersOfConfig(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(testdata, "whole-gguf", "*", "config.json"))
	if err != nil || len(dirs) < 20 {
		t.Fatal(dirs, err)
	}
	var models []*sample
	fields := []string{"head_dim", "sliding_window_pattern", "qk_rope_head_dim", "n_group", "num_nextn_predict_layers"}
	for _, s := range samples(t) {
		if slices.Contains(dirs, filepath.Join(testdata, filepath.FromSlash(s.name), "config.json")) {
			models = append(models, s)
			for _, m := range fieldIn.FindAllSubmatch(s.files["config.json"], -1) {
				fields = append(fields, string(m[1]))
			}
		}
	}
	slices.Sort(fields)
	fields = slices.Compact(fields)
	tried := 0
	for _, s := range models {
		text, size := s.files["config.json"], 0
		for _, b := range s.files {
			size += len(b)
		}
		try := func(before, with, after []byte) {
			if tried++; testing.Short() && tried%5 != 0 {
				return
			}
			files := maps.Clone(s.files)
			files["config.json"] = slices.Concat(before, with, after)
			what := fmt.Sprintf("%s with %s after %s", s.name, with, before[max(0, len(before)-40):])
			holdCost(t, what, size, func() { openWhole(t, what, files) })
		}
		for _, at := range numberIn.FindAllSubmatchIndex(text, -1) {
			for _, n := range hostileNumbers {
				try(text[:at[2]], []byte(n), text[at[3]:])
			}
		}
		for _, f := range fields { // of other models
			if !bytes.Contains(text, []byte(`"`+f+`"`)) {
				for _, n := range hostileNumbers[:2] {
					try(text[:1], []byte(`"`+f+`":`+n+`,`), text[1:])
				}
			}
		}
	}
	if tried < 2000 {
		t.Errorf("only %d numbers were tried", tried)
	}
}

// openWhole opens a model and makes its whole-model files.
func openWhole(t *testing.T, what string, files map[string][]byte) {
	t.Helper()
	m, err := formats.OpenFS(memory.New(files), ".")
	if err != nil {
		checkLine(t, err.Error())
		return
	}
	defer m.Close()
	makeWhole(t, what, m)
}

// makeWhole makes the whole-model files of a model.
func makeWhole(t *testing.T, what string, m *tensorfs.Model) {
	t.Helper()
	for _, k := range kinds {
		if f := k.make(m, convert.Options{}); f.Reason != "" {
			if len(f.Reason) > 1000 {
				t.Errorf("%s: the reason has %d bytes", what, len(f.Reason))
			}
			checkLine(t, f.Reason)
		}
	}
}

// holdCost holds what a function allocates against the size of a model.
func holdCost(t *testing.T, what string, size int, fn func()) {
	t.Helper()
	if n := testlimit.Allocated(fn); n > affordable(size) {
		t.Errorf("%s: %d bytes are allocated for %d of files", what, n, size)
	}
}

// TestNumbersOfMetadata is TestNumbersOfConfig for the metadata of GGUF files, also for a
// comparison with a directory.
func TestNumbersOfMetadata(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "whole-hf", "models", "*.gguf.gz"))
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	hf, err := formats.Open(filepath.Join(testdata, "whole-gguf", "llama3"))
	if err != nil {
		t.Fatal(err)
	}
	defer hf.Close()
	tried := 0
	for _, file := range files {
		m, err := formats.OpenFS(memory.New(map[string][]byte{"m.gguf": testclient.Unpack(t, file)}), "m.gguf")
		if err != nil {
			t.Fatal(err)
		}
		stored := m.Metadata
		for i, e := range stored {
			for _, n := range hostileValues(e.Value) {
				m.Metadata = slices.Clone(stored)
				m.Metadata[i].Value = n
				tried++
				what := fmt.Sprintf("%s with %s %v", filepath.Base(file), e.Key, n)
				holdCost(t, what, 1<<20, func() {
					makeWhole(t, what, m)
					config.FromGGUF(func(key string) (any, bool) {
						i := slices.IndexFunc(m.Metadata, func(e tensorfs.Meta) bool { return e.Key == key })
						if i < 0 {
							return nil, false
						}
						return m.Metadata[i].Value, true
					}, nil, 0)
				})
				if strings.HasPrefix(e.Key, "llama.") {
					holdCost(t, what+" in pairs", 1<<20, func() { compare.Of(m, hf) })
				}
			}
		}
		m.Metadata = stored
		m.Close()
	}
	if tried < 300 {
		t.Errorf("only %d numbers were tried", tried)
	}
}

// hostileValues are what a number of metadata may be instead, in its own type and in
// others; none for what is no number.
func hostileValues(v any) []any {
	switch v.(type) {
	case uint8, uint16, uint32, uint64, int8, int16, int32, int64:
		return []any{uint32(1_000_000_000), uint64(1 << 31), int64(-1), uint64(1 << 63), uint32(1<<32 - 1), uint32(0)}
	case float32, float64:
		return []any{float32(1e9), float32(-1), float32(3e38), uint32(1_000_000_000)}
	}
	return nil
}

// TestRowsOfNothing holds that tensors of many rows and no bytes, which a shape may
// have, make nothing long.
func TestRowsOfNothing(t *testing.T) {
	s := &sample{files: map[string][]byte{}}
	for _, other := range samples(t) {
		if other.name == "whole-gguf/llama3" {
			s = other
		}
	}
	m, err := formats.OpenFS(memory.New(s.files), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, c := range []struct {
		tensor string
		shape  []int64
	}{
		{"model.embed_tokens.weight", []int64{1 << 24, 0}},
		{"model.embed_tokens.weight", []int64{1 << 22, 1}},
		{"model.layers.0.self_attn.q_proj.weight", []int64{1 << 30, 0}},
		{"model.layers.0.mlp.down_proj.weight", []int64{1 << 40, 0}},
	} {
		list := []safetensors.Stored(nil)
		found := false
		for i := range m.Tensors {
			e := safetensors.Stored{Name: m.Tensors[i].Source, DType: m.Tensors[i].DType, Shape: m.Tensors[i].Shape, Data: m.Tensors[i].Data}
			if e.Name == c.tensor {
				n, _ := tensorfs.Elements(c.shape)
				e.Shape, e.Data, found = c.shape, tensorfs.Bytes(make([]byte, 2*n)), true
			}
			list = append(list, e)
		}
		if !found {
			t.Fatalf("the model has no %s", c.tensor)
		}
		d, err := safetensors.Compose(nil, list)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, d.Size())
		if err := tensorfs.ReadFull(d, b, 0); err != nil {
			t.Fatal(err)
		}
		files := maps.Clone(s.files)
		files["model.safetensors"] = b
		what := fmt.Sprintf("%s of shape %v", c.tensor, c.shape)
		holdCost(t, what, len(b), func() { openWhole(t, what, files) })
	}
}
