package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"golang.org/x/sys/unix"
)

// wholeShape has the dimensions of a whole model that is measured.
type wholeShape struct{ dim, ffn, vocab, heads, kvHeads, layers int64 }

// llamaOf is a Llama of about so many MiB as half: its layers have 72 MiB.
func llamaOf(mib int64) wholeShape {
	return wholeShape{dim: 2048, ffn: 4096, vocab: 8192, heads: 16, kvHeads: 8, layers: max(1, (mib-64)/72)}
}

// tensors are the tensors of such a model.
func (s wholeShape) tensors() (list []testmodel.SafeTensor) {
	add := func(name string, shape ...int64) {
		list = append(list, testmodel.SafeTensor{Name: name + ".weight", DType: tensorfs.BF16, Shape: shape})
	}
	add("model.embed_tokens", s.vocab, s.dim)
	for i := range s.layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		add(p+"input_layernorm", s.dim)
		add(p+"self_attn.q_proj", s.dim, s.dim)
		add(p+"self_attn.k_proj", s.dim/s.heads*s.kvHeads, s.dim)
		add(p+"self_attn.v_proj", s.dim/s.heads*s.kvHeads, s.dim)
		add(p+"self_attn.o_proj", s.dim, s.dim)
		add(p+"post_attention_layernorm", s.dim)
		add(p+"mlp.gate_proj", s.ffn, s.dim)
		add(p+"mlp.up_proj", s.ffn, s.dim)
		add(p+"mlp.down_proj", s.dim, s.ffn)
	}
	add("model.norm", s.dim)
	add("lm_head", s.vocab, s.dim)
	return list
}

// config is the config.json of such a model.
func (s wholeShape) config() map[string]any {
	return map[string]any{"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama", "hidden_size": s.dim, "intermediate_size": s.ffn,
		"num_hidden_layers": s.layers, "num_attention_heads": s.heads, "num_key_value_heads": s.kvHeads, "vocab_size": s.vocab,
		"rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "rope_theta": 10000.0, "tie_word_embeddings": false}
}

// write writes such a model as a directory of Hugging Face.
func (s wholeShape) write(dir string, list []testmodel.SafeTensor, config map[string]any) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	for i := range list {
		var data bytes.Buffer // never fails
		patterns[list[i].DType].fill(&data, list[i].Size())
		list[i].Data = data.Bytes()
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644),
		writeModel(filepath.Join(dir, "model.safetensors"), testmodel.Safetensors(list, nil), 0, 0))
}

// wholeModel returns a Hugging Face directory with such a model, or an MLX directory with its
// matrices in affine 4 bits. It has no tokenizer.
func wholeModel(t testing.TB, parent string, mib int64, quantised bool) benchModel {
	shape := llamaOf(mib)
	list := shape.tensors()
	halves := int64(0)
	for _, x := range list {
		halves += x.Size()
	}
	dir := cached(t, parent, fmt.Sprintf("whole-%d-%t", mib, quantised), func(dir string) error {
		config := shape.config()
		if quantised {
			config["quantization"] = map[string]any{"group_size": 64, "bits": 4}
			list = quantisedTensors(list)
		}
		return shape.write(dir, list, config)
	})
	return benchModel{dir, filepath.Join(dir, "model.safetensors"), halves}
}

// tokenizerModel returns a small model of Hugging Face with a tokenizer of so many
// tokens, and nearly as many merges.
func tokenizerModel(t testing.TB, parent string, tokens int) benchModel {
	shape := wholeShape{dim: 64, ffn: 64, vocab: int64(tokens), heads: 2, kvHeads: 1, layers: 1}
	dir := cached(t, parent, fmt.Sprintf("tokens-%d", tokens), func(dir string) error {
		text, err := json.MarshalIndent(manyTokens(tokens), "", "  ")
		return errors.Join(err, os.WriteFile(filepath.Join(dir, "tokenizer.json"), text, 0o644), shape.write(dir, shape.tensors(), shape.config()))
	})
	return benchModel{path: dir}
}

// manyTokens returns a tokenizer.json: letters, and pairs of tokens that come
// before in ever longer ones.
func manyTokens(n int) map[string]any {
	vocab, list := map[string]int{}, []string{}
	add := func(s string) bool {
		_, known := vocab[s]
		if !known {
			vocab[s] = len(list)
			list = append(list, s)
		}
		return !known
	}
	for c := '!'; c <= '~'; c++ {
		add(string(c))
	}
	merges := [][2]string{}
	for left := 0; len(list) < n; left++ {
		for right := 0; right <= left && len(list) < n; right++ {
			if add(list[left] + list[right]) {
				merges = append(merges, [2]string{list[left], list[right]})
			}
		}
	}
	return map[string]any{
		"version": "1.0", "added_tokens": []any{}, "normalizer": nil, "post_processor": nil,
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"decoder":       map[string]any{"type": "ByteLevel"},
		"model":         map[string]any{"type": "BPE", "ignore_merges": false, "vocab": vocab, "merges": merges},
	}
}

// quantisedTensors are the same tensors, matrices as codes of 4 bits with scales and biases.
func quantisedTensors(list []testmodel.SafeTensor) (out []testmodel.SafeTensor) {
	for _, x := range list {
		if len(x.Shape) < 2 {
			out = append(out, x)
			continue
		}
		stem, rows, cols := strings.TrimSuffix(x.Name, ".weight"), x.Shape[0], x.Shape[1]
		out = append(out, testmodel.SafeTensor{Name: x.Name, DType: tensorfs.U32, Shape: []int64{rows, cols / 8}},
			testmodel.SafeTensor{Name: stem + ".scales", DType: tensorfs.BF16, Shape: []int64{rows, cols / 64}},
			testmodel.SafeTensor{Name: stem + ".biases", DType: tensorfs.BF16, Shape: []int64{rows, cols / 64}})
	}
	return out
}

// BenchmarkWhole reads whole models: gguf/TYPE/CACHE/HOW is gguf/model.gguf of a model in BF16, as
// TYPE; MLX-4-bit belongs to a model that MLX quantised. The time is compared with reading all
// files of a view of the same model, one after another; the time of a copy with copying the model's
// own file. GB count the model as half, so that a smaller type, which writes less, does not look
// faster for that.
func BenchmarkWhole(b *testing.B) {
	dir := benchPlace(b, *benchDir, "")
	m, mlx := wholeModel(b, dir, *benchSize, false), wholeModel(b, dir, min(*benchSize, 256), true)
	rows := benchRows{}
	row := func(name, base, ratio string, aim float64, model benchModel, measure func(testing.TB) sample) {
		inHalves := func(t testing.TB) sample {
			s := measure(t)
			s.bytes = model.out
			return s
		}
		rows.row(b, name, inHalves, base, ratio, aim, func(b *testing.B, s sample) {
			b.ReportMetric(1/s.perByte(), "GB/s")
			b.ReportMetric(s.cpuMS()/float64(s.bytes)*1e9, "CPU-ms/GB")
		})
	}
	const file, raw, f16, mlxF16, copied = "file/warm/read", "raw/BF16/cold/read", "f16/BF16/cold/read", "f16/MLX-4-bit/cold/read", "file/warm/cp"
	row(file, "", "of", 0, m, readFile(m, "read"))
	row(raw, file, "of", 0, m, cold(m, "raw", "read-all"))
	row(f16, file, "of", 0, m, cold(m, "f16", "read-all"))
	row("gguf/BF16/cold/read", raw, "of", 0.9, m, cold(m, "gguf/model.gguf", "read"))
	for _, x := range []struct {
		name string
		aim  float64
	}{{"F16", 0.9}, {"Q8_0", 0.5}, {"Q4_0", 0.5}} {
		row("gguf/"+x.name+"/cold/read", f16, "of", x.aim, m, cold(m, "gguf/model.gguf", "read", "--gguf-type", strings.ToLower(x.name)))
	}
	adapter, merges := adapterOf(b, dir, m), mergesOf(b, dir, m)
	row("f16/BF16+lora/cold/read", f16, "of", 1./3, m, cold(m, "f16", "read-all", "--lora", adapter))
	row("gguf/Q8_0+lora/cold/read", "gguf/Q8_0/cold/read", "of", 0, m, cold(m, "gguf/model.gguf", "read", "--gguf-type", "q8_0", "--lora", adapter))
	for _, x := range []struct {
		name string
		aim  float64
	}{{"linear-of-3", 0.25}, {"slerp", 0}, {"ties-of-3", 0}} {
		merge := benchModel{filepath.Join(merges, x.name+".yml"), m.file, m.out}
		row("f16/"+x.name+"/cold/read", f16, "of", x.aim, merge, cold(merge, "f16", "read-all"))
	}
	row(mlxF16, "", "of", 0, mlx, cold(mlx, "f16", "read-all"))
	row("gguf/MLX-4-bit/cold/read", mlxF16, "of", 0.9, mlx, cold(mlx, "gguf/model.gguf", "read"))
	q8 := ggufOf(b, dir, m)
	const q8F16, q8HF, warmCopy = "f16/Q8_0/cold/read", "hf/Q8_0/cold/read", "hf/Q8_0/warm/cp"
	row(q8F16, "", "of", 0, q8, cold(q8, "f16", "read-all"))
	row(q8HF, q8F16, "of", 0.9, q8, cold(q8, "hf/model.safetensors", "read"))
	row("mlx/Q8_0/cold/read", q8F16, "of", 0, q8, cold(q8, "mlx/model.safetensors", "read"))
	tmpfs := tmpfsPlace(b, m.out+16<<20)
	if tmpfs == "" {
		return
	}
	row(copied, "", "x", 0, m, func(t testing.TB) sample { return copyTo(t, tmpfs, m.file, m.out) })
	for _, name := range []string{"BF16", "F16", "Q8_0", "Q4_0"} {
		row("gguf/"+name+"/cold/cp", copied, "x", 2.4, m, func(t testing.TB) sample {
			mnt := newBenchMount(t, m.path, "--gguf-type", strings.ToLower(name))
			defer mnt.unmount()
			before := mnt.cpu()
			s := copyTo(t, tmpfs, filepath.Join(mnt.dir, "gguf/model.gguf"), m.out)
			s.cpu += mnt.cpu() - before
			return s
		})
	}
	row(warmCopy, "", "of", 0, q8, func(t testing.TB) sample {
		mnt := newBenchMount(t, q8.path)
		defer mnt.unmount()
		touch(t, 2*q8.out)
		file := "hf/model.safetensors"
		mnt.read(t, "read", file)
		return copyTo(t, tmpfs, filepath.Join(mnt.dir, file), q8.out)
	})
	row("export/Q8_0/hf", warmCopy, "of", 0.8, q8, func(t testing.TB) sample {
		out := filepath.Join(tmpfs, "export")
		defer os.RemoveAll(out)
		touch(t, q8.out)
		return timed(t, tensorfsCommand("export", q8.path, out, "hf/model.safetensors"))
	})
}

// ggufOf returns a model as a GGUF file of type Q8_0.
func ggufOf(t testing.TB, parent string, m benchModel) benchModel {
	dir := cached(t, parent, filepath.Base(m.path)+"-q8_0", func(dir string) error {
		cmd := tensorfsCommand("cat", "--gguf-type", "q8_0", m.path, "gguf/model.gguf")
		f, err := os.Create(filepath.Join(dir, "model.gguf"))
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.Stdout = f
		return errors.Join(cmd.Run(), f.Sync())
	})
	path := filepath.Join(dir, "model.gguf")
	return benchModel{path, path, m.out}
}

// copyTo copies a file into a tmpfs.
func copyTo(t testing.TB, tmpfs, file string, n int64) sample {
	path := filepath.Join(tmpfs, "copy")
	defer os.Remove(path)
	touch(t, 2*n) // of the mount's cache and of the copy
	return timed(t, exec.Command("cp", file, path))
}

// readAll reads the files of a directory, one after the other.
func readAll(dir *os.File, _ int64) (int64, error) { return readFiles(dir, 0, 1, 0, readLikeCat) }

// readAllDirect reads them past the page cache of the mount.
func readAllDirect(dir *os.File, _ int64) (int64, error) {
	return readFiles(dir, 0, 1, unix.O_DIRECT, readDirect)
}

// readQuarter reads a quarter of them.
func readQuarter(dir *os.File, n int64) (int64, error) {
	return readFiles(dir, int(n), 4, 0, readLikeCat)
}

// readFiles reads part n of the files of a directory, by name.
func readFiles(dir *os.File, n, parts, flags int, read func(*os.File) (int64, error)) (total int64, err error) {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, name := range names[n*len(names)/parts : (n+1)*len(names)/parts] {
		f, err := os.OpenFile(filepath.Join(dir.Name(), name), os.O_RDONLY|flags, 0)
		if err != nil {
			return total, err
		}
		n, err := read(f)
		total += n
		if err := errors.Join(err, f.Close()); err != nil {
			return total, err
		}
	}
	return total, nil
}

// A whole model of the benchmarks can be converted to a GGUF file.
func TestBenchWholeModels(t *testing.T) {
	t.Parallel()
	for _, quantised := range []bool{false, true} {
		m := wholeModel(t, t.TempDir(), 1, quantised)
		code, out, stderr := command("cat", m.path, "gguf/tensorfs.json")
		if code != 0 || !strings.Contains(out, `"available": true`) || !strings.Contains(out, `"exact": true`) {
			t.Errorf("%s %s", out, stderr)
		}
	}
	code, out, stderr := command("cat", tokenizerModel(t, t.TempDir(), 5000).path, "gguf/tensorfs.json")
	if code != 0 || !strings.Contains(out, `"available": true`) {
		t.Errorf("%s %s", out, stderr)
	}
}
