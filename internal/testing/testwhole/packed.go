package testwhole

import (
	"archive/zip"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
)

// PackedCases are the names of the modules that other programs packed, in
// testdata/quantise/foreign.zip.
func PackedCases(tb testing.TB) (names []string) {
	tb.Helper()
	for line := range strings.Lines(string(packedFile(tb, "cases.tsv"))) {
		name, _, _ := strings.Cut(line, "\t")
		names = append(names, name)
	}
	return names
}

func packedFile(tb testing.TB, name string) []byte {
	tb.Helper()
	files, err := zip.OpenReader(filepath.Join(Data(tb), "quantise", "foreign.zip"))
	if err != nil {
		tb.Fatal(err)
	}
	defer files.Close()
	b, err := fs.ReadFile(files, name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// PackedParts are the modules of a layer that are packed in a model of [Packed].
var PackedParts = []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"}

// Packed returns the files of a whole model of Llama's kind with a tokenizer: all modules of
// its two layers that have the shape of a packed one are that one, and it has two heads. more
// are further fields of config.json.
func Packed(tb testing.TB, name string, more map[string]any) map[string][]byte {
	tb.Helper()
	m, err := formats.OpenFS(memory.New(map[string][]byte{"config.json": packedFile(tb, name+"/config.json"), "model.safetensors": packedFile(tb, name+"/model.safetensors")}), ".")
	opened(tb, m, err)
	var module []testmodel.SafeTensor
	var shape []int64
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Quant != nil {
			shape = t.Quant.Shape
		}
		module = append(module, testmodel.SafeTensor{Name: strings.TrimPrefix(t.Source, "m"), DType: t.DType, Shape: t.Shape, Data: Read(tb, t.Data)})
	}
	if shape == nil {
		tb.Fatalf("%s has no module", name)
	}
	llama := filepath.Join(Data(tb), "whole-gguf", "llama3")
	files := map[string][]byte{}
	var config map[string]any
	for _, file := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"} {
		if files[file], err = os.ReadFile(filepath.Join(llama, file)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, text := range [][]byte{files["config.json"], packedFile(tb, name+"/config.json")} {
		if err := json.Unmarshal(text, &config); err != nil {
			tb.Fatal(err)
		}
	}
	rows, cols := shape[0], shape[1]
	maps.Copy(config, map[string]any{"hidden_size": cols, "intermediate_size": rows, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": rows / 2})
	maps.Copy(config, more)
	plain := func(name string, shape ...int64) testmodel.SafeTensor {
		n, _ := tensorfs.Elements(shape)
		data := make([]byte, 0, 2*n)
		for i := range n {
			data = binary.LittleEndian.AppendUint16(data, uint16(0x3c00+(i*37+int64(len(name)))%0x180)) // BF16 from 0.008 on
		}
		return testmodel.SafeTensor{Name: name, DType: tensorfs.BF16, Shape: shape, Data: data}
	}
	vocabulary := int64(config["vocab_size"].(float64))
	tensors := []testmodel.SafeTensor{plain("model.embed_tokens.weight", vocabulary, cols), plain("model.norm.weight", cols), plain("lm_head.weight", vocabulary, cols)}
	for _, layer := range []string{"model.layers.0.", "model.layers.1."} {
		tensors = append(tensors, plain(layer+"input_layernorm.weight", cols), plain(layer+"post_attention_layernorm.weight", cols),
			plain(layer+"self_attn.o_proj.weight", cols, rows), plain(layer+"mlp.down_proj.weight", cols, rows))
		for _, part := range PackedParts {
			for _, t := range module {
				t.Name = layer + part + t.Name
				tensors = append(tensors, t)
			}
		}
	}
	for file, b := range testmodel.HF(config, tensors, 1, [][2]string{{"format", "pt"}}) {
		files[file] = b
	}
	return files
}

// OpenFiles opens a directory that is in memory.
func OpenFiles(tb testing.TB, files map[string][]byte) *tensorfs.Model {
	tb.Helper()
	m, err := formats.OpenFS(memory.New(files), ".")
	return opened(tb, m, err)
}

// Unpacked returns the files of a model of [Packed] with plain numbers of a type, each rounded
// once: what a program that knows no packings has to make the same of.
func Unpacked(tb testing.TB, m *tensorfs.Model, files map[string][]byte, to tensorfs.DType) map[string][]byte {
	tb.Helper()
	plain := maps.Clone(files)
	var tensors []testmodel.SafeTensor
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Owner != "" {
			continue
		}
		s := testmodel.SafeTensor{Name: t.Source, DType: t.DType, Shape: t.Shape}
		d := t.Data
		if t.Quant != nil {
			single, err := views.Encode(t, tensorfs.F32)
			if err != nil {
				tb.Fatal(err)
			}
			numbers := tensorfs.Tensor{DType: tensorfs.F32, Shape: t.Quant.Shape, Data: tensorfs.Bytes(Read(tb, single))}
			if d, err = views.Encode(&numbers, to); err != nil {
				tb.Fatal(err)
			}
			stem := t.Source[:strings.LastIndexByte(t.Source, '.')]
			s = testmodel.SafeTensor{Name: stem + ".weight", DType: to, Shape: t.Quant.Shape}
		}
		s.Data = Read(tb, d)
		tensors = append(tensors, s)
	}
	var config map[string]any
	if err := json.Unmarshal(files["config.json"], &config); err != nil {
		tb.Fatal(err)
	}
	delete(config, "quantization_config")
	maps.Copy(plain, testmodel.HF(config, tensors, 1, nil))
	return plain
}
