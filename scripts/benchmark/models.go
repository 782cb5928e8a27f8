//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testmodel"
)

// model is a model that was written for this run.
type model struct {
	path string // what tensorfs takes
	file string // that holds the numbers, the first of them
	out  int64  // bytes of the numbers as f16
}

// tensor is the one tensor of the large models.
const tensor = "output.weight"

// cols is the length of the rows of large tensors.
const cols = 4096

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

var llama = tensorfs.Meta{Key: "general.architecture", Value: "llama"}

// cached returns the model of a name and writes it if there is none.
func (b *bench) cached(name string, write func(path string) (*model, error)) (*model, error) {
	if m := b.models[name]; m != nil {
		return m, nil
	}
	b.say("  writing a model: %s", name)
	dir := filepath.Join(b.dir, "model-"+strings.ReplaceAll(name, " ", "-"))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	m, err := write(dir)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", dir, err)
	}
	b.models[name] = m
	return m, nil
}

// ggufModel returns a GGUF file whose one tensor has so many MiB as f16.
func (b *bench) ggufModel(d tensorfs.DType, mib int64) (*model, error) {
	return b.cached(fmt.Sprintf("%v %d", d, mib), func(dir string) (*model, error) {
		path := filepath.Join(dir, "model.gguf")
		shape := []int64{mib << 20 / (2 * cols), cols}
		g := testmodel.GGUF{Meta: []tensorfs.Meta{llama}, Tensors: []testmodel.GGUFTensor{{Name: tensor, Shape: shape, Type: uint32(d.GGML())}}}
		return &model{path, path, mib << 20}, writeLarge(path, g.Bytes(), d, shape)
	})
}

// writeLarge writes a file of a head and the numbers of a tensor.
func writeLarge(path string, head []byte, d tensorfs.DType, shape []int64) error {
	size, ok := d.Size(shape)
	if !ok {
		return fmt.Errorf("%v %v has no size", d, shape)
	}
	return writeFile(path, func(f *os.File) error {
		if _, err := f.Write(head); err != nil {
			return err
		}
		return patterns[d].fill(f, size)
	})
}

// writeFile writes a file, to the disk too: writing back later would disturb.
func writeFile(path string, write func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

// fusedModel returns q, k and v of a layer, of so many MiB together as f16. Each
// stands in a shard of its own.
func (b *bench) fusedModel(d tensorfs.DType, mib int64) (*model, error) {
	return b.cached(fmt.Sprintf("%v fused %d", d, mib), func(dir string) (*model, error) {
		rows := mib << 20 / (2 * cols) / 4
		g := testmodel.GGUF{Meta: []tensorfs.Meta{llama}}
		for i, n := range []int64{2 * rows, rows, rows} {
			g.Tensors = append(g.Tensors, testmodel.GGUFTensor{
				Name: fmt.Sprintf("blk.0.attn_%c.weight", "qkv"[i]), Shape: []int64{n, cols}, Type: uint32(d.GGML()),
			})
		}
		m := &model{out: mib << 20}
		shards := g.Shards("model", len(g.Tensors))
		for i, t := range g.Tensors {
			name := fmt.Sprintf("model-%05d-of-%05d.gguf", i+1, len(g.Tensors))
			path := filepath.Join(dir, name)
			if err := writeLarge(path, shards[name], d, t.Shape); err != nil {
				return nil, err
			}
			if i == 0 {
				m.path, m.file = path, path
			}
		}
		return m, nil
	})
}

// mlxModel returns a directory with a tensor in MLX's affine 4 bits.
func (b *bench) mlxModel(mib int64) (*model, error) {
	return b.cached(fmt.Sprintf("MLX %d", mib), func(dir string) (*model, error) {
		const group = 64
		rows := mib << 20 / (2 * cols)
		tensors := []testmodel.SafeTensor{
			{Name: "lm_head.weight", DType: tensorfs.U32, Shape: []int64{rows, cols / 8}},
			{Name: "lm_head.scales", DType: tensorfs.BF16, Shape: []int64{rows, cols / group}},
			{Name: "lm_head.biases", DType: tensorfs.BF16, Shape: []int64{rows, cols / group}},
		}
		config := `{"model_type":"llama","tie_word_embeddings":false,"quantization":{"group_size":64,"bits":4}}`
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "model.safetensors")
		if err := testmodel.WriteSparseSafetensors(path, tensors); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var head [8]byte
		if _, err := f.ReadAt(head[:], 0); err != nil {
			return nil, err
		}
		if _, err := f.Seek(8+int64(binary.LittleEndian.Uint64(head[:])), io.SeekStart); err != nil {
			return nil, err
		}
		for _, t := range tensors {
			if err := patterns[t.DType].fill(f, t.Size()); err != nil {
				return nil, err
			}
		}
		return &model{dir, path, mib << 20}, f.Sync()
	})
}

// smallTensors returns a GGUF file of so many tensors of 68 bytes and so many
// tokens.
func (b *bench) smallTensors(count, tokens int) (*model, error) {
	return b.cached(fmt.Sprintf("%d tensors %d tokens", count, tokens), func(dir string) (*model, error) {
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
		path := filepath.Join(dir, "model.gguf")
		return &model{path: path, file: path}, writeFile(path, func(f *os.File) error {
			_, err := f.Write(g.Bytes())
			return err
		})
	})
}
