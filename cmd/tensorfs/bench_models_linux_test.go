package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"

	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// benchModel is a model that was written for benchmarks.
type benchModel struct {
	path string // what tensorfs takes
	file string // that holds the numbers, the first of them
	out  int64  // bytes of the numbers as f16
}

// benchTensor is the one tensor of the large models, benchCols the length of its
// rows.
const (
	benchTensor = "output.weight"
	benchCols   = 4096
)

// pattern makes bytes ordinary numbers of a type: random, but with fixed values
// at some places in each block, so that scales are neither zero nor infinite.
type pattern struct {
	block int
	tops  []int // upper bytes of the floats that matter
	top   byte
}

const (
	topF16 = 0x2c // about 1/16
	topF32 = 0x3d // the same in F32 and BF16
)

var patterns = map[tensorfs.DType]pattern{
	tensorfs.F32:  {4, []int{3}, topF32},
	tensorfs.BF16: {2, []int{1}, topF32},
	tensorfs.F16:  {2, []int{1}, topF16},
	tensorfs.Q8_0: {34, []int{1}, topF16},
	tensorfs.Q4_K: {144, []int{1, 3}, topF16},
	tensorfs.Q6_K: {210, []int{209}, topF16},
	tensorfs.U32:  {4, nil, 0},
}

// fill writes n bytes. About 1 MiB is repeated: every page is a page of its own
// all the same.
func (p pattern) fill(w io.Writer, n int64) error {
	if n == 0 {
		return nil
	}
	r := rand.NewChaCha8([32]byte{1})
	unit := make([]byte, 1<<20/p.block*p.block)
	r.Read(unit)
	for at := 0; at < len(unit); at += p.block {
		for _, i := range p.tops {
			unit[at+i] = p.top
		}
	}
	for ; n > 0; n -= int64(len(unit)) {
		if _, err := w.Write(unit[:min(int64(len(unit)), n)]); err != nil {
			return err
		}
	}
	return nil
}

// cached returns the directory of a name in parent, which an earlier run may have
// filled.
func cached(t testing.TB, parent, name string, fill func(dir string) error) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	// Under another name until it is whole.
	unfinished := dir + ".new"
	if err := errors.Join(os.Mkdir(unfinished, 0o755), fill(unfinished), os.Rename(unfinished, dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeModel writes a file of a head and n bytes of numbers, to the disk too:
// writing back later would disturb.
func writeModel(path string, head []byte, d tensorfs.DType, n int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(head); err != nil {
		return err
	}
	return errors.Join(patterns[d].fill(f, n), f.Sync())
}

var llama = tensorfs.Meta{Key: "general.architecture", Value: "llama"}

// ggufModel returns a GGUF file whose one tensor has so many MiB as f16.
func ggufModel(t testing.TB, parent string, d tensorfs.DType, mib int64) benchModel {
	shape := []int64{mib << 20 / (2 * benchCols), benchCols}
	dir := cached(t, parent, fmt.Sprintf("%v-%d", d, mib), func(dir string) error {
		g := testmodel.GGUF{Meta: []tensorfs.Meta{llama}, Tensors: []testmodel.GGUFTensor{{Name: benchTensor, Shape: shape, Type: uint32(d.GGML())}}}
		size, _ := d.Size(shape) // whole blocks
		return writeModel(filepath.Join(dir, "model.gguf"), g.Bytes(), d, size)
	})
	path := filepath.Join(dir, "model.gguf")
	return benchModel{path, path, mib << 20}
}

// fusedModel returns q, k and v of a layer, of so many MiB together as f16. Each
// is in a shard of its own.
func fusedModel(t testing.TB, parent string, d tensorfs.DType, mib int64) benchModel {
	dir := cached(t, parent, fmt.Sprintf("fused-%v-%d", d, mib), func(dir string) error {
		rows := mib << 20 / (2 * benchCols) / 4
		g := testmodel.GGUF{Meta: []tensorfs.Meta{llama}}
		for i, n := range []int64{2 * rows, rows, rows} {
			g.Tensors = append(g.Tensors, testmodel.GGUFTensor{
				Name: fmt.Sprintf("blk.0.attn_%c.weight", "qkv"[i]), Shape: []int64{n, benchCols}, Type: uint32(d.GGML()),
			})
		}
		shards := g.Shards("model", len(g.Tensors))
		for i, x := range g.Tensors {
			name := fmt.Sprintf("model-%05d-of-%05d.gguf", i+1, len(g.Tensors))
			size, _ := d.Size(x.Shape) // whole blocks
			if err := writeModel(filepath.Join(dir, name), shards[name], d, size); err != nil {
				return err
			}
		}
		return nil
	})
	path := filepath.Join(dir, "model-00001-of-00003.gguf")
	return benchModel{path, path, mib << 20}
}

// mlxModel returns a directory with a tensor in MLX's affine 4 bits.
func mlxModel(t testing.TB, parent string, mib int64) benchModel {
	dir := cached(t, parent, fmt.Sprintf("MLX-%d", mib), func(dir string) error {
		const group = 64
		rows := mib << 20 / (2 * benchCols)
		tensors := []testmodel.SafeTensor{
			{Name: "lm_head.weight", DType: tensorfs.U32, Shape: []int64{rows, benchCols / 8}},
			{Name: "lm_head.scales", DType: tensorfs.BF16, Shape: []int64{rows, benchCols / group}},
			{Name: "lm_head.biases", DType: tensorfs.BF16, Shape: []int64{rows, benchCols / group}},
		}
		config := `{"model_type":"llama","tie_word_embeddings":false,"quantization":{"group_size":64,"bits":4}}`
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
			return err
		}
		for i := range tensors {
			var data bytes.Buffer // never fails
			patterns[tensors[i].DType].fill(&data, tensors[i].Size())
			tensors[i].Data = data.Bytes()
		}
		return writeModel(filepath.Join(dir, "model.safetensors"), testmodel.Safetensors(tensors, nil), 0, 0)
	})
	return benchModel{dir, filepath.Join(dir, "model.safetensors"), mib << 20}
}

// smallTensors returns a GGUF file of so many tensors of 68 bytes and so many
// tokens.
func smallTensors(t testing.TB, parent string, count, tokens int) benchModel {
	dir := cached(t, parent, fmt.Sprintf("small-%d-%d", count, tokens), func(dir string) error {
		parts := []string{"attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_up", "ffn_gate", "ffn_down", "ffn_norm", "ffn_gate_inp"}
		g := testmodel.GGUF{Meta: []tensorfs.Meta{llama, {Key: "llama.block_count", Value: uint32((count + len(parts) - 1) / len(parts))}}}
		if tokens > 0 {
			texts := make([]string, tokens)
			for i := range texts {
				texts[i] = fmt.Sprintf("▁t%x", i*2654435761%(1<<28))
			}
			g.Meta = append(g.Meta,
				tensorfs.Meta{Key: "tokenizer.ggml.model", Value: "llama"},
				tensorfs.Meta{Key: "tokenizer.ggml.tokens", Value: texts},
				tensorfs.Meta{Key: "tokenizer.ggml.scores", Value: make([]float32, tokens)},
				tensorfs.Meta{Key: "tokenizer.ggml.token_type", Value: make([]int32, tokens)})
		}
		data := make([]byte, 68)
		for i := range count {
			g.Tensors = append(g.Tensors, testmodel.GGUFTensor{
				Name: fmt.Sprintf("blk.%d.%s.weight", i/len(parts), parts[i%len(parts)]), Shape: []int64{2, 32}, Type: uint32(tensorfs.Q8_0.GGML()), Data: data,
			})
		}
		return writeModel(filepath.Join(dir, "model.gguf"), g.Bytes(), 0, 0)
	})
	path := filepath.Join(dir, "model.gguf")
	return benchModel{path: path, file: path}
}

// The models of the benchmarks have the size that they are said to have, and
// nothing in them sends a decoder on a slow path.
func TestBenchModels(t *testing.T) {
	const mib = 1
	dir := t.TempDir()
	check := func(name, file string, m benchModel) {
		code, halves, stderr := command("cat", m.path, file)
		if code != 0 || int64(len(halves)) != m.out || m.out != mib<<20 {
			t.Errorf("%s: %d bytes of f16, want %d; %s", name, len(halves), m.out, stderr)
		}
		odd, distinct := 0, make(map[uint16]bool)
		for ; len(halves) > 1; halves = halves[2:] {
			h := binary.LittleEndian.Uint16([]byte(halves[:2]))
			if h&0x7C00 == 0x7C00 {
				odd++
			}
			distinct[h] = true
		}
		if odd > 0 || len(distinct) < 100 {
			t.Errorf("%s: %d infinities and NaNs, %d different numbers", name, odd, len(distinct))
		}
	}
	for d := range patterns {
		if d != tensorfs.U32 {
			check(d.String(), "f16/"+benchTensor, ggufModel(t, dir, d, mib))
		}
	}
	check("MLX", "f16/"+benchTensor, mlxModel(t, dir, mib))
	check("fused", "fused-f16/layers.0.attention.qkv.weight", fusedModel(t, dir, tensorfs.Q8_0, mib))

	tree, err := (&modelFlags{}).open(smallTensors(t, dir, 105, 1000).path)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Model.Close()
	n := 0
	err = tensorfs.Walk(tree.Root, func(path string, e tensorfs.Entry) error {
		if filepath.Dir(path) == "raw" {
			n++
		}
		return nil
	})
	if err != nil || n != 105 {
		t.Errorf("%d tensors, %v", n, err)
	}
}
