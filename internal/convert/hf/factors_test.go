package hf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// TestFactors compares hf/ and mlx/ of a model whose matrices are NVFP4, with factors beside them, with
// the directories of a model that has the products as F32.
func TestFactors(t *testing.T) {
	floats := func(list ...float32) (b tensorfs.Bytes) {
		for _, x := range list {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		return b
	}
	for _, c := range []struct {
		model, suffix string
		factor        float32
		exact         bool
	}{
		{"types", ".scale", 0.3125, true}, {"types", ".scale", 0.1, false}, {"types", ".weight.scale", 2, true}, {"qwen3moe.q4_0", ".scale", 0.75, true},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			packed, plain := partsOf(t, c.model), partsOf(t, c.model)
			random, weights, stacks := rand.New(rand.NewPCG(1, 2)), 0, 0
			for i, x := range packed.list {
				stem, ok := strings.CutSuffix(x.Name, ".weight")
				if !ok || len(x.Shape) < 2 || !strings.HasPrefix(x.Name, "blk.") || x.Shape[len(x.Shape)-1]%64 != 0 || strings.Contains(x.Name, "_inp") {
					continue
				}
				size, _ := tensorfs.NVFP4.Size(x.Shape)
				codes := make(tensorfs.Bytes, size)
				for at := range codes {
					codes[at] = byte(random.Uint32())
					if at%36 < 4 { // scales: up to 0x7E
						codes[at] %= 0x7F
					}
				}
				n := int64(1)
				if len(x.Shape) == 3 {
					n, stacks = x.Shape[0], stacks+1
				}
				factors := make([]float32, n)
				for e := range factors {
					factors[e] = c.factor * float32(int64(1)<<e)
				}
				packed.list[i].DType, packed.list[i].Data = tensorfs.NVFP4, codes
				packed.list = append(packed.list, gguf.Stored{Name: stem + c.suffix, DType: tensorfs.F32, Shape: []int64{n}, Data: floats(factors...)})
				if weights++; weights == 1 {
					packed.list = append(packed.list, gguf.Stored{Name: stem + strings.Replace(c.suffix, "scale", "input_scale", 1), DType: tensorfs.F32, Shape: []int64{1}, Data: floats(3)})
				}
				d, err := views.Encode(&tensorfs.Tensor{DType: tensorfs.NVFP4, Shape: x.Shape, Data: codes}, tensorfs.F32)
				if err != nil {
					t.Fatal(err)
				}
				products := testwhole.Read(t, d)
				for at := 0; at < len(products); at += 4 {
					y := math.Float32frombits(binary.LittleEndian.Uint32(products[at:])) * factors[at/(len(products)/int(n))]
					binary.LittleEndian.PutUint32(products[at:], math.Float32bits(y))
				}
				plain.list[i].DType, plain.list[i].Data = tensorfs.F32, tensorfs.Bytes(products)
			}
			if weights < 4 || strings.Contains(c.model, "moe") != (stacks > 0) {
				t.Fatalf("%d weights, %d stacks", weights, stacks)
			}
			want, err := plain.open(t)
			if err != nil {
				t.Fatal(err)
			}
			m, err := packed.open(t)
			if err != nil {
				t.Fatal(err)
			}
			if k := m.Tensor("layers.0.attention.k.weight"); k.Factor == "" || k.Factor != m.TensorBySource("blk.0.attn_k"+c.suffix).Name {
				t.Errorf("the factor of k is %q", k.Factor)
			}
			for _, k := range []*kind{hf, mlx} {
				got, want := files(m, k, convert.Options{}), files(want, k, convert.Options{})
				if got.Reason != "" || want.Reason != "" {
					t.Fatalf("%s: %s; %s", k.name, got.Reason, want.Reason)
				}
				if len(got.List) != len(want.List) {
					t.Fatalf("%s: %d files, and %d of the products", k.name, len(got.List), len(want.List))
				}
				for i, file := range got.List {
					a, b := testwhole.Read(t, file.Data), testwhole.Read(t, want.List[i].Data)
					if file.Path == weightsName { // the order differs: products are at no place of the file
						if x, y := numbersOf(t, a), numbersOf(t, b); !maps.Equal(x, y) || len(x) < weights {
							t.Errorf("%s: of %d tensors some differ from the products", k.name, len(x))
						}
					} else if !bytes.Equal(a, b) {
						t.Errorf("%s: %s differs from that of the products", k.name, file.Path)
					}
				}
				if text := strings.Join(got.Notes, "\n"); !strings.Contains(text, fmt.Sprintf("(X.scale of X.weight; weights: %d)", weights)) || !strings.Contains(text, "(X.input_scale of X.weight; weights: 1)") {
					t.Errorf("%s: notes %q", k.name, got.Notes)
				}
				if rounded := slices.ContainsFunc(got.Notes, func(s string) bool { return strings.Contains(s, "rounded to F32") }); rounded == c.exact || k == hf && got.Exact && !c.exact {
					t.Errorf("%s: exact %v, %q", k.name, got.Exact, got.Notes)
				}
			}
		})
	}
}

// numbersOf returns the type, the shape and the bytes of each tensor of a safetensors file.
func numbersOf(t *testing.T, file []byte) map[string]string {
	t.Helper()
	n := binary.LittleEndian.Uint64(file)
	header := map[string]struct {
		DType   string
		Shape   []int64
		Offsets [2]int `json:"data_offsets"`
	}{}
	if err := json.Unmarshal(file[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for name, x := range header {
		all[name] = fmt.Sprint(x.DType, x.Shape, file[8+n:][x.Offsets[0]:x.Offsets[1]])
	}
	return all
}
