package hf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// ggufParts is a GGUF file that is changed before it is written.
type ggufParts struct {
	meta []tensorfs.Meta
	list []gguf.Stored
}

// partsOf returns the parts of a golden model.
func partsOf(t testing.TB, name string) *ggufParts {
	t.Helper()
	m := testwhole.Golden(t, name)
	p := &ggufParts{meta: slices.Clone(m.Metadata)}
	for _, x := range m.Tensors {
		p.list = append(p.list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	return p
}

// add adds a tensor of zeros.
func (p *ggufParts) add(name string, d tensorfs.DType, shape ...int64) {
	size, _ := d.Size(shape)
	p.list = append(p.list, gguf.Stored{Name: name, DType: d, Shape: shape, Data: make(tensorfs.Bytes, size)})
}

// replace gives a tensor another type or shape.
func (p *ggufParts) replace(t testing.TB, name string, d tensorfs.DType, shape ...int64) {
	t.Helper()
	p.drop(t, name)
	p.add(name, d, shape...)
}

func (p *ggufParts) drop(t testing.TB, name string) {
	t.Helper()
	n := len(p.list)
	if p.list = slices.DeleteFunc(p.list, func(s gguf.Stored) bool { return s.Name == name }); len(p.list) == n {
		t.Fatalf("there is no %s", name)
	}
}

// set gives a key of the metadata another value, or removes it.
func (p *ggufParts) set(key string, value any) {
	p.meta = slices.DeleteFunc(p.meta, func(m tensorfs.Meta) bool { return m.Key == key })
	if value != nil {
		p.meta = append(p.meta, tensorfs.Meta{Key: key, Value: value})
	}
}

// open writes the file and opens it, and returns the error of either step.
func (p *ggufParts) open(t testing.TB) (*tensorfs.Model, error) {
	t.Helper()
	d, err := gguf.Compose(p.meta, p.list)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, testwhole.Read(t, d), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := formats.Open(path)
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

// TestReasons: what Hugging Face's classes cannot say is a reason of one line.
func TestReasons(t *testing.T) {
	both := []string{"hf", "mlx"}
	for _, c := range []struct {
		name, model string
		kinds       []string
		change      func(t *testing.T, p *ggufParts)
		want        string
	}{
		{"bias of q", "types", both, func(_ *testing.T, p *ggufParts) { p.add("blk.0.attn_q.bias", tensorfs.F32, 128) }, "cannot be told"},
		{"bias of a gate", "types", both, func(_ *testing.T, p *ggufParts) { p.add("blk.0.ffn_gate.bias", tensorfs.F32, 192) }, `"blk.0.ffn_gate.bias" has no place`},
		{"norm of q", "types", both, func(_ *testing.T, p *ggufParts) { p.add("blk.0.attn_q_norm.weight", tensorfs.F32, 64) }, "no place"},
		{"a second scale of what is not NVFP4", "types", both, func(_ *testing.T, p *ggufParts) { p.add("blk.0.attn_norm.scale", tensorfs.F32, 1) }, "no place"},
		{"second scales of more experts", "types", both, func(_ *testing.T, p *ggufParts) { p.add("blk.0.attn_output.scale", tensorfs.F32, 2) }, "no place"},
		{"LoRA", "types", both, func(_ *testing.T, p *ggufParts) { p.add("blk.0.attn_q.weight.lora_a", tensorfs.F32, 4, 128) }, "no place"},
		{"layer too many", "types", both, func(_ *testing.T, p *ggufParts) { p.add("blk.1.attn_norm.weight", tensorfs.F32, 128) }, "no place"},
		{"rope factors", "types", both, func(_ *testing.T, p *ggufParts) { p.add("rope_factors_long.weight", tensorfs.F32, 32) }, "no place"},
		{"no bias of k", "qwen2.q4_0", both, func(t *testing.T, p *ggufParts) { p.drop(t, "blk.0.attn_k.bias") }, "layers.0.attention.k.bias of architecture qwen2 is missing"},
		{"no embedding", "types", both, func(t *testing.T, p *ggufParts) { p.drop(t, "token_embd.weight") }, "token_embedding.weight of architecture llama is missing"},
		{"no layers", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.block_count", uint32(0)) }, "0 layers"},
		{"layers unknown", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.block_count", nil) }, "0 layers"},
		{"all layers are further ones", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.nextn_predict_layers", uint32(1)) }, "0 layers"},
		{"very many layers", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.block_count", uint64(1<<63)) }, "layers"},
		{"heads that differ", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.attention.head_count", []uint32{2, 4}) }, "head_count differs between layers"},
		{"widths that differ", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.feed_forward_length", []uint32{2, 4}) }, "feed_forward_length differs"},
		{"no heads", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.attention.head_count", nil) }, "how many heads"},
		{"no width", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.embedding_length", "128") }, "how many numbers"},
		{"other width", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.embedding_length", uint32(64)) }, "does not fit"},
		{"other output", "types", both, func(t *testing.T, p *ggufParts) { p.replace(t, "output.weight", tensorfs.F16, 100, 128) }, "has 100 for vocab"},
		{"vector for a matrix", "types", both, func(t *testing.T, p *ggufParts) { p.replace(t, "output.weight", tensorfs.F16, 128) }, "2 dimensions"},
		{"integers", "types", both, func(t *testing.T, p *ggufParts) { p.replace(t, "output.weight", tensorfs.I8, 264, 128) }, "integers"},
		{"heads of other length", "types", both, func(_ *testing.T, p *ggufParts) {
			p.set("llama.attention.key_length", uint32(32))
			p.set("llama.rope.dimension_count", uint32(32))
		}, "does not fit"},
		{"values of other length", "types", both, func(_ *testing.T, p *ggufParts) { p.set("llama.attention.value_length", uint32(32)) }, "v_head"},
		{"heads that the class cannot say", "qwen2.q4_0", both, func(_ *testing.T, p *ggufParts) { p.set("qwen2.attention.key_length", uint32(32)) }, "cannot say so"},
		{"experts too many", "qwen3moe.q4_0", both, func(_ *testing.T, p *ggufParts) { p.set("qwen3moe.expert_count", uint32(5)) }, "for experts"},
		{"experts of other width", "qwen3moe.q4_0", both, func(t *testing.T, p *ggufParts) {
			p.replace(t, "blk.0.ffn_up_exps.weight", tensorfs.F16, 4, 64, 128)
		}, "for eff"},
		{"no experts", "qwen3moe.q4_0", both, func(t *testing.T, p *ggufParts) { p.drop(t, "blk.0.ffn_up_exps.weight") }, "is missing"},
		{"no k_b", "deepseek2.q4_k_m", both, func(t *testing.T, p *ggufParts) { p.drop(t, "blk.0.attn_k_b.weight") }, "k_b.weight of architecture deepseek2 is missing"},
		{"other k_b", "deepseek2.q4_k_m", both, func(t *testing.T, p *ggufParts) {
			p.replace(t, "blk.0.attn_k_b.weight", tensorfs.F16, 2, 256, 32)
		}, "attn_k_b"},
		{"no latent vector", "deepseek2.q4_k_m", both, func(_ *testing.T, p *ggufParts) { p.set("deepseek2.attention.kv_lora_rank", nil) }, "kv_lora_rank"},
		{"keys that are rotated whole", "deepseek2.q4_k_m", both, func(_ *testing.T, p *ggufParts) { p.set("deepseek2.rope.dimension_count", uint32(1<<20)) }, "latent attention"},
		{"bloom", "syn-bloom", []string{"hf"}, func(t *testing.T, p *ggufParts) { p.set("bloom.feed_forward_length", uint32(96)) }, "cannot say so"},
		{"gpt2 for mlx-lm", "syn-gpt2", []string{"mlx"}, func(t *testing.T, p *ggufParts) {
			p.set("gpt2.feed_forward_length", uint32(96))
			for _, layer := range []string{"blk.0.", "blk.1."} {
				p.replace(t, layer+"ffn_up.weight", tensorfs.F16, 96, 48)
				p.replace(t, layer+"ffn_up.bias", tensorfs.F32, 96)
				p.replace(t, layer+"ffn_down.weight", tensorfs.F16, 48, 96)
			}
		}, "cannot say so"},
		{"falcon for mlx-lm", "syn-falcon-new", []string{"mlx"}, func(*testing.T, *ggufParts) {}, "mlx-lm has no architecture falcon"},
		{"other architecture", "types", both, func(_ *testing.T, p *ggufParts) { p.set("general.architecture", "rwkv7\n") }, "no Hugging Face form known for architecture"},
		{"mixtral is llama", "types", both, func(_ *testing.T, p *ggufParts) { p.set("general.architecture", "mixtral") }, "no Hugging Face form known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := partsOf(t, c.model)
			c.change(t, p)
			m, err := p.open(t)
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range c.kinds {
				r, err := directories[kind](m)
				if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %d tensors, %v, want %q", kind, len(r.List), err, c.want)
				}
			}
		})
	}
}

// TestForms: what files may have besides.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		name, model string
		change      func(t *testing.T, p *ggufParts)
	}{
		{"heads for each layer, all equal", "types", func(_ *testing.T, p *ggufParts) { p.set("llama.attention.head_count_kv", []uint32{1, 1}) }},
		{"kv_b beside its parts", "syn-deepseek-v2", func(_ *testing.T, p *ggufParts) {
			p.add("blk.0.attn_kv_b.weight", tensorfs.F16, 80, 32)
			p.add("blk.1.attn_kv_b.weight", tensorfs.F16, 80, 32)
		}},
		{"k_b and v_b as matrices", "syn-deepseek-v2", func(t *testing.T, p *ggufParts) {
			for i := range p.list {
				if s := &p.list[i]; strings.Contains(s.Name, "_b.weight") && len(s.Shape) == 3 {
					s.Shape = []int64{s.Shape[0] * s.Shape[1], s.Shape[2]}
				}
			}
		}},
		{"a gate of shared experts as a matrix", "syn-qwen2moe", func(t *testing.T, p *ggufParts) {
			for i := range p.list {
				if s := &p.list[i]; strings.Contains(s.Name, "gate_inp_shexp") {
					s.Shape = []int64{1, s.Shape[0]}
				}
			}
		}},
		{"a copy of the embedding", "syn-gpt2", func(_ *testing.T, p *ggufParts) { p.add("output.weight", tensorfs.F16, 272, 48) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := partsOf(t, c.model)
			want := namesOf(t, p)
			if strings.HasPrefix(c.name, "a copy") {
				want["hf"] = append(want["hf"], "lm_head.weight[272 48]")
			}
			c.change(t, p)
			got := namesOf(t, p)
			for kind := range directories {
				slices.Sort(want[kind])
				slices.Sort(got[kind])
				if !slices.Equal(got[kind], want[kind]) {
					t.Errorf("%s: %q, want %q", kind, got[kind], want[kind])
				}
			}
		})
	}
}

// namesOf returns names and shapes of both directories.
func namesOf(t testing.TB, p *ggufParts) map[string][]string {
	t.Helper()
	m, err := p.open(t)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for kind, make := range directories {
		r, err := make(m)
		if err != nil {
			t.Fatal(kind, err)
		}
		for _, s := range r.List {
			all[kind] = append(all[kind], s.Name+fmt.Sprint(s.Shape))
		}
	}
	return all
}

// FuzzTensors: a file with another tensor or another number in its metadata is a
// directory whose every byte can be read, or a reason.
func FuzzTensors(f *testing.F) {
	models := []string{"types", "syn-deepseek-v2", "syn-gpt-oss-dense", "gpt-oss.mxfp4", "syn-qwen2moe", "syn-falcon-new", "syn-bloom", "syn-gpt2", "bert.q8_0", "phi3.q4_k_m"}
	parts := make([]*ggufParts, len(models))
	for i, name := range models {
		parts[i] = partsOf(f, name)
	}
	types := []tensorfs.DType{tensorfs.F32, tensorfs.F16, tensorfs.BF16, tensorfs.Q4_0, tensorfs.Q8_0, tensorfs.MXFP4, tensorfs.NVFP4, tensorfs.Q4_K, tensorfs.I8, tensorfs.F64, tensorfs.Q4_0_4_4, tensorfs.TQ2_0}
	for i := range models {
		for op := range 5 {
			f.Add(uint8(i), uint8(op), uint8(7*i+op), uint8(3*op), uint16(64))
			f.Add(uint8(i), uint8(op), uint8(11*i), uint8(op), uint16(0))
		}
	}
	f.Fuzz(func(t *testing.T, model, op, which, dtype uint8, n uint16) {
		from := parts[int(model)%len(parts)]
		p := &ggufParts{slices.Clone(from.meta), slices.Clone(from.list)}
		s := &p.list[int(which)%len(p.list)]
		shape, d := slices.Clone(s.Shape), s.DType
		switch op % 5 {
		case 0:
			d = types[int(dtype)%len(types)]
		case 1:
			shape[int(dtype)%len(shape)] = int64(n)
		case 2:
			shape = append(shape, int64(n%4))
		case 3:
			shape = shape[1:]
		case 4:
			m := &p.meta[int(which)%len(p.meta)]
			if _, ok := m.Value.(uint32); ok {
				m.Value = uint32(n)
			}
		}
		size, ok := d.Size(shape)
		if !ok || size > 1<<22 {
			return
		}
		if op%5 < 4 {
			*s = gguf.Stored{Name: s.Name, DType: d, Shape: shape, Data: make(tensorfs.Bytes, size)}
		}
		m, err := p.open(t)
		if err != nil {
			return
		}
		for kind, make := range directories {
			r, err := make(m)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %q", kind, err)
				}
				continue
			}
			testwhole.Read(t, composed(t, r))
		}
	})
}
