package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// llama3 is the golden model that most situations change.
const llama3 = "../../testdata/whole-gguf/llama3"

// situation is what people have.
type situation struct {
	name string
	make func(t *testing.T) string // the path of the model
	file string                    // of the tree that is read; "" for info
	want []string                  // in the file, or in the error
	not  []string
	code int
}

// TestSituations holds what people wrote in public threads that they have: files of other
// programs, of interrupted programs and of hands. Each is shown, or refused with a reason that is
// true of it; gguf/ is not "exact" without a word where llama.cpp does not load the file.
func TestSituations(t *testing.T) {
	apart(t)
	const notes, exact = `"notes": []`, `"exact": true`
	ofGGUF := func(change func(m *tensorfs.Model)) func(*testing.T) string {
		return func(t *testing.T) string { return changedGGUF(t, llama3, change) }
	}
	meta := func(key string, v any) func(*testing.T) string {
		return ofGGUF(func(m *tensorfs.Model) { setMeta(m, key, v) })
	}
	loads := func(why string) []string { return []string{`"llama.cpp does not load it: ` + why} }
	for _, s := range []situation{
		// GGUF files of other programs.
		{"a count that llama-quantize --override-kv wrote signed", meta("llama.context_length", int32(2048)), "gguf/tensorfs.json", loads("llama.context_length is i32, and it takes u32"), nil, 0},
		{"the same count in hf/", meta("llama.context_length", int32(2048)), "hf/config.json", []string{`"max_position_embeddings": 2048`}, nil, 0},
		{"layers pruned, their lists not", func(t *testing.T) string {
			return changedGGUF(t, "../../testdata/architectures/lfm2", func(m *tensorfs.Model) {
				setMeta(m, "lfm2.block_count", uint32(2))
				m.Tensors = slices.DeleteFunc(m.Tensors, func(x tensorfs.Tensor) bool { return strings.HasPrefix(x.Source, "blk.2.") })
			})
		}, "gguf/tensorfs.json", loads("lfm2.attention.head_count_kv has 3 values, and there are 2 layers"), nil, 0},
		{"keys without the architecture's name", ofGGUF(func(m *tensorfs.Model) {
			for i := range m.Metadata {
				m.Metadata[i].Key = strings.TrimPrefix(m.Metadata[i].Key, "llama.")
			}
		}), "gguf/tensorfs.json", loads("it lacks the key llama.block_count"), nil, 0},
		{"a token more than rows, of a trainer", ofGGUF(func(m *tensorfs.Model) {
			for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"} {
				list := slices.Collect(m.Meta(key).(tensorfs.Array).Values())
				if key == "tokenizer.ggml.tokens" {
					setMeta(m, key, append(asTexts(list), "<pad>"))
				} else {
					setMeta(m, key, slices.Repeat([]int32{1}, len(list)+1))
				}
			}
		}), "gguf/tensorfs.json", loads("there are 372 tokens, and output.weight has 371 rows"), nil, 0},
		{"frequencies of every layer, of an old converter", ofGGUF(func(m *tensorfs.Model) {
			m.Tensors = append(m.Tensors, tensorfs.Tensor{Source: "blk.0.attn_rot_embd", DType: tensorfs.F32, Shape: []int64{1}, Data: make(tensorfs.Bytes, 4)})
		}), "gguf/tensorfs.json", loads(`the tensor \"blk.0.attn_rot_embd\" has no place in a model of the architecture llama`), nil, 0},
		{"tokens that are none, of llama.cpp's finetune", ofGGUF(func(m *tensorfs.Model) {
			setMeta(m, "tokenizer.ggml.seperator_token_id", ^uint32(0))
			setMeta(m, "tokenizer.ggml.padding_token_id", ^uint32(0))
			setMeta(m, "training.epoch_count", uint64(0))
		}), "hf/tokenizer_config.json", []string{`"eos_token"`}, []string{"4294967295", "pad_token"}, 0},
		{"an end token beyond the vocabulary", meta("tokenizer.ggml.eos_token_id", uint32(32000)), "hf/config.json", nil, []string{"32000"}, 0},
		{"a way of scaling with Hugging Face's word", ofGGUF(func(m *tensorfs.Model) {
			m.Tensors = slices.DeleteFunc(m.Tensors, func(x tensorfs.Tensor) bool { return x.Source == "rope_freqs.weight" })
			setMeta(m, "llama.rope.scaling.type", "llama3")
			setMeta(m, "llama.rope.scaling.factor", float32(8))
		}), "hf/tensorfs.json", []string{`"available": false`, `llama.rope.scaling.type is \"llama3\"`}, nil, 0},
		{"a chat template of other letters than UTF-8", meta("tokenizer.chat_template", "caf\xe9 {{ messages }}"), "hf/tensorfs.json", []string{"tokenizer.chat_template is not UTF-8, or too long, and is left out"}, nil, 0},
		{"norms in BF16", func(t *testing.T) string {
			return changedGGUF(t, llama3, func(m *tensorfs.Model) {
				i := slices.IndexFunc(m.Tensors, func(x tensorfs.Tensor) bool { return x.Source == "output_norm.weight" })
				m.Tensors[i].DType, m.Tensors[i].Data = tensorfs.BF16, make(tensorfs.Bytes, 128)
			})
		}, "gguf/tensorfs.json", []string{`llama.cpp stops on a CPU`, `\"output_norm.weight\" is BF16`}, nil, 0},
		{"the number of heads of each layer as one", func(t *testing.T) string {
			return changedGGUF(t, "../../testdata/architectures/gemma4-shared", func(*tensorfs.Model) {})
		}, "gguf/tensorfs.json", []string{exact}, []string{"does not load"}, 0},
		{"keys that no loader wants twice", func(t *testing.T) string {
			b, err := os.ReadFile(changedGGUF(t, llama3, func(m *tensorfs.Model) { setMeta(m, "llama.context_lengtX", uint32(1)) }))
			must(t, err)
			return writtenAs(t, map[string][]byte{"m.gguf": bytes.Replace(b, []byte("llama.context_lengtX"), []byte("llama.context_length"), 1)}, "m.gguf")
		}, "", []string{`key "llama.context_length" occurs twice`}, nil, 1},

		// What a download left.
		{"a page in the place of the file", func(t *testing.T) string {
			return writtenAs(t, map[string][]byte{"m.gguf": []byte("<!DOCTYPE html><html>")}, "m.gguf")
		}, "", []string{"it is a web page, not the file"}, nil, 1},
		{"pieces as they were uploaded", func(t *testing.T) string {
			b := fileInTree(t, llama3, "gguf/model.gguf")
			return writtenAs(t, map[string][]byte{"m.gguf.part1of2": b[:len(b)/2], "m.gguf.part2of2": b[len(b)/2:]}, "m.gguf.part1of2")
		}, "", []string{`it is a piece of "m.gguf", which was cut; join its pieces`}, []string{"fetch"}, 1},
		{"the folder of such pieces", func(t *testing.T) string {
			return writtenAs(t, map[string][]byte{"m.gguf-split-a": []byte("GGUF"), "m.gguf-split-b": nil}, ".")
		}, "", []string{"only pieces", "join its pieces"}, nil, 1},

		// Directories of trainers.
		{"torch.compile's names", renamed(func(name string) string { return "_orig_mod." + name }), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"the same names in hf/", renamed(func(name string) string { return "_orig_mod." + name }), "hf/tensorfs.json", []string{`without the \"_orig_mod.\"`}, nil, 0},
		{"names without their body's", renamed(func(name string) string { return strings.TrimPrefix(name, "model.") }), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"weights that ZeRO-3 did not gather", withTensor("model.layers.0.mlp.up_proj.weight", 0), "gguf/tensorfs.json", []string{`"available": false`, "layers.0.ffn.up.weight, whose shape is [0]"}, nil, 0},
		{"a head of values, of reinforcement learning", withTensor("v_head.summary.weight", 64), "gguf/tensorfs.json", []string{`"available": false`, `\"v_head.summary.weight\"`}, nil, 0},
		{"scales that bitsandbytes left", withTensor("model.layers.0.mlp.down_proj.SCB", 64), "gguf/tensorfs.json", []string{`"available": false`, "SCB"}, nil, 0},
		{"an index of files that were renamed since", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "model.safetensors", nil, "model-00001-of-00001.safetensors", golden(t)["model.safetensors"],
				"model.safetensors.index.json", []byte(`{"weight_map":{"lm_head.weight":"model-00015-of-00030.safetensors"}}`)), ".")
		}, "", []string{`"model-00015-of-00030.safetensors" that it names is missing`}, nil, 1},
		{"an index that names a tensor too much", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "model.safetensors.index.json", []byte(`{"weight_map":{"mtp.fc.weight":"model.safetensors"}}`)), ".")
		}, "", []string{`tensor "mtp.fc.weight": the index places it in "model.safetensors", which does not have it`}, nil, 1},
		{"names of files of a trainer", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "model.safetensors", nil, "model.safetensors-00001-of-00001.safetensors", golden(t)["model.safetensors"]), ".")
		}, "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"no weights yet", func(t *testing.T) string { return writtenAs(t, with(golden(t), "model.safetensors", nil), ".") }, "", []string{"the directory has no model.safetensors"}, nil, 1},
		{"a generation_config.json with a stop for a comma", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "generation_config.json", []byte(`{"do_sample": true. "eos_token_id": 2}`)), ".")
		}, "", []string{"generation_config.json: it is not JSON", "gguf/: model.gguf"}, nil, 0},
		{"a config.json without architectures", configured("architectures", nil), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"a config.json without a quantisation", configured("quantization_config", nil), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"a tower that is null", configured("vision_config", nil), "gguf/tensorfs.json", []string{exact}, nil, 0},
		{"an infinity as Python writes it", configured("router_z", json.Number("-Infinity")), "gguf/tensorfs.json", []string{exact}, nil, 0},
		{"an infinity as transformers 5 writes it", configured("router_z", map[string]any{"__float__": "Infinity"}), "gguf/tensorfs.json", []string{exact}, nil, 0},
		{"metadata of a safetensors file that is null", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "model.safetensors", bytes.Replace(golden(t)["model.safetensors"], []byte(`{"format":"pt"}`), []byte(`null           `), 1)), ".")
		}, "gguf/tensorfs.json", []string{exact, notes}, nil, 0},

		// Texts longer than in training, as a model card describes.
		{"Qwen3.5 with yarn", func(t *testing.T) string {
			files := filesOf(t, "../../testdata/architectures/qwen3.5")
			var config map[string]any
			must(t, json.Unmarshal(files["config.json"], &config))
			text, ok := config["text_config"].(map[string]any)
			if !ok {
				text = config
			}
			maps.Copy(text["rope_parameters"].(map[string]any), map[string]any{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024})
			files["config.json"], _ = json.Marshal(config)
			b := fileInTree(t, writtenAs(t, files, "."), "gguf/model.gguf")
			return writtenAs(t, map[string][]byte{"m.gguf": b}, "m.gguf")
		}, "hf/config.json", []string{`"rope_type": "yarn"`, `"factor": 4.0`, `"original_max_position_embeddings": 1024`, `"mrope_interleaved": true`, `"partial_rotary_factor": 0.5`}, nil, 0},

		// Names of other days.
		{"BERT's norms as its first release called them", func(t *testing.T) string {
			return renamedOf(t, "../../testdata/whole-gguf/bert", func(name string) string {
				return strings.NewReplacer("LayerNorm.weight", "LayerNorm.gamma", "LayerNorm.bias", "LayerNorm.beta").Replace(name)
			})
		}, "gguf/tensorfs.json", []string{exact}, []string{`"available": false`}, 0},
		{"a tower below the language model", func(t *testing.T) string {
			return renamedOf(t, "../../testdata/architectures/qwen3-vl", func(name string) string {
				return strings.Replace(strings.Replace(name, "model.visual.", "visual.", 1), "visual.", "model.language_model.visual.", 1)
			})
		}, "gguf/tensorfs.json", []string{`"available": true`, "this is only the language model, without vision"}, nil, 0},

		// GGUF files that a program loads no more, or never did.
		{"a way to cut texts that a fork has", meta("tokenizer.ggml.pre", "acme-bpe"), "gguf/tensorfs.json", loads(`tokenizer.ggml.pre is \"acme-bpe\"`), nil, 0},
		{"a base in the place of an adapter", ofGGUF(func(m *tensorfs.Model) {
			setMeta(m, "general.type", "adapter")
			m.Metadata = slices.DeleteFunc(m.Metadata, func(x tensorfs.Meta) bool { return x.Key == "llama.context_length" })
		}), "gguf/tensorfs.json", loads("it is an adapter"), nil, 0},
		{"a vocabulary without a model", ofGGUF(func(m *tensorfs.Model) { m.Tensors = nil }), "gguf/tensorfs.json", loads("it lacks the tensor token_embd.weight"), nil, 0},
		{"rotated dimensions by the width of another Mistral", meta("llama.rope.dimension_count", uint32(20)), "gguf/tensorfs.json", loads("llama.rope.dimension_count is 20, and a head has 16"), nil, 0},
		{"merges that were lost", ofGGUF(func(m *tensorfs.Model) {
			m.Metadata = slices.DeleteFunc(m.Metadata, func(x tensorfs.Meta) bool { return x.Key == "tokenizer.ggml.merges" })
		}), "gguf/tensorfs.json", loads("it has no merges"), nil, 0},
		{"an end token as a list", meta("tokenizer.ggml.eos_token_id", []uint32{1, 2}), "gguf/tensorfs.json", loads("tokenizer.ggml.eos_token_id is a list of u32, and it takes u32"), nil, 0},
		{"q, k and v of Phi-2 one by one", func(t *testing.T) string {
			return changedGGUF(t, "../../testdata/architectures/phi2", func(m *tensorfs.Model) {
				var list []tensorfs.Tensor
				for _, x := range m.Tensors {
					before, after, joined := strings.Cut(x.Source, "attn_qkv")
					if !joined {
						list = append(list, x)
						continue
					}
					b := make(tensorfs.Bytes, x.Data.Size())
					must(t, tensorfs.ReadFull(x.Data, b, 0))
					for i, part := range []string{"attn_q", "attn_k", "attn_v"} {
						third := x
						third.Source, third.Shape, third.Data = before+part+after, slices.Clone(x.Shape), b[i*len(b)/3:(i+1)*len(b)/3]
						third.Shape[0] /= 3
						list = append(list, third)
					}
				}
				m.Tensors = list
			})
		}, "hf/tensorfs.json", []string{exact}, []string{"does not load"}, 0},

		// What merging, training and copying leave in a directory.
		{"a quantisation of training in a merged model", configured("quantization_config", map[string]any{"quant_method": "bitsandbytes", "load_in_4bit": true}), "mlx/tensorfs.json", []string{`"available": true`, exact}, nil, 0},
		{"FP8's settings over BF16", configured("quantization_config", map[string]any{"quant_method": "fp8", "weight_block_size": []int{128, 128}}), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"a config.json of Notepad", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "config.json", slices.Concat([]byte("\xef\xbb\xbf"), golden(t)["config.json"])), ".")
		}, "", []string{"save it as UTF-8 without a byte order mark"}, []string{"damaged"}, 1},
		{"rows up to a multiple of 64", withRows(384), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"fewer rows than tokens", withRows(368), "gguf/tensorfs.json", []string{`"available": false`, "is past the 368 rows of the embedding"}, nil, 0},
		{"an adapter's settings called config.json", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "config.json", []byte(`{"peft_type":"LORA","r":8,"target_modules":["q_proj"]}`)), ".")
		}, "gguf/tensorfs.json", []string{"nothing names the model's architecture, neither architectures nor model_type"}, nil, 0},
		{"greedy, with a temperature", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "generation_config.json", []byte(`{"do_sample":false,"temperature":1e-06}`)), ".")
		}, "gguf/tensorfs.json", []string{"a GGUF file does not say do_sample false"}, nil, 0},
		{"ends that only generation_config.json knows", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "generation_config.json", []byte(`{"eos_token_id":[370,368]}`)), ".")
		}, "gguf/tensorfs.json", []string{"llama.cpp does not end an answer at 368"}, nil, 0},
		{"rotary settings outside of text_config too", func(t *testing.T) string {
			files := filesOf(t, "../../testdata/architectures/qwen3.5")
			files["config.json"] = bytes.Replace(files["config.json"], []byte("{"), []byte(`{"rope_parameters":{"rope_type":"linear","factor":8,"rope_theta":5},`), 1)
			return writtenAs(t, files, ".")
		}, "gguf/tensorfs.json", []string{exact}, []string{"rope", `"available": false`}, 0},
		{"a mirror that lost block_ff_dim", func(t *testing.T) string {
			files := filesOf(t, "../../testdata/architectures/lfm2")
			var config map[string]any
			must(t, json.Unmarshal(files["config.json"], &config))
			delete(config, "block_ff_dim")
			files["config.json"], _ = json.Marshal(config)
			return writtenAs(t, files, ".")
		}, "mlx/config.json", []string{`"block_ff_dim": 96`}, nil, 0},
		{"a reward model", func(t *testing.T) string {
			dir := restored(t, llama3, func(list []safetensors.Stored) []safetensors.Stored {
				i := slices.IndexFunc(list, func(x safetensors.Stored) bool { return x.Name == "lm_head.weight" })
				list[i] = safetensors.Stored{Name: "score.weight", DType: tensorfs.BF16, Shape: []int64{1, 64}, Data: make(tensorfs.Bytes, 128)}
				return list
			})
			files := filesOf(t, dir)
			files["config.json"] = bytes.Replace(files["config.json"], []byte("LlamaForCausalLM"), []byte("LlamaForSequenceClassification"), 1)
			return writtenAs(t, files, ".")
		}, "mlx/tensorfs.json", []string{`no llama is known to have \"score.weight\"`}, nil, 0},
		{"further special tokens as a list", settingOfTokens("extra_special_tokens", []string{"<|eot_id|>"}), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"the tokenizer's class of transformers 5", settingOfTokens("tokenizer_class", "TokenizersBackend"), "gguf/tensorfs.json", []string{exact, notes}, nil, 0},
		{"a config.json of a program that makes speech", func(t *testing.T) string {
			return writtenAs(t, with(golden(t), "config.json", []byte(`{"architecture":"voxcpm","lm_config":{"hidden_size":64}}`)), ".")
		}, "mlx/tensorfs.json", []string{`"available": false`, "model type"}, nil, 0},
		{"a class that no converter has", configured("architectures", []string{"MllamaForConditionalGeneration"}), "gguf/tensorfs.json", []string{"llama.cpp's converter does not have it"}, nil, 0},
	} {
		t.Run(s.name, func(t *testing.T) {
			args := []string{"info", s.make(t)}
			if s.file != "" {
				args = []string{"cat", args[1], s.file}
			}
			code, stdout, stderr := command(args...)
			said := stdout + stderr
			if s.file == "" {
				said = strings.Join(strings.Fields(said), " ")
			}
			if code != s.code {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			for _, want := range s.want {
				if !strings.Contains(said, want) {
					t.Errorf("%s lacks %s", said, want)
				}
			}
			for _, not := range s.not {
				if strings.Contains(said, not) {
					t.Errorf("%s has %s", said, not)
				}
			}
		})
	}
}

// fileInTree returns a file of a model's tree.
func fileInTree(t *testing.T, model, file string) []byte {
	t.Helper()
	code, stdout, stderr := command("cat", model, file)
	if code != 0 {
		t.Fatal(stderr)
	}
	return []byte(stdout)
}

// changedGGUF returns the path of a directory's model as a GGUF file, changed.
func changedGGUF(t *testing.T, dir string, change func(m *tensorfs.Model)) string {
	t.Helper()
	path := writtenAs(t, map[string][]byte{"m.gguf": fileInTree(t, dir, "gguf/model.gguf")}, "m.gguf")
	m, err := formats.Open(path)
	must(t, err)
	defer m.Close()
	changed := *m
	changed.Metadata, changed.Tensors = slices.Clone(m.Metadata), slices.Clone(m.Tensors)
	change(&changed)
	var list []gguf.Stored
	for _, x := range changed.Tensors {
		list = append(list, gguf.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	d, err := gguf.Compose(changed.Metadata, list)
	must(t, err)
	b := make([]byte, d.Size())
	must(t, tensorfs.ReadFull(d, b, 0))
	return writtenAs(t, map[string][]byte{"m.gguf": b}, "m.gguf")
}

// setMeta puts a value into a model's metadata.
func setMeta(m *tensorfs.Model, key string, v any) {
	m.Metadata = append(slices.DeleteFunc(m.Metadata, func(x tensorfs.Meta) bool { return x.Key == key }), tensorfs.Meta{Key: key, Value: v})
}

func asTexts(list []any) (out []string) {
	for _, v := range list {
		out = append(out, v.(string))
	}
	return out
}

// writtenAs writes files into a directory of their own and returns the path of one of them.
func writtenAs(t *testing.T, files map[string][]byte, name string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, testmodel.Write(dir, files))
	return filepath.Join(dir, name)
}

// filesOf returns the files of a directory.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files[name], err = os.ReadFile(path)
		}
		return err
	}))
	return files
}

func golden(t *testing.T) map[string][]byte { return filesOf(t, llama3) }

// with returns files with others in their place; nil leaves one out.
func with(files map[string][]byte, changes ...any) map[string][]byte {
	for i := 0; i < len(changes); i += 2 {
		if b, _ := changes[i+1].([]byte); b != nil {
			files[changes[i].(string)] = b
		} else {
			delete(files, changes[i].(string))
		}
	}
	return files
}

// configured makes the golden model with a field of config.json.
func configured(field string, v any) func(*testing.T) string {
	return func(t *testing.T) string {
		files := golden(t)
		text, err := json.Marshal(v)
		if number, ok := v.(json.Number); ok { // which JSON does not have
			text, err = []byte(number), nil
		}
		must(t, err)
		files["config.json"] = bytes.Replace(files["config.json"], []byte("{"), []byte(`{"`+field+`": `+string(text)+","), 1)
		if field == "architectures" { // of a field that is there twice the last counts
			files["config.json"] = bytes.Replace(files["config.json"], []byte("\"architectures\": [\n    \"LlamaForCausalLM\"\n  ],"), nil, 1)
		}
		return writtenAs(t, files, ".")
	}
}

// settingOfTokens makes the golden model with a field of tokenizer_config.json.
func settingOfTokens(field string, v any) func(*testing.T) string {
	return func(t *testing.T) string {
		files := golden(t)
		var all map[string]any
		must(t, json.Unmarshal(files["tokenizer_config.json"], &all))
		all[field] = v
		files["tokenizer_config.json"], _ = json.Marshal(all)
		return writtenAs(t, files, ".")
	}
}

// withRows makes the golden model with another number of rows for tokens.
func withRows(n int64) func(*testing.T) string {
	return func(t *testing.T) string {
		dir := restored(t, llama3, func(list []safetensors.Stored) []safetensors.Stored {
			for i, x := range list {
				if x.Name == "model.embed_tokens.weight" || x.Name == "lm_head.weight" {
					b := make(tensorfs.Bytes, 2*64*max(n, x.Shape[0]))
					must(t, tensorfs.ReadFull(x.Data, b[:x.Data.Size()], 0))
					list[i].Shape, list[i].Data = []int64{n, 64}, b[:2*64*n]
				}
			}
			return list
		})
		return dir
	}
}

func renamed(name func(string) string) func(*testing.T) string {
	return func(t *testing.T) string { return renamedOf(t, llama3, name) }
}

// renamedOf makes a directory with other names of tensors.
func renamedOf(t *testing.T, dir string, name func(string) string) string {
	return restored(t, dir, func(list []safetensors.Stored) []safetensors.Stored {
		for i := range list {
			list[i].Name = name(list[i].Name)
		}
		return list
	})
}

// withTensor adds a tensor, a vector of F32, to the golden model, or replaces the tensor of that
// name.
func withTensor(name string, n int64) func(*testing.T) string {
	return func(t *testing.T) string {
		return restored(t, llama3, func(list []safetensors.Stored) []safetensors.Stored {
			list = slices.DeleteFunc(list, func(x safetensors.Stored) bool { return x.Name == name })
			return append(list, safetensors.Stored{Name: name, DType: tensorfs.F32, Shape: []int64{n}, Data: make(tensorfs.Bytes, 4*n)})
		})
	}
}

// restored makes a directory with other tensors.
func restored(t *testing.T, dir string, change func([]safetensors.Stored) []safetensors.Stored) string {
	t.Helper()
	m, err := formats.Open(dir)
	must(t, err)
	defer m.Close()
	var list []safetensors.Stored
	for _, x := range m.Tensors {
		list = append(list, safetensors.Stored{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: x.Data})
	}
	d, err := safetensors.Compose([][2]string{{"format", "pt"}}, change(list))
	must(t, err)
	files := filesOf(t, dir)
	files["model.safetensors"] = make([]byte, d.Size())
	must(t, tensorfs.ReadFull(d, files["model.safetensors"], 0))
	return writtenAs(t, files, ".")
}
