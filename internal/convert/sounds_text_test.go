package convert_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

const (
	audioData  = testdata + "audio/"
	visionData = testdata + "vision/"
)

// unlikeConverter are the keys that the converter writes of other things than the model's files have, or that say nothing.
var unlikeConverter = strings.Fields(`general.size_label general.name general.basename general.finetune
	tokenizer.ggml.add_sep_token tokenizer.ggml.add_eos_token tokenizer.ggml.pre`)

// TestModelsWithTowers compares the language models of models that hear or see with the files of llama.cpp's converter: every tensor, and
// every key. Releases of transformers spell config.json in two ways: the file is the same.
func TestModelsWithTowers(t *testing.T) {
	files, err := filepath.Glob(audioData + "expected/*.tensors.tsv")
	more, err2 := filepath.Glob(visionData + "expected/*.tensors.tsv")
	if err != nil || err2 != nil || len(files) != 9 || len(more) == 0 {
		t.Fatal(files, more, err, err2)
	}
	for _, file := range append(files, more...) {
		name := strings.TrimSuffix(filepath.Base(file), ".tensors.tsv")
		data := filepath.Dir(filepath.Dir(file)) + "/"
		for _, config := range []string{"config.json", "config.v5.json"} {
			text, err := os.ReadFile(data + name + "/" + config)
			if err != nil {
				continue
			}
			t.Run(name+" "+config, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(data+name)); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(dir+"/config.json", text, 0o600); err != nil {
					t.Fatal(err)
				}
				m, err := formats.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				f := convert.GGUF(m, convert.Options{})
				_, err = os.Stat(strings.TrimSuffix(file, "tensors.tsv") + "mmproj.tsv")
				if hasTower := err == nil; len(f.List) == 2 != hasTower || f.Left[convert.Vision]+f.Left[convert.Audio] == "" != hasTower {
					t.Fatalf("%s", f.Describe())
				}
				made, err := gguf.Parse(bytes.NewReader(testwhole.Read(t, f.List[0].Data)))
				if err != nil {
					t.Fatal(err)
				}
				sameText(t, made, strings.TrimSuffix(file, "tensors.tsv")+"meta.json")
				got, want := map[string]string{}, map[string]string{}
				for i := range made.Tensors {
					x := &made.Tensors[i]
					ne := slices.Clone(x.Shape)
					slices.Reverse(ne)
					got[x.Source] = fmt.Sprintf("%s %s %x", x.DType, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(ne), "[]")), "x"), sha256.Sum256(testwhole.Read(t, x.Data)))
				}
				for _, r := range testwhole.Table(t, file) {
					want[r[0]] = strings.Join([]string{r[1], r[2], r[4]}, " ")
				}
				testwhole.Same(t, got, want)
			})
		}
	}
}

// sameText compares the keys of a language model.
func sameText(t *testing.T, made *gguf.File, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct{ Value any }
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for _, e := range made.Metadata {
		if e.Key == "tokenizer.ggml.bos_token_id" && strings.Contains(path, "qwen3-omni") { // the converter finds it if tokenizer_config.json lists it
			continue
		}
		var got any = e.Value
		if a, ok := got.(tensorfs.Array); ok {
			list := []any{}
			for v := range a.Values() {
				list = append(list, v)
			}
			got = list
		}
		if x, ok := got.(float32); ok {
			got = float64(x)
		}
		if w, ok := want[e.Key]; !slices.Contains(unlikeConverter, e.Key) && (!ok || fmt.Sprint(got) != fmt.Sprint(w.Value)) {
			t.Errorf("%s is %.100v, want %.100v", e.Key, fmt.Sprint(got), fmt.Sprint(w.Value))
		}
		delete(want, e.Key)
	}
	for key := range want {
		if !slices.Contains(unlikeConverter, key) {
			t.Errorf("%s is missing", key)
		}
	}
}

// TestAudioRefusals holds why there is no audio tower in gguf/, or what is noted of it.
func TestAudioRefusals(t *testing.T) {
	for _, c := range []struct {
		model, old, changed string // of config.json
		want                string
	}{
		{"qwen2-audio", `"d_model": 32`, `"d_model": 64`, "has 32 for width"},
		{"qwen2-audio", `"encoder_layers": 3`, `"encoder_layers": 4`, "the tensor layers.3.attention_norm.weight is missing, which is a.blk.3.ln1.weight"},
		{"qwen2-audio", `"num_mel_bins": 128`, `"num_mel_bins": 80`, "has 128 for mels"},
		{"qwen2-audio", `"activation_function": "gelu"`, `"activation_function": "relu"`, `activation_function is "relu"`},
		{"qwen3-omni", `"n_window": 50`, `"n_window": 40`, "n_window is left out: llama.cpp has 50"},
		{"gemma4-audio", `"attention_chunk_size": 12`, `"attention_chunk_size": 16`, "attention_chunk_size is 16, and only 12 can be said"},
		{"granite-speech", `"num_layers": 4`, `"num_layers": 5`, "the tensor layers.4.attention_norm.weight is missing"},
		{"lfm2-audio", `"conv_norm_type": "batch_norm"`, `"conv_norm_type": "layer_norm"`, `conv_norm_type is "layer_norm"`},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(audioData+c.model)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(dir + "/config.json")
		if err != nil || !strings.Contains(string(text), c.old) {
			t.Fatal(c.model, c.old, err)
		}
		if err := os.WriteFile(dir+"/config.json", []byte(strings.Replace(string(text), c.old, c.changed, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := formats.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		f := convert.GGUF(m, convert.Options{})
		m.Close()
		if said := f.Left[convert.Audio] + strings.Join(f.Notes, "\n"); f.Reason != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s with %s: %s %q, want %s", c.model, c.changed, f.Reason, said, c.want)
		}
	}
}
