package hf_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// pairOf makes both GGUF files of a model of testdata/architectures; the second is nil if gguf/ has
// no projector.
func pairOf(t *testing.T, name string) (text, tower []byte) {
	t.Helper()
	m, err := formats.Open(data + "architectures/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	made := convert.GGUF(m, convert.Options{})
	if made.Reason != "" {
		return nil, nil
	}
	files := contents(t, made)
	return files["model.gguf"], files["mmproj.gguf"]
}

// beside finds a tower's file, as the program does.
func beside(t *testing.T, file []byte) convert.Options {
	return convert.Options{Projector: func(*tensorfs.Model) (*tensorfs.Model, string, error) {
		m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": file}))
		if err != nil {
			return nil, "", err
		}
		t.Cleanup(func() { m.Close() })
		return m, "mmproj-model.gguf", nil
	}}
}

// withTower are the models whose hf/ has the vision tower. For every other model, no block of
// architectures.txt describes the language model in both directions.
var withTower = []string{"gemma3-vl", "gemma4", "glm4v", "lfm2-vl", "llama4", "mistral3", "qwen2-vl", "qwen2.5-vl", "qwen3-vl", "qwen3.5", "smolvlm"}

// TestTowerBack makes hf/ of both files of a model: it has the tensors and the config.json
// that transformers loads with the logits of the source.
func TestTowerBack(t *testing.T) {
	tables, err := filepath.Glob(data + "architectures/expected/*.vl.hf.tsv")
	if err != nil || len(tables) != 11 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		name := strings.TrimSuffix(filepath.Base(table), ".vl.hf.tsv")
		t.Run(name, func(t *testing.T) {
			c := &goldenCase{name: name}
			var tower []byte
			c.gguf, tower = pairOf(t, name)
			if c.gguf == nil || tower == nil {
				if slices.Contains(withTower, name) {
					t.Error("gguf/ lacks a file")
				}
				return
			}
			m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": c.gguf}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			var wrong problems
			made := hf.HF(m, beside(t, tower))
			if why := made.Reason + made.Left[convert.Vision]; why != "" {
				wrong.add("%s", why)
			} else {
				files := contents(t, made)
				wrong.compare(tensorsOf(t, files["model.safetensors"]), c.rowsOf(t, ".vl.hf.tsv"))
				wrong.compareTowers(t, files["config.json"], read(t, "architectures/expected/"+name+".vl.hf.config.json"))
			}
			if !strings.Contains(strings.Join(made.Notes, "; "), "the vision tower comes from mmproj-model.gguf") {
				wrong.add("no note says which tower was taken: %q", made.Notes)
			}
			switch works := len(wrong) == 0; {
			case works && !slices.Contains(withTower, name):
				t.Logf("%s works: put it into withTower", name)
			case !works && slices.Contains(withTower, name):
				t.Errorf("%.2000s", strings.Join(wrong, "; "))
			}
		})
	}
}

// tensorsOf are the tensors of a safetensors file as the tables have them.
func tensorsOf(t *testing.T, file []byte) map[string]string {
	t.Helper()
	m, err := formats.OpenFS(memory.New(map[string][]byte{"m.safetensors": file}), "m.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	got := map[string]string{}
	for i := range m.Tensors {
		x := &m.Tensors[i]
		got[x.Source] = fmt.Sprintf("%s %s %x", x.DType, dimensions(x.Shape), sha256.Sum256(all(t, x.Data)))
	}
	return got
}

// compareTowers is compareConfig for what holds a language model and a tower. The numbers
// of tokens are found by names that the small vocabularies lack.
func (p *problems) compareTowers(t *testing.T, got, want []byte) {
	var has, wants map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(got, &has), json.Unmarshal(want, &wants)); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"text_config", "vision_config"} {
		p.compareConfig(t, has[part], wants[part])
		delete(has, part)
		delete(wants, part)
	}
	for field := range wants {
		if strings.HasSuffix(field, "_token_id") || strings.HasSuffix(field, "_token_index") {
			delete(wants, field)
		}
	}
	a, _ := json.Marshal(has)
	b, _ := json.Marshal(wants)
	p.compareConfig(t, a, b)
}

// TestTowerLeftOut holds why a tower beside a model is left out, and that the language
// model is there without it.
func TestTowerLeftOut(t *testing.T) {
	text, tower := pairOf(t, "gemma3-vl")
	_, other := pairOf(t, "mistral3")
	change := func(key string, value any) func(m *tensorfs.Model) {
		return func(m *tensorfs.Model) {
			m.Metadata = slices.DeleteFunc(slices.Clone(m.Metadata), func(x tensorfs.Meta) bool { return x.Key == key })
			if value != nil {
				m.Metadata = append(m.Metadata, tensorfs.Meta{Key: key, Value: value})
			}
		}
	}
	for _, c := range []struct {
		file   []byte
		change func(m *tensorfs.Model)
		want   string
	}{
		{tower, change("clip.vision.projection_dim", uint32(64)), "it is made for a language model of width 64, and this one has 32"},
		{tower, change("clip.projector_type", nil), "it has no clip.projector_type, and is no vision tower"},
		{tower, change("clip.projector_type", "ldp"), `no projector "ldp" is known`},
		{tower, change("clip.projector_type", uint32(1)), "no projector 1 is known"},
		{tower, change("clip.vision.block_count", uint32(1<<30)), "clip.vision.block_count is 1073741824, not a whole number"},
		{tower, change("clip.vision.block_count", uint32(3)), "the tensor layers.2.attention_norm.weight of architecture gemma3 is missing"},
		{tower, change("clip.vision.block_count", uint32(1)), "a tensor that the projector gemma3 does not have"},
		{tower, change("clip.vision.patch_size", nil), "it has no clip.vision.patch_size"},
		{tower, change("clip.vision.embedding_length", uint32(48)), "for width"},
		{tower, change("clip.vision.attention.head_count", "two"), "clip.vision.attention.head_count"},
		{tower, func(m *tensorfs.Model) { m.Tensors = m.Tensors[1:] }, "missing"},
		{other, func(*tensorfs.Model) {}, `no directory of Hugging Face with the projector pixtral and a language model of "gemma3" can be made`},
		{text, func(*tensorfs.Model) {}, "it has no clip.projector_type"},
	} {
		m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": text}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		opts := beside(t, c.file)
		find := opts.Projector
		opts.Projector = func(m *tensorfs.Model) (*tensorfs.Model, string, error) {
			x, note, err := find(m)
			c.change(x)
			return x, note, err
		}
		f := hf.HF(m, opts)
		if why := f.Left[convert.Vision]; f.Reason != "" || f.Tensors != 80 || !strings.Contains(why, c.want) || !slices.Contains(f.Notes, why) {
			t.Errorf("%d tensors, %s%q, want %s", f.Tensors, f.Reason, why, c.want)
		}
	}
}

// TestTowerOfOllama holds that the projector layer of an Ollama model is its tower.
func TestTowerOfOllama(t *testing.T) {
	text, tower := pairOf(t, "gemma3-vl")
	files, manifest := testmodel.Ollama("m", []testmodel.OllamaLayer{{Kind: "model", Content: text}, {Kind: "projector", Content: tower}})
	m, err := formats.OpenFS(memory.New(files), manifest)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f := hf.HF(m, convert.Options{})
	if f.Reason != "" || f.Tensors != 80+39 || f.Left[convert.Vision] != "" || !slices.Contains(f.Notes, "the vision tower comes from its projector layer") {
		t.Errorf("%s", f.Describe())
	}
	var wrong problems
	wrong.compare(tensorsOf(t, contents(t, f)["model.safetensors"]), (&goldenCase{name: "gemma3-vl"}).rowsOf(t, ".vl.hf.tsv"))
	if len(wrong) > 0 {
		t.Errorf("%.900s", strings.Join(wrong, "; "))
	}
	f = hf.HF(m, convert.Options{Projector: func(*tensorfs.Model) (*tensorfs.Model, string, error) { return nil, "", convert.ErrNoTower }})
	if f.Tensors != 80 || !strings.Contains(f.Left[convert.Vision], "no vision tower is wanted") {
		t.Errorf("%s", f.Describe())
	}
}

// TestTowersOfExperts makes hf/ of both files of models with experts. Their golden models have no
// preprocessor_config.json. Transformers joins the experts of Qwen3-VL-MoE in one tensor, and takes other models'
// experts one by one.
func TestTowersOfExperts(t *testing.T) {
	for _, c := range []struct{ model, like, experts string }{
		{"qwen3-vl-moe", "qwen3-vl", "model.language_model.layers.0.mlp.experts.gate_up_proj BF16 4x24x32"},
		{"qwen3.5-moe", "qwen3.5", "model.language_model.layers.0.mlp.experts.3.gate_proj.weight BF16 12x32"},
	} {
		files := onDisk(t, data+"architectures/"+c.model)
		files["preprocessor_config.json"] = onDisk(t, data+"architectures/"+c.like)["preprocessor_config.json"]
		var wrong problems
		made := wrong.of(t, convert.GGUF, openDirectory, files)
		if made == nil || made["mmproj.gguf"] == nil {
			t.Fatal(c.model, wrong)
		}
		m, err := openGGUF(memory.New(map[string][]byte{"m.gguf": made["model.gguf"]}))
		if err != nil {
			t.Fatal(err)
		}
		f := hf.HF(m, beside(t, made["mmproj.gguf"]))
		if f.Reason != "" || f.Left[convert.Vision] != "" {
			t.Fatal(c.model, f.Reason, f.Left)
		}
		got := contents(t, f)
		p, err := safetensors.Parse(tensorfs.Bytes(got["model.safetensors"]))
		if err != nil {
			t.Fatal(err)
		}
		types, found := map[string]int{}, false
		for _, x := range p.Tensors {
			types[x.DType.String()]++
			shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Shape), " ", "x"), "[]")
			found = found || x.Name+" "+x.DType.String()+" "+shape == c.experts
		}
		if !found || !maps.Equal(types, f.Types) || len(p.Tensors) != f.Tensors {
			t.Errorf("%s: %s is not among %q; %v, and it says %v", c.model, c.experts, namesIn(t, got["model.safetensors"]), types, f.Types)
		}
		again := wrong.of(t, convert.GGUF, openDirectory, map[string][]byte{"config.json": got["config.json"], "model.safetensors": got["model.safetensors"], "tokenizer.json": got["tokenizer.json"],
			"tokenizer_config.json": got["tokenizer_config.json"], "preprocessor_config.json": files["preprocessor_config.json"]})
		if again == nil {
			t.Fatal(c.model, wrong)
		}
		for _, name := range []string{"model.gguf", "mmproj.gguf"} {
			if is, want := tensorsOfGGUF(t, testwhole.Parse(t, again[name])), tensorsOfGGUF(t, testwhole.Parse(t, made[name])); !maps.Equal(is, want) {
				for tensor := range want {
					if is[tensor] != want[tensor] {
						t.Errorf("%s: %s is %s, and was %s", c.model, tensor, is[tensor], want[tensor])
						break
					}
				}
			}
		}
		m.Close()
	}
}
