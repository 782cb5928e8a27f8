package formats_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views"
)

const testdata = "../testdata"

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// built opens a model and returns its views by name.
func built(t *testing.T, path string, opts views.Options) map[string]views.Built {
	t.Helper()
	m, err := formats.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	all := map[string]views.Built{}
	for _, b := range views.Build(m, opts) {
		all[b.Name] = b
	}
	return all
}

// bySource returns a view's tensors by their names in the model's files.
func bySource(b views.Built) map[string]tensorfs.Tensor {
	all := map[string]tensorfs.Tensor{}
	for i := range b.Tensors.Len() {
		x := b.Tensors.At(i)
		all[x.Source] = x
	}
	return all
}

// sums reads lines of a digest and a name.
func sums(t *testing.T, path string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(b)) {
		digest, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("%s: line %q", path, line)
		}
		all[name] = digest
	}
	return all
}

// quiet gives every NaN the payload that rounding gives it. Halves that are
// stored pass unchanged, with the payloads they have.
func quiet(halves []byte) []byte {
	for i := 0; i < len(halves); i += 2 {
		if h := binary.LittleEndian.Uint16(halves[i:]); h&0x7c00 == 0x7c00 && h&0x3ff != 0 {
			binary.LittleEndian.PutUint16(halves[i:], h&0x8000|0x7e00)
		}
	}
	return halves
}

// quietNaNs gives every NaN of a type the payload of one that was computed.
func quietNaNs(d tensorfs.DType, b []byte) []byte {
	for i := 0; i < len(b); i += int(d.Bits() / 8) {
		if d == tensorfs.BF16 {
			if h := binary.LittleEndian.Uint16(b[i:]); h&0x7fff > 0x7f80 {
				binary.LittleEndian.PutUint16(b[i:], h&0x8000|0x7fc0)
			}
		} else if x := binary.LittleEndian.Uint32(b[i:]); x&0x7fffffff > 0x7f800000 {
			binary.LittleEndian.PutUint32(b[i:], x&0x80000000|0x7fc00000)
		}
	}
	return b
}

// checkHalves compares f16/ with digests by source name and returns how many
// there were. "-" is a tensor that f16/ must not have.
func checkHalves(t *testing.T, b views.Built, want map[string]string) (checked int) {
	t.Helper()
	have := bySource(b)
	for name, digest := range want {
		x, ok := have[name]
		switch {
		case digest == "-" && ok:
			t.Errorf("f16/ has %s", name)
		case digest == "-":
			checked++
		case !ok:
			t.Errorf("f16/ has no %s", name)
		case sum(content(t, x.Data)) != digest && sum(quiet(content(t, x.Data))) != digest:
			t.Errorf("f16/ has other numbers for %s (%v)", name, x.Shape)
		default:
			checked++
		}
	}
	return checked
}

// TestGoldenGGUF compares f16/ of files that ggml wrote with ggml's own numbers,
// each rounded once.
func TestGoldenGGUF(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata, "gguf", "tensors.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if f[0] == "file" {
			continue
		}
		if files[f[0]] == nil {
			files[f[0]] = map[string]string{}
		}
		files[f[0]][f[1]] = f[7]
		if f[7] == "" {
			files[f[0]][f[1]] = "-"
		}
	}
	if len(files) < 10 {
		t.Fatalf("%d files", len(files))
	}
	for file, want := range files {
		t.Run(file, func(t *testing.T) {
			if n := checkHalves(t, built(t, filepath.Join(testdata, "gguf", file), views.Options{})["f16"], want); n == 0 {
				t.Error("nothing to compare")
			}
		})
	}
	types := sums(t, filepath.Join(testdata, "ggml", "types.f16.sha256"))
	for file, least := range map[string]int{"types.gguf": 60, "big_endian.gguf": 8} {
		t.Run(file, func(t *testing.T) {
			all := built(t, filepath.Join(testdata, "ggml", file), views.Options{})
			want := map[string]string{}
			for name := range bySource(all["raw"]) {
				if digest, ok := types[name]; ok {
					want[name] = digest
				}
			}
			if n := checkHalves(t, all["f16"], want); n < least {
				t.Errorf("%d tensors compared", n)
			}
			for _, view := range []string{"f32", "bf16"} {
				digests := sums(t, filepath.Join(testdata, "ggml", "types."+view+".sha256"))
				have := bySource(all[view])
				if len(have) != len(want) {
					t.Errorf("%s/ has %d tensors, want %d", view, len(have), len(want))
				}
				for name := range want {
					if x := have[name]; x.Data == nil || sum(quietNaNs(x.DType, content(t, x.Data))) != digests[name] {
						t.Errorf("%s/ has other numbers for %s (%v)", view, name, x.Shape)
					}
				}
			}
		})
	}
}

// TestGoldenBitNet reads each order of I2_S as what it is.
func TestGoldenBitNet(t *testing.T) {
	dir := filepath.Join(testdata, "bitnet")
	scaled, bare := map[string]string{}, map[string]string{}
	for name, digest := range sums(t, filepath.Join(dir, "i2s.f16.sha256")) {
		if name, ok := strings.CutPrefix(name, "trinity:"); ok {
			bare[name] = digest
		} else {
			scaled[name] = digest
		}
	}
	for _, test := range []struct {
		file, layout string
		want         map[string]string
	}{
		{"i2s-128.gguf", "", scaled},
		{"i2s-128.gguf", "128", scaled},
		{"i2s-64-arm.gguf", "64", scaled},
		{"i2s-rows4.gguf", "rows4", scaled},
		{"i2s-trinity.gguf", "", bare},
		{"i2s-trinity.gguf", "trinity", bare},
	} {
		t.Run(test.file+" as "+test.layout, func(t *testing.T) {
			if n := checkHalves(t, built(t, filepath.Join(dir, test.file), views.Options{I2S: test.layout})["f16"], test.want); n < 3 {
				t.Errorf("%d tensors compared", n)
			}
		})
	}
}

// mlxGolden is what MLX computes from a model.
type mlxGolden struct {
	Tensors map[string]mlxModule
	Fused   map[string]mlxModule
}

type mlxModule struct {
	Members []string // of a fused group
	Shape   []int64
	F16     string `json:"f16_sha256"`
	Packed  string `json:"packed_sha256"` // "" if it is impossible, or for plain tensors
	Bytes   int64  `json:"packed_bytes"`
}

// TestGoldenMLX compares f16/, packed/ and the fused views of models that MLX wrote with MLX's
// results.
func TestGoldenMLX(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "models-mlx", "expected", "*.json"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want mlxGolden
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			all := built(t, filepath.Join(testdata, "models-mlx", name), views.Options{})
			halves, packed, fused, fusedHalves := bySource(all["f16"]), bySource(all["packed"]), bySource(all["fused"]), bySource(all["fused-f16"])
			for module, w := range want.Tensors {
				source := module
				if w.Packed != "" {
					source += ".weight"
				}
				checkModule(t, "f16", halves, source, w.Shape, w.F16)
				if w.Packed != "" {
					checkModule(t, "packed", packed, source, w.Shape, w.Packed)
				}
			}
			for group, w := range want.Fused {
				source := strings.Join(w.Members, ".weight+") + ".weight"
				checkModule(t, "fused-f16", fusedHalves, source, w.Shape, w.F16)
				if _, has := fused[source]; has != (w.Packed != "") {
					t.Errorf("fused/ has %s: %v", group, has)
				} else if has {
					checkModule(t, "fused", fused, source, w.Shape, w.Packed)
					if n := fused[source].Data.Size(); n != w.Bytes {
						t.Errorf("fused/ has %d bytes of %s, want %d", n, group, w.Bytes)
					}
				}
			}
		})
	}
}

func checkModule(t *testing.T, view string, have map[string]tensorfs.Tensor, source string, shape []int64, digest string) {
	t.Helper()
	x, ok := have[source]
	if !ok {
		t.Errorf("%s/ has no %s", view, source)
		return
	}
	if !slices.Equal(x.Shape, shape) || digest != "" && sum(content(t, x.Data)) != digest {
		t.Errorf("%s/ has other bytes for %s %v, want shape %v", view, source, x.Shape, shape)
	}
}

// TestFusedGGUF joins the contents of GGUF files by hand: the blocks of q, k and
// v back to back, and gate before up for each expert.
func TestFusedGGUF(t *testing.T) {
	for _, test := range []struct {
		file, fused string
		parts       []string
	}{
		{"llama-xs.q8_0.gguf", "layers.1.attention.qkv.weight", []string{"layers.1.attention.q.weight", "layers.1.attention.k.weight", "layers.1.attention.v.weight"}},
		{"qwen3moe.q4_0.gguf", "layers.0.ffn.experts.gate_up.weight", []string{"layers.0.ffn.experts.gate.weight", "layers.0.ffn.experts.up.weight"}},
	} {
		all := built(t, filepath.Join(testdata, "gguf", test.file), views.Options{})
		at := func(view, name string) tensorfs.Tensor {
			i, ok := views.Find(all[view].Tensors, name)
			if !ok {
				t.Fatalf("%s: %s/ has no %s; %d absent", test.file, view, name, all[view].Absent.Len())
			}
			return all[view].Tensors.At(i)
		}
		x := at("fused", test.fused)
		experts := 1
		if len(x.Shape) == 3 {
			experts = int(x.Shape[0])
		}
		var want []byte
		for e := range experts {
			for _, part := range test.parts {
				b := content(t, at("raw", part).Data)
				n := len(b) / experts
				want = append(want, b[e*n:][:n]...)
			}
		}
		if !bytes.Equal(content(t, x.Data), want) || len(tensorfs.Extents(x.Data)) != experts*len(test.parts) {
			t.Errorf("%s %v: other bytes, or %d extents", x.Name, x.Shape, len(tensorfs.Extents(x.Data)))
		}
	}
}
