package hf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// withTensor returns a safetensors file with one more tensor, of four numbers.
func withTensor(t *testing.T, b []byte, name string) []byte {
	t.Helper()
	n := binary.LittleEndian.Uint64(b)
	header := map[string]any{}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	data := b[8+n:]
	header[name] = map[string]any{"dtype": "F32", "shape": []int{2, 2}, "data_offsets": []int{len(data), len(data) + 16}}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, bytes.Repeat([]byte(" "), (8-len(text)%8)%8)...)
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data, bytes.Repeat([]byte{0, 0, 128, 63}, 4))
}

// composedOf returns a GGUF file with the keys and tensors of a model, and more tensors.
func composedOf(t *testing.T, m *tensorfs.Model, meta []tensorfs.Meta, more ...gguf.Stored) []byte {
	t.Helper()
	var list []gguf.Stored
	for i := range m.Tensors {
		x := &m.Tensors[i]
		list = append(list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	d, err := gguf.Compose(meta, append(list, more...))
	if err != nil {
		t.Fatal(err)
	}
	return testwhole.Read(t, d)
}

// tells reports whether the files are absent for a reason that has a text, or have a note with it.
func tells(f *convert.Files, text string) bool {
	return strings.Contains(f.Reason+"\n"+strings.Join(f.Notes, "\n"), text)
}

// TestForeignTensors adds to each golden model a tensor that no architecture has. Whatever is made
// without this tensor reports it, and nothing is made that a program would refuse because of it.
func TestForeignTensors(t *testing.T) {
	n := 0
	for name, m := range goldenGGUFs(t) {
		for _, tensor := range []string{"wobble.weight", "blk.0.attn_wobble.weight"} {
			b := composedOf(t, m, m.Metadata, gguf.Stored{Name: tensor, DType: tensorfs.F32, Shape: []int64{2, 2}, Data: tensorfs.Bytes(make([]byte, 16))})
			g, err := openGGUF(memory.New(map[string][]byte{"m.gguf": b}))
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range wholeKinds {
				if f := kind.make(g, convert.Options{}); f.Reason == "" && !tells(f, tensor) {
					t.Errorf("%s with %s: %s/ says %q and %q", name, tensor, kind.name, f.Reason, f.Notes)
				}
			}
			g.Close()
			n++
		}
	}
	dirs, err := filepath.Glob(data + "architectures/*/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range dirs {
		for _, tensor := range []string{"wobble.weight", "model.layers.0.self_attn.wobble.weight"} {
			files := onDisk(t, filepath.Dir(file))
			files["model.safetensors"] = withTensor(t, files["model.safetensors"], tensor)
			m, err := openDirectory(memory.New(files))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, kind := range wholeKinds {
				f := kind.make(m, convert.Options{})
				kept := kind.name == "hf" && f.Reason == "" && f.Tensors == len(m.Tensors) // as it is stored
				if !kept && f.Reason == "" && !tells(f, tensor) {
					t.Errorf("%s with %s: %s/ says %q and %q", filepath.Base(filepath.Dir(file)), tensor, kind.name, f.Reason, f.Notes)
				}
			}
			m.Close()
			n++
		}
	}
	for _, pattern := range []string{"architectures/*/model.safetensors", "whole-gguf/*/model.safetensors", "models-mlx/*/model.safetensors", "published/*/model.safetensors"} {
		files, err := filepath.Glob(data + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			m := testwhole.Open(t, filepath.Dir(file))
			if f := hf.MLX(m, convert.Options{}); tells(f, "mlx-lm refuses tensors") {
				t.Errorf("%s: %q", file, f.Notes)
			}
		}
	}
	if n < 400 {
		t.Errorf("%d models", n)
	}
}

// wholeKinds are the directories of whole models.
var wholeKinds = []struct {
	name string
	make func(*tensorfs.Model, convert.Options) *convert.Files
}{{"gguf", convert.GGUF}, {"hf", hf.HF}, {"mlx", hf.MLX}}

// changedValue returns another value of the same type, nil if the type has only one.
func changedValue(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case uint32:
		return v + 1
	case int32:
		return v + 1
	case uint64:
		return v + 1
	case float32:
		return 2*v + 1
	case string:
		return v + "-wobble"
	}
	return nil
}

// said is what hf/ of a model reports: config.json, notes, or the reason for its absence.
func said(f *convert.Files, t *testing.T) string {
	text := f.Reason + "\n" + strings.Join(f.Notes, "\n")
	for _, file := range f.List {
		if strings.HasSuffix(file.Path, ".json") && !strings.HasPrefix(file.Path, "tokenizer") {
			text += string(testwhole.Read(t, file.Data))
		}
	}
	return text
}

// unheard are keys that change nothing for a reason, by the names of golden models and keys.
var unheard = map[string]string{
	"sizes that tensors show, of which llama.cpp loads no other": "*.vocab_size deepseek*.attention.key_length glm-dsa.attention.key_length hy_v4.attention.key_length kimi-linear.attention.key_length bailingmoe3.attention.key_length " +
		"dots3note.attention.key_length dots3note.attention.value_length dots3note.attention.key_length_swa dots3note.attention.value_length_swa dots3note.attention.head_count_kv deepseek*.attention.value_length glm-dsa.attention.value_length hy_v4.attention.value_length plm.attention.value_length gemma4.attention.value_length_swa " +
		"deepseek*.attention.head_count_kv glm-dsa.attention.head_count_kv hy_v4.attention.head_count_kv minicpm3.attention.head_count_kv " +
		"ernie4_5-moe.expert_shared_feed_forward_length qwen3vlmoe.expert_shared_feed_forward_length laguna.leading_dense_block_count minimax-m3.leading_dense_block_count " +
		"minimax-m3.expert_shared_count gemma4.feed_forward_length mamba*.attention.head_count mamba*.context_length mamba*.feed_forward_length",
	"of layers that the model does not have":   "minimax-m2.feed_forward_length smallthinker.feed_forward_length deepseek2.expert_feed_forward_length deepseek2.leading_dense_block_count",
	"how rotary embeddings would be scaled":    "*.rope.scaling.finetuned hunyuan*.rope.scaling.factor hunyuan*.rope.scaling.original_context_length",
	"epsilons of the norm that it has not":     "exaone.attention.layer_norm_epsilon nemotron*.attention.layer_norm_rms_epsilon t5*.attention.layer_norm_epsilon",
	"what tensors show":                        "stablelm.use_parallel_residual",
	"without rotary embeddings":                "nemotron_h*.rope.dimension_count",
	"of a tower, which mmproj.gguf says again": "qwen3vl*.n_deepstack_layers",
}

// TestChangedKeys changes each key of the GGUF file of each golden model in turn, and adds the
// keys that are known: config.json of hf/ is another one, a note names the key, or there is no
// hf/.
func TestChangedKeys(t *testing.T) {
	known := strings.Fields(strings.Join(slices.Collect(maps.Values(unheard)), " "))
	tried := 0
	for name, m := range goldenGGUFs(t) {
		was := said(hf.HF(m, convert.Options{}), t)
		check := func(meta []tensorfs.Meta, key string, value any) {
			if slices.ContainsFunc(known, func(pattern string) bool { ok, _ := path.Match(pattern, key); return ok }) {
				return
			}
			changed := *m
			changed.Metadata = meta
			tried++
			if is := said(hf.HF(&changed, convert.Options{}), t); is == was {
				t.Errorf("%s with %s %v: nothing changes, and nothing is said", name, key, value)
			}
		}
		for i, x := range m.Metadata {
			if !strings.HasPrefix(x.Key, m.Architecture+".") {
				continue
			}
			if v := changedValue(x.Value); v != nil {
				meta := slices.Clone(m.Metadata)
				meta[i].Value = v
				check(meta, x.Key, v)
			}
		}
	}
	if tried < 1500 {
		t.Errorf("%d keys", tried)
	}
}

// TestForeignTowers adds keys and tensors to mmproj.gguf of each golden tower, and changes each of its keys: hf/ is
// absent, a note names it, or config.json is another one.
func TestForeignTowers(t *testing.T) {
	// Pictures are made ready by preprocessor_config.json; the sizes are what tensors show.
	const unheard = "clip.vision.image_size clip.vision.preproc_image_size clip.vision.feed_forward_length"
	for _, name := range withTower {
		text, tower := pairOf(t, name)
		m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": text}))
		if err != nil {
			t.Fatal(err)
		}
		mm, err := openGGUF(memory.New(map[string][]byte{"m.gguf": tower}))
		if err != nil {
			t.Fatal(err)
		}
		made := func(meta []tensorfs.Meta, more ...gguf.Stored) *convert.Files {
			return hf.HF(m, beside(t, composedOf(t, mm, meta, more...)))
		}
		was := said(made(mm.Metadata), t)
		for _, k := range []struct {
			key    string
			value  any
			absent bool
		}{
			{"clip.vision.frobnicate", float32(2), true}, {"clip.frobnicate", uint32(3), true}, {"acme.rotated", true, true},
			{"clip.vision.rope_theta", float32(500), true}, {"clip.vision.wobbles", []int32{1}, true},
			{"clip.vision.kind", "wobble", false}, {"clip.vision.image_wobble", uint32(2), false}, {"clip.has_audio_encoder", true, false},
		} {
			f := made(append(slices.Clone(mm.Metadata), tensorfs.Meta{Key: k.key, Value: k.value}))
			if (f.Reason != "") != k.absent || !tells(f, k.key) {
				t.Errorf("%s with %s: %q %q", name, k.key, f.Reason, f.Notes)
			}
		}
		for i, x := range mm.Metadata {
			v := changedValue(x.Value)
			if !strings.HasPrefix(x.Key, "clip.") || v == nil || slices.Contains(strings.Fields(unheard), x.Key) {
				continue
			}
			meta := slices.Clone(mm.Metadata)
			meta[i].Value = v
			if said(made(meta), t) == was {
				t.Errorf("%s with %s %v: nothing changes, and nothing is said", name, x.Key, v)
			}
		}
		for _, tensor := range []string{"v.wobble.weight", "v.blk.0.wobble.weight", "mm.99.weight", "wobble", "a.blk.0.attn_q.weight"} {
			f := made(mm.Metadata, gguf.Stored{Name: tensor, DType: tensorfs.F32, Shape: []int64{2, 2}, Data: make(tensorfs.Bytes, 16)})
			if !tells(f, tensor) && f.Left[convert.Audio] == "" {
				t.Errorf("%s with %s: %q %q", name, tensor, f.Reason, f.Notes)
			}
		}
		m.Close()
		mm.Close()
	}
}

// TestOtherNames: hf/ takes the tower of Llama 4 by the names of its published files too.
func TestOtherNames(t *testing.T) {
	text, tower := pairOf(t, "llama4")
	m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": text}))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	mm, err := openGGUF(memory.New(map[string][]byte{"m.gguf": tower}))
	if err != nil {
		t.Fatal(err)
	}
	defer mm.Close()
	want := hf.HF(m, beside(t, tower))
	n := 0
	for i := range mm.Tensors {
		if x := &mm.Tensors[i]; strings.Contains(x.Source, ".attn_post_norm.") {
			x.Source = strings.Replace(x.Source, ".attn_post_norm.", ".ln2.", 1)
			n++
		}
	}
	if f := hf.HF(m, beside(t, composedOf(t, mm, mm.Metadata))); n == 0 || f.Reason != "" || f.Tensors != want.Tensors {
		t.Errorf("%d renamed: %q, noted %q, %d tensors of %d", n, f.Reason, f.Notes, f.Tensors, want.Tensors)
	}
}
