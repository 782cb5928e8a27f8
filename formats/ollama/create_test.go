package ollama

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// header parses a GGUF file of these keys.
func header(t *testing.T, meta ...tensorfs.Meta) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(tensorfs.Bytes(testmodel.GGUF{Meta: meta}.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1K", 1499: "1K", 1500: "2K", 999_999: "1000K", 1_000_000: "1M", 1_500_000: "1.50M", 22_713_216: "22.71M", 1_000_000_000: "1B", 7_615_616_512: "7.6B", 70_000_000_000: "70B",
	} {
		if got := count(n); got != want {
			t.Errorf("%d: %s, not %s", n, got, want)
		}
	}
}

// What Ollama reads of a file has just the type that it expects, or is not there.
func TestWeightsFacts(t *testing.T) {
	arch := tensorfs.Meta{Key: "general.architecture", Value: "clip"}
	for _, test := range []struct {
		meta []tensorfs.Meta
		kind layerKind
		typ  string
	}{
		{nil, kindModel, "unknown"},
		{[]tensorfs.Meta{arch, {Key: "general.file_type", Value: uint32(0)}}, kindModel, "unknown"},
		{[]tensorfs.Meta{arch, {Key: "general.file_type", Value: uint32(1)}}, kindModel, "F16"},
		{[]tensorfs.Meta{arch, {Key: "general.file_type", Value: uint32(15)}}, kindModel, "Q4_K_M"},
		{[]tensorfs.Meta{arch, {Key: "general.file_type", Value: uint32(18)}}, kindModel, "Q6_K"},
		{[]tensorfs.Meta{arch, {Key: "general.file_type", Value: uint32(30)}}, kindModel, "unknown"},
		{[]tensorfs.Meta{arch, {Key: "general.file_type", Value: uint64(15)}}, kindModel, "unknown"},
		{[]tensorfs.Meta{arch, {Key: "clip.vision.block_count", Value: uint32(2)}}, kindProjector, "unknown"},
		{[]tensorfs.Meta{arch, {Key: "clip.vision.block_count", Value: uint32(2)}, {Key: "clip.block_count", Value: uint32(2)}}, kindModel, "unknown"},
		{[]tensorfs.Meta{arch, {Key: "general.type", Value: "adapter"}}, kindAdapter, "unknown"},
		{[]tensorfs.Meta{arch, {Key: "general.type", Value: "projector"}}, kindProjector, "unknown"},
	} {
		f := header(t, test.meta...)
		if kind, typ := weightsKind(f), fileType(f); kind != test.kind || typ != test.typ {
			t.Errorf("%v: %s, %s; want %s, %s", test.meta, kind, typ, test.kind, test.typ)
		}
	}
}

// A chat template is known by its marks, and by its length.
func TestChatOf(t *testing.T) {
	chatML := "{% for message in messages %}{{ '<|im_start|>' ~ message['role'] ~ '\\n' ~ message['content'] ~ '<|im_end|>' ~ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
	for _, test := range []struct{ template, want string }{
		{chatML, "chatml"},
		{chatML + strings.Repeat("{# ü #}", 8), "chatml"},
		{chatML + strings.Repeat(" ", 600), ""},
		{strings.ReplaceAll(chatML, "<|im_end|>", "<|im_stop|>"), ""},
		{"<|im_start|><|im_end|>", ""},
		{strings.NewReplacer("<|im_start|>", "<start_of_turn>", "<|im_end|>", "<end_of_turn>").Replace(chatML) + strings.Repeat(" ", 360), "gemma-instruct"},
		{strings.NewReplacer("<|im_start|>", "<start_of_turn>", "<|im_end|>", "<end_of_turn>").Replace(chatML) + strings.Repeat(" ", 1300), "gemma3-instruct"},
		{"[INST] [/INST]" + strings.Repeat(" ", 460), "mistral-instruct"},
		{"[INST] <<SYS>> [/INST]" + strings.Repeat(" ", 790), "llama2-chat"},
		{"", ""},
	} {
		got := ""
		if c := chatOf(test.template); c != nil {
			got = c.Name
		}
		if got != test.want {
			t.Errorf("%.200q (%d letters): %q, not %q", test.template, len(test.template), got, test.want)
		}
	}
	if n := len(chats()); n != 18 {
		t.Errorf("%d ways to chat", n)
	}
	for _, c := range chats() {
		if c.Name == "" || len(c.Marks) == 0 || len(c.Letters) == 0 || len(c.Stop) == 0 || !strings.Contains(c.Template, "{{") {
			t.Errorf("%+v", c)
		}
	}
}

// A model without a template keeps one that it was given, and options that are no object
// are refused.
func TestCreateKeeps(t *testing.T) {
	w := []Weights{{File: header(t, tensorfs.Meta{Key: "tokenizer.chat_template", Value: "[INST] [/INST]" + strings.Repeat(" ", 460)}), Digest: "sha256:0", Size: 1}}
	was := func(key string) string {
		return map[string]string{"renderer": "r", "parser": "p", "requires": "1.2"}[key]
	}
	c, err := Create(w, []Kept{{Kind: "template", Text: []byte("mine")}, {Kind: "params", Text: []byte(`{"b": 1.50, "a": "<"}`)}}, was)
	if err != nil || c.Chat != "" {
		t.Fatal(c, err)
	}
	var all []string
	for _, text := range c.Texts {
		all = append(all, string(text.Bytes))
	}
	got := strings.Join(all, "")
	if want := "mine" + `{"a":"\u003c","b":1.5}` + "\n" + `{"model_format":"gguf","model_family":"unknown","model_families":["unknown"],"model_type":"0","file_type":"unknown","renderer":"r","parser":"p","requires":"1.2","architecture":"amd64"`; !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
	if _, err := Create(w, []Kept{{Kind: "params", Text: []byte(`[]`)}}, was); err == nil || !strings.Contains(err.Error(), "params") {
		t.Error(err)
	}
	if c, err = Create(w, nil, was); err != nil || c.Chat != "mistral-instruct" {
		t.Error(c, err)
	}
}
