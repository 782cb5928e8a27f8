package ollama

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// part is a layer of a model made for a test.
type part struct{ kind, name, content string }

// store returns the files of a store with a model of these layers, and the name
// of its manifest. A layer of kind config is the manifest's config.
func store(t testing.TB, parts ...part) (files map[string][]byte, name string) {
	t.Helper()
	type blob struct {
		MediaType string `json:"mediaType,omitempty"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
		Name      string `json:"name,omitempty"`
	}
	var manifest struct {
		Config *blob  `json:"config,omitempty"`
		Layers []blob `json:"layers"`
	}
	files = make(map[string][]byte)
	for _, p := range parts {
		b := blob{mediaPrefix + p.kind, "sha256:" + hexSum([]byte(p.content)), len(p.content), p.name}
		files["blobs/"+strings.Replace(b.Digest, ":", "-", 1)] = []byte(p.content)
		if p.kind == "config" {
			manifest.Config = &b
		} else {
			manifest.Layers = append(manifest.Layers, b)
		}
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	name = "manifests/" + defaultHost + "/" + defaultNamespace + "/made/latest"
	files[name] = text
	return files, name
}

// made writes a store with a model of these layers and opens it.
func made(t testing.TB, dir string, parts ...part) (*tensorfs.Model, error) {
	t.Helper()
	files, name := store(t, parts...)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "blobs"), 0o755), testmodel.Write(dir, files)); err != nil {
		t.Fatal(err)
	}
	return Open(filepath.Join(dir, name))
}

// blobOf writes a safetensors file: "name dtype shape" each.
func blobOf(meta map[string]string, tensors ...string) string {
	header := make(map[string]any)
	if meta != nil {
		header["__metadata__"] = meta
	}
	at := 0
	for _, s := range tensors {
		var name, dtype string
		var shape []int
		f := strings.Fields(s)
		name, dtype = f[0], f[1]
		size := map[string]int{"U8": 1, "F8_E4M3": 1, "BF16": 2, "F16": 2, "F32": 4, "U32": 4}[dtype]
		shape = []int{}
		for _, d := range f[2:] {
			var n int
			fmt.Sscan(d, &n)
			shape = append(shape, n)
			size *= n
		}
		header[name] = map[string]any{"dtype": dtype, "shape": shape, "data_offsets": []int{at, at + size}}
		at += size
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return string(append(out, text...)) + strings.Repeat("\x01", at)
}

func data(dtypeAndShape string) string { return blobOf(nil, "data "+dtypeAndShape) }

func goldenBlob(t *testing.T, digest string) string {
	b, err := os.ReadFile(filepath.Join(goldenStore, "blobs", "sha256-"+digest))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// summary lists a model's tensors: name, quantisation or O for opaque, owner.
func summary(m *tensorfs.Model) string {
	var lines []string
	for _, x := range m.Tensors {
		s := x.Name
		if q := x.Quant; q != nil {
			s += fmt.Sprintf(" %s-%d/%d%v", q.Mode, q.Bits, q.GroupSize, q.Shape)
			if q.Global != nil {
				s += "*" + q.Global.Name
			}
		}
		if x.Owner != "" {
			s += " of " + x.Owner
		}
		if x.Opaque != "" {
			s += " opaque"
		}
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}

func TestTensorModels(t *testing.T) {
	const q = "model.layers.0.self_attn.q_proj.weight"
	const name = "layers.0.attention.q"
	plain := part{"tensor", "model.norm.weight", blobOf(nil, "model.norm.weight BF16 64")}
	config := part{"json", "config.json", `{"model_type":"llama","hidden_size":64,"time_step_limit":[0.0,Infinity]}`}
	tests := []struct {
		name  string
		parts []part
		want  string
	}{
		{"plain", []part{plain}, "output_norm.weight"},
		{"January", []part{{"tensor", q, data("U32 6 8")}, {"tensor", q + "_scale", data("BF16 6 2")}, {"tensor", q + "_qbias", data("BF16 6 2")}},
			name + ".biases of " + name + ".weight\n" + name + ".scales of " + name + ".weight\n" + name + ".weight affine-4/32[6 64]"},
		{"January, nvfp4", []part{{"tensor", q, data("U32 6 8")}, {"tensor", q + "_scale", data("U8 6 4")}},
			name + ".scales of " + name + ".weight\n" + name + ".weight nvfp4-4/16[6 64]"},
		{"January, 8 bits by config", []part{config, {"tensor", q, data("U32 6 16")}, {"tensor", q + "_scale", data("BF16 6 1")}, {"tensor", q + "_qbias", data("BF16 6 1")}},
			name + ".biases of " + name + ".weight\n" + name + ".scales of " + name + ".weight\n" + name + ".weight affine-8/64[6 64]"},
		{"January, two readings", []part{{"tensor", q, data("U32 6 16")}, {"tensor", q + "_scale", data("BF16 6 1")}, {"tensor", q + "_qbias", data("BF16 6 1")}},
			name + ".biases opaque\n" + name + ".scales opaque\n" + name + ".weight opaque"},
		{"January, a scale that is no companion", []part{{"tensor", q, data("BF16 6 8")}, {"tensor", q + "_scale", data("BF16 6 2")}},
			name + ".scales\n" + name + ".weight"},
		{"F8 with scales of its own", []part{{"tensor", q, data("F8_E4M3 6 8")}, {"tensor", q + "_scale", data("BF16 6 2")}},
			name + ".scales\n" + name + ".weight opaque"},
		{"same blob, two names", []part{{"tensor", "model.norm.weight", data("BF16 64")}, {"tensor", "model.layers.0.input_layernorm.weight", data("BF16 64")}},
			"layers.0.attention_norm.weight\noutput_norm.weight"},
		{"scale_2 in a layer of its own", []part{
			{"tensor", q, blobOf(map[string]string{"quant_type": "nvfp4"}, q+" U32 6 8", q+".scale U8 6 4")},
			{"tensor", strings.TrimSuffix(q, ".weight") + ".weight_scale_2", blobOf(nil, strings.TrimSuffix(q, ".weight")+".weight_scale_2 F32")}},
			name + ".scale_2 of " + name + ".weight\n" + name + ".scales of " + name + ".weight\n" + name + ".weight nvfp4-4/16[6 64]*" + name + ".scale_2"},
		{"scale_2 of a scheme that has none", []part{
			{"tensor", q, blobOf(map[string]string{"quant_type": "mxfp4"}, q+" U32 6 8", q+".scale U8 6 2")},
			{"tensor", strings.TrimSuffix(q, ".weight") + ".weight_scale_2", data("F32 1")}},
			name + ".scale_2 opaque\n" + name + ".scales opaque\n" + name + ".weight opaque"},
		{"draft", []part{plain, {"json", "draft/config.json", `{"quantization":{"bits":8,"group_size":64}}`},
			{"tensor", "draft." + q, blobOf(nil, "draft."+q+" U32 6 16", "draft."+q+".bias F16 6 1", "draft."+q+".scale F16 6 1")}},
			"draft." + name + ".biases of draft." + name + ".weight\ndraft." + name + ".scales of draft." + name + ".weight\ndraft." + name + ".weight affine-8/64[6 64]\noutput_norm.weight"},
		{"component with its own config", []part{{"json", "text_encoder/config.json", `{"quantization":{"bits":8,"group_size":32}}`}, {"json", "config.json", `{"quantization":{"bits":4,"group_size":64}}`},
			{"tensor", "text_encoder/" + q, blobOf(nil, q+" U32 6 8", q+".bias F16 6 1", q+".scale F16 6 1")}},
			"text_encoder." + name + ".biases of text_encoder." + name + ".weight\ntext_encoder." + name + ".scales of text_encoder." + name + ".weight\ntext_encoder." + name + ".weight affine-8/32[6 32]"},
		{"down by the rows of up", []part{{"tensor", "model.layers.0.mlp.up_proj.weight", blobOf(nil, "model.layers.0.mlp.up_proj.weight BF16 128 6")},
			{"tensor", "model.layers.0.mlp.down_proj.weight", blobOf(nil, "model.layers.0.mlp.down_proj.weight U32 6 16", "model.layers.0.mlp.down_proj.weight.bias F16 6 1", "model.layers.0.mlp.down_proj.weight.scale F16 6 1")}},
			"layers.0.ffn.down.biases of layers.0.ffn.down.weight\nlayers.0.ffn.down.scales of layers.0.ffn.down.weight\nlayers.0.ffn.down.weight affine-4/128[6 128]\nlayers.0.ffn.up.weight"},
		{"parameters of one tensor of a group", []part{{"tensor", "g", blobOf(map[string]string{"quant_type": "int8", "group_size": "64", "g.a.weight.quant_type": "int4", "g.a.weight.group_size": "128"},
			"g.a.weight U32 6 16", "g.a.weight.bias F16 6 1", "g.a.weight.scale F16 6 1", "g.b.weight U32 6 16", "g.b.weight.bias F16 6 1", "g.b.weight.scale F16 6 1", "g.c.weight BF16 6 16", "g.d.weight U32 6 16")}},
			"g.a.weight affine-4/128[6 128]\ng.a.weight.bias of g.a.weight\ng.a.weight.scale of g.a.weight\ng.b.weight affine-8/64[6 64]\ng.b.weight.bias of g.b.weight\ng.b.weight.scale of g.b.weight\ng.c.weight\ng.d.weight opaque"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := made(t, t.TempDir(), tt.parts...)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if got := summary(m); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			for i := range m.Tensors {
				bytesOf(t, &m.Tensors[i])
			}
		})
	}
}

func TestLayersRefused(t *testing.T) {
	plain := part{"tensor", "model.norm.weight", blobOf(nil, "model.norm.weight BF16 64")}
	tests := []struct {
		name  string
		parts []part
		want  string
	}{
		{"nothing", nil, "no layer with weights"},
		{"only a template", []part{{"template", "", "x"}}, "no layer with weights"},
		{"only an adapter", []part{{"adapter", "", "x"}}, "adapter"},
		{"remote", []part{{"config", "", `{"remote_host":"https://x","remote_model":"y"}`}}, "another machine"},
		{"both kinds", []part{plain, {"model", "", "x"}}, "both"},
		{"no tensors", []part{{"tensor", "x", blobOf(nil)}}, "holds no tensor"},
		{"broken config.json", []part{plain, {"json", "config.json", `{`}}, "config.json"},
		{"config.json twice", []part{plain, {"json", "config.json", `{}`}, {"json", "config.json", `{"a":1}`}}, "another layer has that name"},
		{"file and directory", []part{plain, {"json", "a.json", `{}`}, {"json", "a.json/b.json", `{}`}}, "would be both a file and a directory"},
		{"broken params", []part{plain, {"params", "", `{`}}, "not JSON"},
		{"shape of no size", []part{{"tensor", "x", "\x40\x00\x00\x00\x00\x00\x00\x00" + fmt.Sprintf("%-64s", `{"x":{"dtype":"BF16","shape":[4294967296,4294967296],"data_off`)}}, "JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := made(t, t.TempDir(), tt.parts...)
			if err == nil {
				m.Close()
				t.Fatal("it opens")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "ollama: made:latest: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line about %q", err, tt.want)
			}
			if !errors.Is(err, tensorfs.ErrFormat) && !errors.Is(err, tensorfs.ErrUnsupported) {
				t.Errorf("%q has no kind", err)
			}
		})
	}
}

// GGUF blobs of the golden store.
const (
	ggufModel     = "b00821291ee04dad5064ad4831a7ae5b60ced8f17e4c103116a6fe33c88c4dee"
	ggufProjector = "03e3c444d1932e37087aa42c3ede8bd8a80e19f3abd952a19d64cd5b7b06f24d"
	ggufAdapter   = "a39b46ccdb18e819a16bef865c7ff6466a5be70a2788921e83e41f67d9e31866"
)

func TestGGUFParts(t *testing.T) {
	model, projector, adapter := goldenBlob(t, ggufModel), goldenBlob(t, ggufProjector), goldenBlob(t, ggufAdapter)
	other := func(s string) string { return strings.Replace(s, "clip.projector_type", "clip.projector_xxxx", 1) }
	m, err := made(t, t.TempDir(), part{"model", "", "not this one"}, part{"model", "", model}, part{"draft", "", model}, part{"projector", "", projector},
		part{"projector", "", other(projector)}, part{"adapter", "", adapter}, part{"adapter", "", strings.Replace(adapter, "lora.alpha", "lora.alphb", 1)},
		part{"license", "", "one"}, part{"license", "", "two"}, part{"license", "", "three"}, part{"template", "", "old"}, part{"template", "", "new"},
		part{"json", "notes.txt", "?"}, part{"config", "", "no JSON"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var names, keys, files []string
	for i := range m.Tensors {
		x := &m.Tensors[i]
		bytesOf(t, x)
		if e := tensorfs.Extents(x.Data); len(e) != 1 || !slices.ContainsFunc(m.Sources, func(s tensorfs.Source) bool { return s.Name == e[0].File }) {
			t.Errorf("%s stands in %v", x.Name, e)
		}
		names = append(names, x.Name)
	}
	for _, x := range m.Metadata {
		keys = append(keys, x.Key)
	}
	for _, s := range m.Sources {
		files = append(files, s.Name)
	}
	for _, want := range []string{"output.weight", "draft.output.weight", "draft.layers.0.attention.q.weight", "projector.0.weight", "projector.1.projector.0.weight",
		"vision.patch_embedding.weight", "projector.1.vision.patch_embedding.weight", "adapter.layers.0.attention.q.lora_a", "adapter.1.layers.0.attention.q.lora_a"} {
		if !slices.Contains(names, want) {
			t.Errorf("no tensor %s among %q", want, names)
		}
	}
	for _, want := range []string{"general.architecture", "draft.general.architecture", "projector.clip.projector_type", "projector.1.clip.projector_xxxx",
		"adapter.adapter.lora.alpha", "adapter.1.adapter.lora.alphb", "ollama.license", "ollama.license.1", "ollama.license.2", "ollama.template"} {
		if !slices.Contains(keys, want) {
			t.Errorf("no key %s among %q", want, keys)
		}
	}
	// The draft has the model's blob, which is mapped once.
	want := "adapter.1.gguf adapter.gguf draft.gguf license license.1 license.2 manifest model.gguf projector.1.gguf projector.gguf template"
	if got := strings.Join(files, " "); got != want {
		t.Errorf("sources %s, want %s", got, want)
	}
	if len(m.Warnings) != 2 || !strings.Contains(m.Warnings[0], "ollama.config") || !strings.Contains(m.Warnings[1], "notes.txt") {
		t.Errorf("warnings %q", m.Warnings)
	}
	i := slices.IndexFunc(m.Metadata, func(x tensorfs.Meta) bool { return x.Key == "ollama.template" })
	if got := m.Metadata[i].Value; got != "new" {
		t.Errorf("template %q", got)
	}
}

// TestTakenKey has a model with a key of another layer.
func TestTakenKey(t *testing.T) {
	adapter := goldenBlob(t, ggufAdapter)
	model := strings.Replace(adapter, "general.architecture", "adapter.general.type", 1) // of one length
	m, err := made(t, t.TempDir(), part{"model", "", model}, part{"adapter", "", adapter})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], `"adapter.general.type" occurs twice`) {
		t.Errorf("warnings %q", m.Warnings)
	}
}

func TestRename(t *testing.T) {
	tensors := func(names ...string) (ts []tensorfs.Tensor) {
		for _, n := range names {
			ts = append(ts, tensorfs.Tensor{Name: n, Source: "s." + n})
		}
		return ts
	}
	for _, tt := range []struct {
		taken, names string
		projector    bool
		want         string
	}{
		{"a", "a b", false, "p.a p.b"},
		{"a", "vision.a audio.b projector.c d", true, "vision.a audio.b projector.c p.d"},
		{"a", "vision.a", false, "p.vision.a"},
		{"vision.a", "vision.a vision.b", true, "p.vision.a p.vision.b"},
		{"p.a", "a b", false, "p.a~" + hexSum([]byte("p.s.a"))[:8] + " p.b"},
	} {
		b := &builder{}
		ts := tensors(strings.Fields(tt.names)...)
		b.rename(ts, tt.projector, "p.", map[string]bool{tt.taken: true})
		var got []string
		for _, x := range ts {
			got = append(got, x.Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s beside %s: %q, want %s", tt.names, tt.taken, got, tt.want)
		}
		if marked := strings.Contains(tt.want, "~"); marked != (len(b.out.Warnings) == 1) {
			t.Errorf("%s beside %s: warnings %q", tt.names, tt.taken, b.out.Warnings)
		}
	}
}

// FuzzTensorModel opens a model of one blob with any header and reads all of it.
func FuzzTensorModel(f *testing.F) {
	f.Add("a.weight", []byte(`{"a.weight":{"dtype":"U32","shape":[2,8],"data_offsets":[0,64]},"a.weight.scale":{"dtype":"U8","shape":[2,4],"data_offsets":[64,72]},"__metadata__":{"quant_type":"nvfp4"}}`), uint16(72), []byte(`{}`))
	f.Add("g", []byte(`{"g.a.weight":{"dtype":"U32","shape":[1,16],"data_offsets":[0,64]},"g.a.weight.scale":{"dtype":"F16","shape":[1,1],"data_offsets":[64,66]},"g.a.weight.bias":{"dtype":"F16","shape":[1,1],"data_offsets":[66,68]}}`), uint16(68),
		[]byte(`{"quantization":{"bits":8,"group_size":64,"g.a":{"bits":8,"group_size":64}}}`))
	f.Add("c/x", []byte(`{"x":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}`), uint16(2), []byte(`{"model_type":"llama","hidden_size":NaN}`))
	f.Add("x", []byte(`{"data":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]}}`), uint16(2), []byte(`{"text_config":{"quantization":{}}}`))
	f.Fuzz(func(t *testing.T, layer string, header []byte, n uint16, config []byte) {
		blob := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), make([]byte, n)...)
		files, name := store(t, part{"tensor", layer, string(blob)}, part{"json", "config.json", string(config)})
		src := memory.New(files)
		m, err := OpenFS(src, name)
		if err != nil {
			if m != nil || src.Opens.Load() != src.Closes.Load() || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Fatalf("%v, %q", m, err)
			}
			return
		}
		defer m.Close()
		for i := range m.Tensors {
			x := &m.Tensors[i]
			bytesOf(t, x)
			if q := x.Quant; q != nil {
				if x.Opaque != "" || q.Scales.Owner != x.Name || m.Tensor(q.Scales.Name) == nil {
					t.Fatalf("%+v", x)
				}
				if n, ok := tensorfs.Elements(q.Shape); !ok || x.Data.Size()*8 != n*int64(q.Bits) {
					t.Fatalf("%d bytes of %d bits are %v numbers", x.Data.Size(), q.Bits, q.Shape)
				}
				if n, ok := tensorfs.Elements(q.Scales.Shape); ok && n*int64(q.GroupSize)*int64(q.Bits) != x.Data.Size()*8 {
					t.Fatalf("%d scales for %d bytes in groups of %d", n, x.Data.Size(), q.GroupSize)
				}
			}
		}
	})
}
