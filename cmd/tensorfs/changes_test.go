package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// changed writes gguf/model.gguf of a model with flags, and opens it.
func changed(t *testing.T, model string, flags ...string) *tensorfs.Model {
	t.Helper()
	code, text, problems := command(append(append([]string{"cat", "--force"}, flags...), model, "gguf/model.gguf")...)
	if code != 0 {
		t.Fatalf("%q: %s", flags, problems)
	}
	return testwhole.OpenGGUF(t, []byte(text))
}

// TestSet changes keys of files of every alignment and kind: all other keys, and every tensor, are
// what they were.
func TestSet(t *testing.T) {
	template := filepath.Join(t.TempDir(), "t.jinja")
	must(t, os.WriteFile(template, []byte("{{ messages }}\n"), 0o666))
	for _, model := range []string{ggufDir + "align8.gguf", ggufDir + "align256.gguf", ggufDir + "kv.gguf", "../../testdata/gguf/llama-xs.q4_k_m.gguf", "../../testdata/whole-gguf/qwen3", "../../testdata/gguf/llama-xs.q8_0-00001-of-00003.gguf"} {
		if _, err := os.Stat(model); err != nil {
			t.Fatal(err)
		}
		before := changed(t, model)
		after := changed(t, model, "--set", "general.name=Ann's = model", "--set", "tokenizer.chat_template=@"+template, "--set", "x.new=i32:-5", "--set", "x.text=str:u32:7", "--set", "x.on=bool:true", "--set", "x.half=f32:0.5")
		want := map[string]any{"general.name": "Ann's = model", "tokenizer.chat_template": "{{ messages }}\n", "x.new": int32(-5), "x.text": "u32:7", "x.on": true, "x.half": float32(0.5)}
		for _, e := range after.Metadata {
			if w, ok := want[e.Key]; ok {
				if e.Value != w {
					t.Errorf("%s: %s is %v", model, e.Key, e.Value)
				}
				delete(want, e.Key)
				continue
			}
			if old := before.Meta(e.Key); !sameValue(old, e.Value) {
				t.Errorf("%s: %s is %v, and was %v", model, e.Key, e.Value, old)
			}
		}
		if len(want) > 0 || len(after.Metadata) < len(before.Metadata) {
			t.Errorf("%s lacks %v", model, want)
		}
		sameTensors(t, model, before, after)
		again := changed(t, model, "--unset", lastFree(before))
		if _, isArch := again.Meta("general.architecture").(string); !isArch || len(again.Metadata) != len(before.Metadata)-1 {
			t.Errorf("%s: %d keys are left of %d", model, len(again.Metadata), len(before.Metadata))
		}
	}
}

func sameValue(a, b any) bool {
	x, isList := a.(tensorfs.Array)
	y, also := b.(tensorfs.Array)
	if !isList || !also {
		return a == b
	}
	return reflect.DeepEqual(slices.Collect(x.Values()), slices.Collect(y.Values()))
}

// sameTensors compares all tensors, and their offsets in their files.
func sameTensors(t *testing.T, name string, a, b *tensorfs.Model) {
	t.Helper()
	if len(a.Tensors) != len(b.Tensors) {
		t.Fatalf("%s: %d tensors and %d", name, len(a.Tensors), len(b.Tensors))
	}
	for i := range a.Tensors {
		x, y := &a.Tensors[i], &b.Tensors[i]
		if x.Source != y.Source || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(testwhole.Read(t, x.Data), testwhole.Read(t, y.Data)) {
			t.Errorf("%s: %s differs", name, x.Source)
		}
	}
}

// TestSetTemplate changes the chat template in hf/ and mlx/ too; the tree's description of the
// source stays.
func TestSetTemplate(t *testing.T) {
	template := filepath.Join(t.TempDir(), "t.jinja")
	must(t, os.WriteFile(template, []byte("{{ other }}"), 0o666))
	set := []string{"--set", "tokenizer.chat_template=@" + template, "--set", "general.name=Other"}
	for _, model := range []string{"../../testdata/whole-gguf/qwen3", "../../testdata/whole-gguf/llama3", "../../testdata/gguf/llama-xs.q4_k_m.gguf"} {
		for _, kind := range []string{"hf", "mlx"} {
			code, text, problems := command(append(append([]string{"cat"}, set...), model, kind+"/chat_template.jinja")...)
			if code != 0 || text != "{{ other }}" {
				t.Errorf("%s %s: %d %q %s", model, kind, code, text, problems)
			}
			if _, text, _ := command(append(append([]string{"cat"}, set...), model, kind+"/tokenizer_config.json")...); strings.Contains(text, `"chat_template"`) {
				var config struct {
					Template string `json:"chat_template"`
				}
				if err := json.Unmarshal([]byte(text), &config); err != nil || config.Template != "{{ other }}" {
					t.Errorf("%s %s: %v %q", model, kind, err, config.Template)
				}
			}
			if _, text, _ := command(append(append([]string{"cat"}, set...), model, kind+"/tensorfs.json")...); !strings.Contains(text, "(--set)") || strings.Contains(text, "general.name") {
				t.Errorf("%s %s: %s", model, kind, text)
			}
			code, text, _ = command("cat", "--unset", "tokenizer.chat_template", model, kind+"/chat_template.jinja")
			if code == 0 {
				t.Errorf("%s %s: a template that is unset: %q", model, kind, text)
			}
		}
		for _, path := range []string{"config.json", "metadata.json", "index.json"} {
			_, before, _ := command("cat", model, path)
			_, after, _ := command(append(append([]string{"cat"}, set...), model, path)...)
			if before != after || before == "" {
				t.Errorf("%s: %s is another one", model, path)
			}
		}
		if _, text, _ := command(append(append([]string{"cat"}, set...), model, "gguf/tensorfs.json")...); !strings.Contains(text, `general.name is \"Other\" (--set)`) {
			t.Errorf("%s: %s", model, text)
		}
	}
}

// TestSetRefused: what shapes, types and the layout of a file follow from is not changed, and
// no value is guessed.
func TestSetRefused(t *testing.T) {
	const model = "../../testdata/gguf/llama-xs.q4_k_m.gguf"
	big := filepath.Join(t.TempDir(), "big")
	must(t, os.WriteFile(big, make([]byte, 16<<20+1), 0o666))
	latin := filepath.Join(t.TempDir(), "latin")
	must(t, os.WriteFile(latin, []byte{0xe4}, 0o666))
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"--set general.architecture=x", 2, "shapes"}, {"--set general.alignment=64", 2, "layout"}, {"--set llama.block_count=1", 2, "shapes"}, {"--set llama.context_length=1", 2, "shapes"},
		{"--set tokenizer.ggml.tokens=a", 2, "tokens"}, {"--unset tokenizer.ggml.merges", 2, "tokens"}, {"--unset general.architecture", 2, "shapes"}, {"--set general.file_type=1", 2, "types"},
		{"--set split.no=1", 2, "layout"}, {"--set llama.vocab_size=4", 2, "shapes"},
		{"--set x", 2, "want KEY=VALUE"}, {"--set =x", 2, "1 to 65536 bytes"}, {"--set " + strings.Repeat("k", 1<<16+1) + "=x", 2, "1 to 65536 bytes"}, {"--set a\x01b=x", 2, "characters"},
		{"--set general.name=a --set general.name=b", 2, "twice"}, {"--set general.name=a --unset general.name", 2, "twice"},
		{"--set general.name=@" + big, 2, "at most 16777216"}, {"--set general.name=@" + latin, 2, "UTF-8"}, {"--set general.name=@/nowhere/at/all", 1, "no such file"},
		{"--set new.key=5", 1, "--set new.key=u32:7"}, {"--set new.key=u33:5", 1, "--set new.key=u32:7"}, {"--set new.key=u32:4294967296", 1, "not a value of type u32"},
		{"--set new.key=f32:nan", 1, "not a value of type f32"}, {"--set new.key=bool:1", 1, "not a value of type bool"}, {"--set llama.rope.freq_base=many", 1, "type f32"},
		{"--set llama.rope.freq_base=@" + latin[:0] + "../../go.mod", 1, "a file has a text"}, {"--unset general.nam", 1, "did you mean general.name"},
	} {
		args := append(append([]string{"cat"}, strings.Split(c.flags, " ")...), model, "gguf/model.gguf")
		if code, text, problems := command(args...); code != c.code || text != "" || !strings.Contains(problems, c.want) || strings.Count(problems, "\n") != 1 {
			t.Errorf("%.80s: %d %.300s, want %d %s", c.flags, code, problems, c.code, c.want)
		}
	}
	// A list is known once the file is.
	if code, _, problems := command("cat", "--set", "general.tags=x", "../../testdata/ggml/kv.gguf", "gguf/model.gguf"); code == 0 {
		t.Errorf("a list: %s", problems)
	}
}

// TestSetMounted changes a key and the types of single weights of a mount, whose server is another
// process.
func TestSetMounted(t *testing.T) {
	needFUSE(t)
	dir := mounted(t, "../../testdata/whole-gguf/qwen3", "--set", "general.name=Other", "--gguf-type", "q8_0", "--tensor-type", "ffn_up=bf16")
	m, err := formats.Open(filepath.Join(dir, "gguf/model.gguf"))
	must(t, err)
	defer m.Close()
	if name := m.Meta("general.name"); name != "Other" {
		t.Errorf("the name is %v", name)
	}
	if up, down := m.TensorBySource("blk.0.ffn_up.weight"), m.TensorBySource("blk.0.ffn_down.weight"); up.DType != tensorfs.BF16 || down.DType == tensorfs.BF16 {
		t.Errorf("%s and %s", up.DType, down.DType)
	}
}

// TestSetOption changes keys by the options of a line in fstab.
func TestSetOption(t *testing.T) {
	needFUSE(t)
	dir := mounted(t, "../../testdata/whole-gguf/qwen3", "-o", "ro,set=general.name=Other = one,set=my.key=u32:7,unset=qwen3.rope.freq_base")
	m, err := formats.Open(filepath.Join(dir, "gguf/model.gguf"))
	must(t, err)
	defer m.Close()
	if name, mine, base := m.Meta("general.name"), m.Meta("my.key"), m.Meta("qwen3.rope.freq_base"); name != "Other = one" || mine != uint32(7) || base != nil {
		t.Errorf("the name is %v, the new key %v, and what is left out %v", name, mine, base)
	}
	failsWith(t, cli.ExitUsage, []string{"mount", "-o", "set=general.name", "../../testdata/whole-gguf/qwen3", t.TempDir()}, "want KEY=VALUE")
}

// lastFree is the last key that may be left out.
func lastFree(m *tensorfs.Model) string {
	for _, e := range slices.Backward(m.Metadata) {
		if convert.CheckChanges([]convert.Change{{Key: e.Key, Unset: true}}) == nil {
			return e.Key
		}
	}
	return ""
}
