package convert_test

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// notLoaded returns the notes that say why llama.cpp does not load a file.
func notLoaded(f *convert.Files) []string {
	return slices.DeleteFunc(slices.Clone(f.AllNotes()), func(n string) bool { return !strings.Contains(n, "llama.cpp does not load it: ") })
}

// TestGoldenLoads holds that files of the golden models, which llama.cpp loads, have no note
// that it does not.
func TestGoldenLoads(t *testing.T) {
	tables, err := filepath.Glob(testdata + "architectures/expected/*.tensors.tsv")
	if err != nil || len(tables) < 100 {
		t.Fatal(len(tables), err)
	}
	for _, table := range tables {
		name := strings.TrimSuffix(filepath.Base(table), ".tensors.tsv")
		m, err := formats.Open(testdata + "architectures/" + name)
		if err != nil {
			continue
		}
		if notes := notLoaded(convert.GGUF(m, convert.Options{})); len(notes) > 0 {
			t.Errorf("%s: %q", name, notes)
		}
		m.Close()
	}
}

// TestNotLoaded changes a file that llama.cpp loads so that it does not.
func TestNotLoaded(t *testing.T) {
	base := testwhole.Open(t, testdata+"whole-gguf/llama3")
	first := testwhole.Read(t, convert.GGUF(base, convert.Options{}).List[0].Data)
	for _, c := range []struct {
		name   string
		change func(m *tensorfs.Model)
		want   string
	}{
		{"nothing", func(m *tensorfs.Model) {}, ""},
		{"no architecture", drop("general.architecture"), "it has no general.architecture"},
		{"unknown architecture", set("general.architecture", "acme"), `it has no architecture "acme"`},
		{"a tower", set("general.architecture", "clip"), "a tower, to be loaded beside its language model"},
		{"an importance matrix", set("general.type", "imatrix"), "an importance matrix"},
		{"an adapter", set("general.type", "adapter"), "an adapter"},
		{"no epsilon", drop("llama.attention.layer_norm_rms_epsilon"), "it lacks the key llama.attention.layer_norm_rms_epsilon"},
		{"no layers", drop("llama.block_count"), "it lacks the key llama.block_count"},
		{"no tokenizer", drop("tokenizer.ggml.model"), "it has no tokenizer"},
		{"no tokens", drop("tokenizer.ggml.tokens"), "it has no tokens"},
		{"few types", set("tokenizer.ggml.token_type", counts{int32(1)}), "tokenizer.ggml.token_type has 1 values"},
		{"few tokens", set("tokenizer.ggml.tokens", counts{"a"}), "there are 1 tokens"},
		{"sections", set("llama.rope.dimension_sections", counts{uint32(1), uint32(2), uint32(3)}), "has 3 values, and it reads 4"},
		{"heads of layers", set("llama.attention.head_count_kv", counts{uint32(1), uint32(2), uint32(3), uint32(4), uint32(5)}), "has 5 values"},
		{"heads of a layer that was cut out", set("llama.attention.head_count_kv", counts{int32(2), int32(2), int32(2)}), "has 3 values, and there are 2 layers"},
		{"keys without the architecture", func(m *tensorfs.Model) {
			v := m.Meta("llama.context_length")
			drop("llama.context_length")(m)
			set("context_length", v)(m)
		}, "it lacks the key llama.context_length"},
		{"a size that --override-kv wrote", set("llama.context_length", int32(2048)), "llama.context_length is i32, and it takes u32"},
		{"a wide size", set("llama.block_count", uint64(2)), "llama.block_count is u64"},
		{"a size with a fraction", set("llama.embedding_length", float32(64)), "llama.embedding_length is f32"},
		{"a number without one", set("llama.rope.freq_base", uint32(500000)), "llama.rope.freq_base is u32, and it takes f32"},
		{"a wide number", set("llama.attention.layer_norm_rms_epsilon", 1e-5), "llama.attention.layer_norm_rms_epsilon is f64"},
		{"wide numbers of layers", set("llama.attention.head_count_kv", counts{uint64(2), uint64(2)}), "is a list of u64, and it takes u32"},
		{"signed numbers of layers", set("llama.attention.head_count_kv", counts{int32(2), int32(2)}), ""},
		{"a signed token", set("tokenizer.ggml.eos_token_id", int32(-1)), "tokenizer.ggml.eos_token_id is i32, and it takes u32"},
		{"a list of tokens for one", set("tokenizer.ggml.eos_token_id", counts{uint32(1)}), "tokenizer.ggml.eos_token_id is a list of u32, and it takes u32"},
		{"another kind of tokenizer", set("tokenizer.ggml.model", "tiktoken"), `it has no tokenizer of the kind "tiktoken"`},
		{"a way to cut texts of a fork", set("tokenizer.ggml.pre", "frobnicate"), `tokenizer.ggml.pre is "frobnicate", a way to cut texts that it does not have`},
		{"a way to cut texts without a row", set("tokenizer.ggml.pre", "sarvam-moe"), ""},
		{"rotated dimensions of another head", set("llama.rope.dimension_count", uint32(160)), "llama.rope.dimension_count is 160, and a head has 16"},
		{"experts that nothing chooses from", set("llama.expert_used_count", uint32(2)), "llama.expert_used_count is 2, and llama.expert_count is 0"},
		{"more experts taken than there are", func(m *tensorfs.Model) {
			set("llama.expert_count", uint32(2))(m)
			set("llama.expert_used_count", uint32(4))(m)
		}, "llama.expert_used_count is 4, and llama.expert_count is 2"},
		{"groups of no equal size", func(m *tensorfs.Model) {
			set("llama.expert_count", uint32(8))(m)
			set("llama.expert_used_count", uint32(4))(m)
			set("llama.expert_group_count", uint32(3))(m)
		}, "llama.expert_group_count is 3, and llama.expert_count is 8"},
		{"no width", set("llama.embedding_length", uint32(0)), "where the keys say 0"},
		{"no heads", set("llama.attention.head_count", uint32(0)), "where the keys say"},
		{"a width without end", set("llama.feed_forward_length", ^uint32(0)), "where the keys say 4294967295"},
		{"a flag as a number", set("tokenizer.ggml.add_bos_token", uint8(1)), "tokenizer.ggml.add_bos_token is u8, and it takes bool"},
		{"a flag as a text", set("tokenizer.ggml.add_bos_token", "true"), "tokenizer.ggml.add_bos_token is str"},
		{"two names", set("general.name", counts{"a", "b"}), "general.name is a list of str, and it takes str"},
		{"the type of the file in words", set("general.file_type", "F16"), "general.file_type is str, and it takes u32"},
		{"the count of files of another program", set("split.count", uint32(1)), "split.count is u32, and it takes u16"},
		{"unsigned types of tokens", set("tokenizer.ggml.token_type", slices.Repeat(counts{uint32(1)}, 371)), "is a list of u32, and it takes i32"},
		{"one token", set("tokenizer.ggml.tokens", "a"), "tokenizer.ggml.tokens is str, and it takes a list of str"},
		{"lists of lists", set("general.languages", counts{counts{"en"}}), "general.languages is a list of lists"},
		{"an empty list", set("general.tags", counts{}), ""},
		{"a way of another program", set("llama.rope.scaling.type", "llama3"), `llama.rope.scaling.type is "llama3", and it has none, linear, yarn, longrope`},
		{"no merges", drop("tokenizer.ggml.merges"), "it has no merges"},
		{"two tokens alike", func(m *tensorfs.Model) {
			tokens := slices.Collect(m.Meta("tokenizer.ggml.tokens").(tensorfs.Array).Values())
			tokens[5] = tokens[4]
			set("tokenizer.ggml.tokens", counts(tokens))(m)
		}, "the tokens 4 and 5 are both"},
		{"a layer too many", func(m *tensorfs.Model) { set("llama.block_count", uint32(1))(m) }, "is of a layer beyond the 1 that there are"},
		{"a layer too few", func(m *tensorfs.Model) { set("llama.block_count", uint32(3))(m) }, "there are 3 layers, and no tensor of layer 2"},
		{"another width", set("llama.feed_forward_length", uint32(128)), "has 96 where the keys say 128"},
		{"heads of k and v are not said", drop("llama.attention.head_count_kv"), "has 32 where the keys say 64"},
		{"a head with other rows", func(m *tensorfs.Model) {
			m.Tensors[slices.IndexFunc(m.Tensors, named("output.weight"))].Shape = []int64{256, 64}
		}, "output.weight has 256 rows"},
		{"a tensor without numbers", func(m *tensorfs.Model) {
			m.Tensors[slices.IndexFunc(m.Tensors, named("output_norm.weight"))].Shape = []int64{0}
		}, `"output_norm.weight" holds no numbers`},
		{"a tensor of a tower", rename("output_norm.weight", "v.post_ln.weight"), `the tensor "v.post_ln.weight" has no place`},
		{"another spelling", rename("blk.0.attn_output.weight", "blk.0.attn_out.weight"), `the tensor "blk.0.attn_out.weight" has no place`},
		{"a tensor is gone", func(m *tensorfs.Model) { m.Tensors = slices.DeleteFunc(m.Tensors, named("output_norm.weight")) }, "it lacks the tensor output_norm.weight"},
		{"a long name", rename("blk.0.attn_output.weight", strings.Repeat("x", 64)), "has 64 bytes, and ggml takes at most 63"},
		{"another's type", func(m *tensorfs.Model) { m.Tensors[0].DType = tensorfs.IQ4_K }, "ggml has no type IQ4_K"},
		{"a removed type", func(m *tensorfs.Model) { m.Tensors[0].DType = tensorfs.Q4_0_4_4 }, "ggml has no type Q4_0_4_4"},
		{"no known type", func(m *tensorfs.Model) { m.Tensors[0].DType = tensorfs.Unknown }, "is not one of ggml's"},
		{"dimensions", func(m *tensorfs.Model) { m.Tensors[0].Shape = []int64{1, 1, 1, 1, 4} }, "has 5 dimensions"},
	} {
		m := *testwhole.OpenGGUF(t, first)
		m.Metadata, m.Tensors = slices.Clone(m.Metadata), slices.Clone(m.Tensors)
		c.change(&m)
		notes := strings.Join(notLoaded(convert.GGUF(&m, convert.Options{})), "\n")
		if c.want == "" && notes != "" || !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q, want %q", c.name, notes, c.want)
		}
	}
}

// TestNotesCost holds that a GGUF file is described without its vocabulary being read, and with few
// allocations for each tensor: a file may have 262,144 tokens, and 50,000 tensors.
func TestNotesCost(t *testing.T) {
	const layers, most = 200, 12
	base := testwhole.Open(t, testdata+"whole-gguf/llama3")
	m := *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(base, convert.Options{}).List[0].Data))
	tokens := counted{slices.Collect(m.Meta("tokenizer.ggml.tokens").(tensorfs.Array).Values()), new(int)}
	m.Metadata = slices.Clone(m.Metadata)
	set("tokenizer.ggml.tokens", tokens)(&m)
	set("llama.block_count", uint32(layers))(&m)
	var list []tensorfs.Tensor
	for _, x := range m.Tensors {
		rest, ok := strings.CutPrefix(x.Source, "blk.0.")
		if !ok && !strings.HasPrefix(x.Source, "blk.") {
			list = append(list, x)
		}
		for i := 0; ok && i < layers; i++ {
			x.Source = fmt.Sprintf("blk.%d.%s", i, rest)
			list = append(list, x)
		}
	}
	m.Tensors = list
	var f *convert.Files
	allocs := testing.AllocsPerRun(1, func() {
		*tokens.read = 0
		f = convert.GGUF(&m, convert.Options{})
	})
	if f.Reason != "" || len(f.Notes) > 0 || *tokens.read > 10 {
		t.Errorf("%s%q after %d tokens", f.Reason, f.Notes, *tokens.read)
	}
	if n := float64(len(list)); allocs > most*n {
		t.Errorf("%g allocations for each of %g tensors, want at most %d", allocs/n, n, most)
	}
	*tokens.read = 0
	if notes := f.AllNotes(); len(notes) > 0 || *tokens.read != len(tokens.counts) {
		t.Errorf("%q after %d of %d tokens", notes, *tokens.read, len(tokens.counts))
	}
}

// counted counts the values that are read.
type counted struct {
	counts
	read *int
}

func (v counted) Values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for x := range v.counts.Values() {
			if *v.read++; !yield(x) {
				return
			}
		}
	}
}

// TestNotLoadedSizes changes a key about the sizes of tensors in files of other architectures.
func TestNotLoadedSizes(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *tensorfs.Model)
		want   string
	}{
		{"lfm2", drop("lfm2.attention.head_count_kv"), "where the keys say"},
		{"lfm2", set("lfm2.shortconv.l_cache", uint32(7)), "where the keys say 7"},
		{"mamba", set("mamba.ssm.inner_size", uint32(7)), "where the keys say 7"},
		{"mamba", set("mamba.ssm.conv_kernel", uint32(7)), "where the keys say 7"},
		{"kimi-k2", set("deepseek2.attention.q_lora_rank", uint32(7)), "where the keys say 7"},
		{"kimi-k2", set("deepseek2.attention.kv_lora_rank", uint32(7)), "where the keys say 7"},
		{"kimi-k2", set("deepseek2.expert_feed_forward_length", uint32(7)), "where the keys say 7"},
		{"kimi-k2", set("deepseek2.expert_count", uint32(64)), "and deepseek2.expert_count is 64"},
		{"kimi-k2", set("deepseek2.expert_used_count", uint32(0)), "deepseek2.expert_used_count is 0"},
	} {
		m := *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(testwhole.Open(t, testdata+"architectures/"+c.name), convert.Options{}).List[0].Data))
		m.Metadata = slices.Clone(m.Metadata)
		c.change(&m)
		if notes := strings.Join(notLoaded(convert.GGUF(&m, convert.Options{})), "\n"); !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q, want %q", c.name, notes, c.want)
		}
	}
}

// TestNotRead names keys that llama.cpp does not read.
func TestNotRead(t *testing.T) {
	base := testwhole.Open(t, testdata+"whole-gguf/llama3")
	first := testwhole.Read(t, convert.GGUF(base, convert.Options{}).List[0].Data)
	for key, v := range map[string]any{
		"llama.rope.scaling.beta_fast": float32(64),
		"tokenizer.ggml.eos_token_ids": counts{uint32(1), uint32(2)},
		"tokenizer.ggml.pre":           "",
	} {
		m := *testwhole.OpenGGUF(t, first)
		m.Metadata = slices.Clone(m.Metadata)
		set(key, v)(&m)
		if f := convert.GGUF(&m, convert.Options{}); !strings.Contains(strings.Join(f.Notes, "\n"), key) {
			t.Errorf("%s: %q", key, f.Notes)
		}
	}
}

// TestNotComputed names a vector that the CPU backend of llama.cpp stops at.
func TestNotComputed(t *testing.T) {
	base := testwhole.Open(t, testdata+"whole-gguf/llama3")
	m := *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(base, convert.Options{}).List[0].Data))
	m.Tensors = slices.Clone(m.Tensors)
	m.Tensors[slices.IndexFunc(m.Tensors, named("output_norm.weight"))].DType = tensorfs.BF16
	if notes := convert.GGUF(&m, convert.Options{}).Notes; len(notes) != 1 || !strings.Contains(notes[0], `"output_norm.weight" is BF16`) {
		t.Errorf("%q", notes)
	}
}

func named(source string) func(tensorfs.Tensor) bool {
	return func(t tensorfs.Tensor) bool { return t.Source == source }
}

func rename(from, to string) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) { m.Tensors[slices.IndexFunc(m.Tensors, named(from))].Source = to }
}

func drop(key string) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		m.Metadata = slices.DeleteFunc(m.Metadata, func(x tensorfs.Meta) bool { return x.Key == key })
	}
}

func set(key string, v any) func(*tensorfs.Model) {
	return func(m *tensorfs.Model) {
		drop(key)(m)
		m.Metadata = append(m.Metadata, tensorfs.Meta{Key: key, Value: v})
	}
}

// counts is an array of metadata.
type counts []any

func (v counts) Len() int              { return len(v) }
func (v counts) Values() iter.Seq[any] { return slices.Values(v) }

// TestLlama3Note holds the note about how texts are split if the vocabulary shows it but the file
// has no key for it.
func TestLlama3Note(t *testing.T) {
	m := *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(testwhole.Open(t, testdata+"whole-gguf/llama3"), convert.Options{}).List[0].Data))
	tokens := make(counts, 128256)
	for i := range tokens {
		tokens[i] = "t"
	}
	tokens[128009] = "<|eot_id|>"
	set("tokenizer.ggml.tokens", tokens)(&m)
	drop("tokenizer.chat_template")(&m)
	for pre, want := range map[string]string{"default": "--set tokenizer.ggml.pre=llama-bpe", "": "--set tokenizer.ggml.pre=str:llama-bpe", "llama-bpe": ""} {
		set("tokenizer.ggml.pre", pre)(&m)
		if pre == "" {
			drop("tokenizer.ggml.pre")(&m)
		}
		notes := strings.Join(convert.GGUF(&m, convert.Options{}).Notes, "\n") + "\n"
		if !strings.Contains(notes, want+"\n") || want == "" && strings.Contains(notes, "Llama 3") {
			t.Errorf("%q: %q, want %q", pre, notes, want)
		}
	}
}

// TestOlderDeepSeek has no note that llama.cpp does not load files of before July 2025, whose k
// and v of all heads are one tensor: it does, and a file of Ollama's converter has it so.
func TestOlderDeepSeek(t *testing.T) {
	m := *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(testwhole.Open(t, testdata+"whole-gguf/deepseek3"), convert.Options{}).List[0].Data))
	m.Metadata, m.Tensors = slices.Clone(m.Metadata), slices.Clone(m.Tensors)
	drop("deepseek2.attention.key_length_mla")(&m)
	drop("deepseek2.attention.value_length_mla")(&m)
	set("deepseek2.attention.head_count_kv", uint32(4))(&m)
	m.Tensors = slices.DeleteFunc(m.Tensors, func(x tensorfs.Tensor) bool { return strings.HasSuffix(x.Source, ".attn_v_b.weight") })
	for i := range m.Tensors {
		if x := &m.Tensors[i]; strings.HasSuffix(x.Source, ".attn_k_b.weight") {
			x.Source, x.Shape = strings.Replace(x.Source, "attn_k_b", "attn_kv_b", 1), []int64{128, 32}
			x.Data = tensorfs.Bytes(make([]byte, 128*32*2))
		}
	}
	if notes := notLoaded(convert.GGUF(&m, convert.Options{})); len(notes) > 0 {
		t.Errorf("%q", notes)
	}
	rename("blk.0.attn_kv_b.weight", "blk.0.attn_kvb.weight")(&m)
	if notes := notLoaded(convert.GGUF(&m, convert.Options{})); len(notes) == 0 {
		t.Error("no note of a file without these tensors")
	}
}

// TestSwappedExperts names experts whose rows and columns are swapped, in the models whose description has them
// as they are in the file.
func TestSwappedExperts(t *testing.T) {
	for _, model := range []string{"whole-gguf/mixtral", "whole-gguf/deepseek3", "architectures/dots1", "architectures/phimoe", "architectures/glm4moe"} {
		base := testwhole.Open(t, testdata+model)
		m := *testwhole.OpenGGUF(t, testwhole.Read(t, convert.GGUF(base, convert.Options{}).List[0].Data))
		m.Tensors = slices.Clone(m.Tensors)
		same := true
		for i := range m.Tensors {
			if x := &m.Tensors[i]; strings.HasSuffix(x.Source, "_exps.weight") {
				same = same && x.Shape[1] == x.Shape[2]
				x.Shape = []int64{x.Shape[0], x.Shape[2], x.Shape[1]}
			}
		}
		if notes := strings.Join(notLoaded(convert.GGUF(&m, convert.Options{})), "\n"); same || !strings.Contains(notes, "_exps.weight") {
			t.Errorf("%s: %q", model, notes)
		}
	}
}
