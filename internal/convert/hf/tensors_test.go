package hf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// goldenModels returns the names of models that have a file of that end.
func goldenModels(t testing.TB, end string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(tensorData, "whole-hf", "models", "*"+end))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), end))
	}
	return names
}

// TestGoldenConfigs holds that config.json describes the tensors as the tables' configs do.
func TestGoldenConfigs(t *testing.T) {
	for kind, make := range directories {
		for _, name := range goldenModels(t, "."+kind+".config.json") {
			t.Run(name+"."+kind, func(t *testing.T) {
				b, err := os.ReadFile(filepath.Join(tensorData, "whole-hf", "models", name+"."+kind+".config.json"))
				if err != nil {
					t.Fatal(err)
				}
				var want map[string]any
				if err := json.Unmarshal(b, &want); err != nil {
					t.Fatal(err)
				}
				got, err := make(testwhole.Golden(t, name))
				if err != nil {
					t.Fatal(err)
				}
				if got.Torch != want["torch_dtype"] {
					t.Errorf("torch_dtype is %s, want %v", got.Torch, want["torch_dtype"])
				}
				if (got.Quantization == nil) != (want["quantization"] == nil) {
					t.Errorf("quantization is %s, want %v", got.Quantization, want["quantization"])
				}
				if got.Quantization != nil {
					var q any
					if err := json.Unmarshal(got.Quantization, &q); err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(q, want["quantization"]) {
						t.Errorf("quantization is %s, want %v", got.Quantization, want["quantization"])
					}
				}
				if q, _ := want["quantization_config"].(map[string]any); got.Experts != (q["quant_method"] == "mxfp4") {
					t.Errorf("experts are packed: %v, want %v", got.Experts, q)
				}
			})
		}
	}
}

// TestGoldenAbsence: models without such a directory have a reason.
func TestGoldenAbsence(t *testing.T) {
	for kind, make := range directories {
		for _, name := range goldenModels(t, "."+kind+".absent") {
			got, err := make(testwhole.Golden(t, name))
			if err == nil || strings.ContainsAny(err.Error(), "\n") || !strings.Contains(err.Error(), "architecture") {
				t.Errorf("%s of %s: %+v, %v", kind, name, got, err)
			}
		}
	}
}

// composed returns the file of tensors.
func composed(t testing.TB, r result) tensorfs.Data {
	t.Helper()
	d, err := safetensors.Compose([][2]string{{"format", "pt"}}, r.List)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWindows holds that reads of any range give the same bytes as one read of the file, and that
// tensors are listed by their offset.
func TestWindows(t *testing.T) {
	for _, name := range []string{"types", "gpt-oss.mxfp4", "syn-gpt-oss-dense", "deepseek2.q4_k_m", "syn-gpt2", "syn-falcon-new", "syn-bloom", "gemma3.q4_0", "mlx-gpt-oss-mxfp4"} {
		for kind, make := range directories {
			r, err := make(testwhole.Golden(t, name))
			if err != nil {
				continue // not every model has both
			}
			t.Run(name+"."+kind, func(t *testing.T) {
				d := composed(t, r)
				want := testwhole.Read(t, d)
				random := rand.New(rand.NewPCG(1, 2))
				for range 400 {
					off := random.Int64N(d.Size())
					p := bytesOfLength(min(1+random.Int64N(1<<(2+random.IntN(18))), d.Size()-off))
					if err := tensorfs.ReadFull(d, p, off); err != nil || !bytes.Equal(p, want[off:off+int64(len(p))]) {
						t.Fatalf("%d bytes at %d: %v", len(p), off, err)
					}
				}
				at := d.Size()
				for _, s := range slices.Backward(r.List) {
					at -= s.Data.Size()
					_, width := s.DType.Block()
					if at%width != 0 || !bytes.Equal(want[at:at+s.Data.Size()], testwhole.Read(t, s.Data)) {
						t.Errorf("%s of %s is not at %d", s.Name, s.DType, at)
					}
				}
				if at%4096 != 0 {
					t.Errorf("the data begin at %d", at)
				}
			})
		}
	}
}

// float32At returns a number of many.
func float32At(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

func bytesOfLength(n int64) []byte { return make([]byte, n) }

// TestModulesAreExact: what MLX computes of a module is what ggml computes of the
// tensor, in F32, for every element. Zeros may differ in sign.
func TestModulesAreExact(t *testing.T) {
	modules := 0
	for _, name := range goldenModels(t, ".mlx.tsv") {
		m := testwhole.Golden(t, name)
		x, err := newTensors(m, purpose{mlx: true})
		if err != nil {
			t.Fatal(name, err)
		}
		for i := range m.Tensors {
			in := &m.Tensors[i]
			q, ok := views.Split(in)
			if !ok {
				continue
			}
			modules++
			want, err := views.Encode(in, tensorfs.F32)
			if err != nil {
				t.Fatal(err)
			}
			got, err := views.Encode(q, tensorfs.F32)
			if err != nil {
				t.Fatal(err)
			}
			a, b := testwhole.Read(t, want), testwhole.Read(t, got)
			for i := range len(a) / 4 {
				if x, y := float32At(a, i), float32At(b, i); x != y {
					t.Fatalf("%s: %s: number %d is %v, want %v", name, in.Source, i, y, x)
				}
			}
		}
		if r := x.finish(); len(x.modules) > 0 && r.Quantization == nil {
			t.Errorf("%s has modules that nothing says of", name)
		}
	}
	if modules < 60 {
		t.Errorf("only %d modules are compared", modules)
	}
}

// TestNotes holds that every rounding has a note.
func TestNotes(t *testing.T) {
	for name, exact := range map[string][2]bool{ // of hf/, of mlx/
		"llama-xs.f16": {true, false}, "llama-xs.f32": {true, true}, "llama-xs.q8_0": {false, false}, "mlx-llama-bf16": {true, true}, "types": {false, false},
	} {
		for i, make := range []func(*tensorfs.Model) (result, error){hfTensors, mlxTensors} {
			if i == 1 && strings.HasPrefix(name, "mlx-") {
				continue
			}
			r, err := make(testwhole.Golden(t, name))
			if err != nil {
				t.Fatal(name, err)
			}
			if r.Exact != exact[i] || r.Exact != (len(r.Notes) == 0) {
				t.Errorf("%s: exact is %v: %q", name, r.Exact, r.Notes)
			}
			n := 0
			for c := range maps.Values(r.Types) {
				n += c
			}
			if n != len(r.List) {
				t.Errorf("%s: %v are not %d tensors", name, r.Types, len(r.List))
			}
		}
	}
	r, err := hfTensors(testwhole.Golden(t, "llama-xs.q8_0"))
	if err != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "tensors are rounded to F16, the first is model.") {
		t.Errorf("%q, %v", r.Notes, err)
	}
}

// TestSourceOrder: within a size of elements the tensors are in the order of the
// model's file, also slices of stacks.
func TestSourceOrder(t *testing.T) {
	x, err := newTensors(testwhole.Golden(t, "qwen3moe.q4_0"), purpose{})
	if err != nil {
		t.Fatal(err)
	}
	x.finish()
	experts := 0
	for i, p := range x.list[1:] {
		last := x.list[i]
		if p.DType.Bits() == last.DType.Bits() && p.Offset <= last.Offset {
			t.Errorf("%s comes after %s", p.Name, last.Name)
		}
		if strings.Contains(p.Name, ".experts.") {
			experts++
		}
	}
	if experts != 2*3*4 {
		t.Errorf("%d tensors of experts", experts)
	}
}
