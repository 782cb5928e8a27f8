package hf_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/x448/float16"
)

const testdata = "../../testdata"

func open(t testing.TB, dir string) *tensorfs.Model {
	t.Helper()
	m, err := hf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func read(t testing.TB, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func bySource(m *tensorfs.Model) map[string]*tensorfs.Tensor {
	all := make(map[string]*tensorfs.Tensor)
	for i := range m.Tensors {
		all[m.Tensors[i].Source] = &m.Tensors[i]
	}
	return all
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// toHalf converts scales to what packed buffers have.
func toHalf(t testing.TB, c *tensorfs.Tensor) []byte {
	b := read(t, c.Data)
	var out []byte
	switch c.DType {
	case tensorfs.BF16:
		for i := 0; i < len(b); i += 2 {
			f := math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[i:])) << 16)
			out = binary.LittleEndian.AppendUint16(out, float16.Fromfloat32(f).Bits())
		}
		return out
	case tensorfs.F16, tensorfs.U8:
		return b
	}
	t.Fatalf("scales of type %v", c.DType)
	return nil
}

// TestModels opens models that MLX wrote and compares every module's settings, shape and bytes with
// MLX's.
func TestModels(t *testing.T) {
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
			var want struct {
				Tensors map[string]struct {
					Kind, Mode, DType string
					Bits              int
					GroupSize         int `json:"group_size"`
					Shape             []int64
					ScaleDType        string `json:"scale_dtype"`
					RawSHA            string `json:"raw_sha256"`
					PackedBytes       int    `json:"packed_bytes"`
					PackedSHA         string `json:"packed_sha256"`
				}
			}
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			m := open(t, filepath.Join(testdata, "models-mlx", name))
			if m.Format != "mlx" || m.Layout != "hf" || len(m.Warnings) > 0 {
				t.Errorf("format %s, layout %s, warnings %q", m.Format, m.Layout, m.Warnings)
			}
			all := bySource(m)
			accounted := 0
			for module, w := range want.Tensors {
				if w.PackedSHA == "" {
					p := all[module]
					if p == nil || p.Quant != nil || p.Opaque != "" || p.Owner != "" || p.DType.String() != w.DType || !reflect.DeepEqual(p.Shape, w.Shape) || sum(read(t, p.Data)) != w.RawSHA {
						t.Errorf("%s: %+v", module, p)
					}
					accounted++
					continue
				}
				p := all[module+".weight"]
				if p == nil || p.Quant == nil {
					t.Errorf("%s: %+v has no Quant", module, p)
					continue
				}
				q := p.Quant
				if q.Mode != w.Mode || q.Bits != w.Bits || q.GroupSize != w.GroupSize || q.Weight != "" || q.Global != nil || !reflect.DeepEqual(q.Shape, w.Shape) || q.Scales.DType.String() != w.ScaleDType {
					t.Errorf("%s: %+v, want %+v", module, q, w)
				}
				packed := append(read(t, p.Data), toHalf(t, q.Scales)...)
				accounted += 2
				if q.Biases != nil {
					packed = append(packed, toHalf(t, q.Biases)...)
					accounted++
				}
				if len(packed) != w.PackedBytes || sum(packed) != w.PackedSHA {
					t.Errorf("%s: other packed bytes", module)
				}
				for _, c := range []*tensorfs.Tensor{q.Scales, q.Biases} {
					if c != nil && (c.Owner != p.Name || m.Tensor(c.Name).Owner != p.Name) {
						t.Errorf("%s: %s has the owner %q, not %q", module, c.Name, c.Owner, p.Name)
					}
				}
			}
			if accounted != len(m.Tensors) {
				t.Errorf("%d of %d tensors are accounted for", accounted, len(m.Tensors))
			}
		})
	}
}

// TestPair compares every tensor of a Hugging Face directory with its GGUF twin, by the recorded
// relation.
func TestPair(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata, "pairs", "llama", "relation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		DType string `json:"hf_dtype"`
		SHA   string `json:"hf_f32_sha256"`
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	m := open(t, filepath.Join(testdata, "pairs", "llama", "hf"))
	if m.Format != "huggingface" || m.Architecture != "llama" || len(m.Tensors) != len(want) {
		t.Errorf("format %s, architecture %s, %d tensors", m.Format, m.Architecture, len(m.Tensors))
	}
	for source, p := range bySource(m) {
		raw := read(t, p.Data)
		var wide []byte
		for i := 0; i < len(raw); i += 2 {
			f := float16.Frombits(binary.LittleEndian.Uint16(raw[i:])).Float32()
			wide = binary.LittleEndian.AppendUint32(wide, math.Float32bits(f))
		}
		if w := want[source]; p.DType.String() != w.DType || sum(wide) != w.SHA {
			t.Errorf("%s: %v, or other bytes", source, p.DType)
		}
	}
	if q := m.Tensor("layers.0.attention.q.weight"); q == nil || q.Source != "model.layers.0.self_attn.q_proj.weight" || !reflect.DeepEqual(q.Shape, []int64{128, 128}) {
		t.Errorf("%+v", q)
	}
}
