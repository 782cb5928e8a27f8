package hf_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
)

// returning are models whose hf/ of both files has the source's tensors by the source's names, with patterns of what differs:
// fields of config.json, and tensors that hf/ does not have.
var returning = map[string]string{
	// Its release names fields otherwise than transformers' class does.
	"../vision/kimi-k25":    "vision_config.* projection_* ignore_index media_placeholder_token_id use_unified_vision_chunk video_placeholder",
	"../vision/lighton-ocr": "vision_feature_layer multimodal_projector_bias projector_hidden_act", // which the class does not read
	"exaone4.5":             "mtp.* vision_config.tokens_per_second",
	"gemma4-unified":        "",
	// The layer predicts a further token.
	"glm-ocr":   "model.language_model.layers.3.* tie_word_embeddings vision_config.in_channels",
	"glm4v-moe": "vision_config.model_type",
	// Defaults of the class, which does not read image_size.
	"minicpmv4.6": "image_size merge_kernel_size vision_config.window_kernel_size",
}

// TestTowersReturn makes hf/ of both files of a model: it has the tensors of the directory that they were made from, and
// the fields about the towers. Transformers loaded each of them: it missed no tensor, and had the parameters of the source.
func TestTowersReturn(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(returning)) {
		t.Run(name, func(t *testing.T) {
			text, tower := pairOf(t, name)
			if text == nil || tower == nil {
				t.Fatal("gguf/ lacks a file")
			}
			m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": text}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			made := hf.HF(m, beside(t, tower))
			if why := made.Reason + made.Left[convert.Vision] + made.Left[convert.Audio]; why != "" {
				t.Fatal(why)
			}
			files := contents(t, made)
			back, err := formats.OpenFS(memory.New(map[string][]byte{"m.safetensors": files["model.safetensors"]}), "m.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { back.Close() })
			source, err := formats.Open(data + "architectures/" + name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { source.Close() })
			var wrong problems
			want := numbers(t, source)
			maps.DeleteFunc(want, func(tensor, _ string) bool { return excepted(name, tensor) })
			wrong.compare(numbers(t, back), want)
			wrong.compareFields(t, name, files["config.json"])
			if len(wrong) > 0 {
				t.Errorf("%.3000s", strings.Join(wrong, "; "))
			}
		})
	}
}

// numbers are the shapes of a model's tensors, and hashes of their numbers as F32.
func numbers(t *testing.T, m *tensorfs.Model) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i := range m.Tensors {
		x, err := layout.Encoded(&m.Tensors[i], tensorfs.F32)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, x.Data.Size())
		if err := tensorfs.ReadFull(x.Data, b, 0); err != nil {
			t.Fatal(err)
		}
		all[m.Tensors[i].Source] = fmt.Sprintf("%s %x", dimensions(x.Shape), sha256.Sum256(b))
	}
	return all
}

// excepted reports whether returning has a field, or a tensor.
func excepted(name, of string) bool {
	return slices.ContainsFunc(strings.Fields(returning[name]), func(pattern string) bool { ok, _ := path.Match(pattern, of); return ok })
}

// unsaid are fields of towers in config.json that GGUF files do not have and that change no result.
var unsaid = []string{"*dropout", "*dropout_prob", "initializer_range", "dtype", "torch_dtype", "transformers_version", "_name_or_path", "*_token_id", "*_token_index", "use_cache"}

// compareFields compares the fields of a config.json that are not in text_config with the source's.
func (p *problems) compareFields(t *testing.T, name string, got []byte) {
	sides := [2]map[string]any{{}, {}}
	for i, text := range [][]byte{got, read(t, "architectures/"+name+"/config.json")} {
		var o map[string]any
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		delete(o, "text_config")
		for field, v := range o {
			if inner, ok := v.(map[string]any); ok {
				for k, v := range inner {
					sides[i][field+"."+k] = v
				}
			} else {
				sides[i][field] = v
			}
		}
	}
	union := maps.Clone(sides[0])
	maps.Copy(union, sides[1])
	for field := range union {
		last := field[strings.LastIndexByte(field, '.')+1:]
		if slices.ContainsFunc(unsaid, func(pattern string) bool { ok, _ := path.Match(pattern, last); return ok }) || excepted(name, field) {
			continue
		}
		if a, b := fmt.Sprint(sides[0][field]), fmt.Sprint(sides[1][field]); a != b {
			p.add("config.json has %s for %s, want %s", a, field, b)
		}
	}
}
