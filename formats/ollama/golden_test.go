package ollama

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tensorfs/tensorfs"
)

const goldenStore = "../../testdata/ollama/models"

// golden is a tensor in index.json.
type golden struct {
	Layer, Blob, DType string
	Shape              []int64
	RawOffset          *int64  `json:"raw_offset"`
	RawSHA256          string  `json:"raw_sha256"`
	F32SHA256          string  `json:"f32_sha256"` // of the numbers, little-endian
	QuantType          string  `json:"quant_type"`
	GroupSize          int     `json:"group_size"`
	LogicalShape       []int64 `json:"logical_shape"`
	HasBias            bool    `json:"has_bias"`
	HasGlobalScale     bool    `json:"has_global_scale"`
}

// goldenIndex returns index.json: tensors by manifest and name, and its other fields.
func goldenIndex(t *testing.T) map[string]map[string]json.RawMessage {
	b, err := os.ReadFile("../../testdata/ollama/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]map[string]json.RawMessage
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	return index
}

// goldenName returns the name of a manifest of the golden store.
func goldenName(manifest string) string {
	i := strings.LastIndexByte(manifest, '/')
	return manifest[:i] + ":" + manifest[i+1:]
}

// TestGolden opens every model of a store that Ollama wrote, by path and by
// name, and compares every tensor.
func TestGolden(t *testing.T) {
	t.Setenv("OLLAMA_MODELS", ` "`+goldenStore+`" `)
	for manifest, tensors := range goldenIndex(t) {
		t.Run(manifest, func(t *testing.T) {
			m := opened(t, filepath.Join(goldenStore, "manifests", manifest))
			named, err := OpenName(goldenName(manifest), true)
			if err != nil {
				t.Fatal(err)
			}
			defer named.Close()
			if named.Path != m.Path || len(named.Tensors) != len(m.Tensors) || m.Format != "ollama" || !filepath.IsAbs(m.Path) {
				t.Errorf("by name %s with %d tensors, by path %s with %d", named.Path, len(named.Tensors), m.Path, len(m.Tensors))
			}
			if len(m.Warnings) > 0 {
				t.Errorf("warnings %q", m.Warnings)
			}
			if _, isGGUF := tensors["_layers"]; isGGUF {
				checkBlobsListed(t, m, tensors["_layers"])
				return
			}
			compareGolden(t, m, tensors)
		})
	}
}

func opened(t *testing.T, path string) *tensorfs.Model {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func compareGolden(t *testing.T, m *tensorfs.Model, want map[string]json.RawMessage) {
	paths := make(map[string]string)
	for _, s := range m.Sources {
		paths[s.Name] = s.Path
	}
	bySource := make(map[string]*tensorfs.Tensor)
	for i := range m.Tensors {
		x := &m.Tensors[i]
		if err := iotest.TestReader(io.NewSectionReader(x.Data, 0, x.Data.Size()), bytesOf(t, x)); err != nil {
			t.Errorf("%s: %v", x.Source, err)
		}
		if x.Owner == "" {
			bySource[x.Source] = x
		} else if owner := m.Tensor(x.Owner); owner == nil || owner.Quant == nil {
			t.Errorf("%s: owner %q is no quantised tensor", x.Name, x.Owner)
		}
	}
	if len(bySource) != len(want) {
		t.Errorf("%d tensors beside companions, want %d", len(bySource), len(want))
	}
	for source, raw := range want {
		var g golden
		if err := json.Unmarshal(raw, &g); err != nil {
			t.Fatal(err)
		}
		x := bySource[source]
		if x == nil {
			t.Errorf("no tensor %s", source)
			continue
		}
		if x.DType.String() != g.DType || !slices.Equal(x.Shape, g.Shape) || x.Opaque != "" {
			t.Errorf("%s: %s %v %q, want %s %v", source, x.DType, x.Shape, x.Opaque, g.DType, g.Shape)
		}
		if got := hexSum(bytesOf(t, x)); got != g.RawSHA256 {
			t.Errorf("%s: bytes hash to %s, want %s", source, got, g.RawSHA256)
		}
		ext := tensorfs.Extents(x.Data)
		if len(ext) != 1 || g.RawOffset != nil && ext[0].Offset != *g.RawOffset || ext[0].Bytes != x.Data.Size() {
			t.Errorf("%s: extents %v, want offset %v", source, ext, g.RawOffset)
		} else if got, want := filepath.Base(paths[ext[0].File]), strings.Replace(g.Blob, ":", "-", 1); got != want {
			t.Errorf("%s: stands in %s, which is %q, want %s", source, ext[0].File, got, want)
		}
		compareQuant(t, x, &g)
		if got := hexSum(numbers(t, x)); got != g.F32SHA256 {
			t.Errorf("%s: numbers hash to %s, want %s", source, got, g.F32SHA256)
		}
	}
}

// goldenModes are the mode and bits of index.json's types.
var goldenModes = map[string]struct {
	mode string
	bits int
}{"int4": {"affine", 4}, "int8": {"affine", 8}, "nvfp4": {"nvfp4", 4}, "mxfp4": {"mxfp4", 4}, "mxfp8": {"mxfp8", 8}}

func compareQuant(t *testing.T, x *tensorfs.Tensor, g *golden) {
	q := x.Quant
	if g.QuantType == "" {
		if q != nil {
			t.Errorf("%s: quantised as %+v, want plain", x.Source, q)
		}
		return
	}
	if q == nil {
		t.Fatalf("%s: plain, want %s", x.Source, g.QuantType)
	}
	mode := goldenModes[g.QuantType]
	if q.Mode != mode.mode || q.Bits != mode.bits || q.GroupSize != g.GroupSize || !slices.Equal(q.Shape, g.LogicalShape) ||
		q.Scales == nil || (q.Biases != nil) != g.HasBias || (q.Global != nil) != g.HasGlobalScale {
		t.Errorf("%s: quantised as %+v, want %+v", x.Source, q, g)
	}
	for _, c := range []*tensorfs.Tensor{q.Scales, q.Biases, q.Global} {
		if c != nil && (c.Owner != x.Name || c.Name == "") {
			t.Errorf("%s: companion %+v", x.Source, c)
		}
	}
}

func checkBlobsListed(t *testing.T, m *tensorfs.Model, layers json.RawMessage) {
	var want [][]any
	if err := json.Unmarshal(layers, &want); err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for _, s := range m.Sources {
		have[filepath.Base(s.Path)] = true
	}
	for _, l := range want {
		if !have[strings.Replace(l[1].(string), ":", "-", 1)] {
			t.Errorf("%v is not among the sources", l)
		}
	}
}

func bytesOf(t *testing.T, x *tensorfs.Tensor) []byte {
	t.Helper()
	b := make([]byte, x.Data.Size())
	if err := tensorfs.ReadFull(x.Data, b, 0); err != nil {
		t.Fatalf("%s: %v", x.Source, err)
	}
	return b
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// numbers returns a tensor's numbers as little-endian F32, by the formulas.
func numbers(t *testing.T, x *tensorfs.Tensor) []byte {
	var out []byte
	put := func(f float32) { out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f)) }
	if x.Quant == nil {
		for _, f := range floats(t, x) {
			put(f)
		}
		return out
	}
	q := x.Quant
	codes := bytesOf(t, x)
	global := []float32{1}
	var scales, biases []float32
	raw := bytesOf(t, q.Scales)
	if q.Mode == "affine" {
		scales, biases = floats(t, q.Scales), floats(t, q.Biases)
	} else {
		for _, s := range raw {
			if q.Mode == "nvfp4" {
				scales = append(scales, e4m3(s))
			} else {
				scales = append(scales, float32(math.Ldexp(1, int(s)-127)))
			}
		}
	}
	if q.Global != nil {
		global = floats(t, q.Global)
	}
	n := len(codes) * 8 / q.Bits
	for i := range n {
		c := uint32(codes[i*q.Bits/8]) >> (i * q.Bits % 8) & (1<<q.Bits - 1)
		g := i / q.GroupSize
		switch {
		case q.Mode == "affine":
			put(float32(float64(scales[g])*float64(c) + float64(biases[g]))) // exact in float64
		case q.Bits == 8:
			put(e4m3(byte(c)) * scales[g])
		default:
			put(e2m1[c] * scales[g] * global[i*len(global)/n])
		}
	}
	return out
}

var e2m1 = [16]float32{0, .5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -.5, -1, -1.5, -2, -3, -4, -6}

func e4m3(b byte) float32 {
	e, m := int(b>>3&15), float64(b&7)
	f := math.Ldexp(m, -9)
	if e > 0 {
		f = math.Ldexp(8+m, e-10)
	}
	if b&0x80 != 0 {
		f = -f
	}
	return float32(f)
}

func floats(t *testing.T, x *tensorfs.Tensor) (fs []float32) {
	b := bytesOf(t, x)
	switch x.DType {
	case tensorfs.BF16:
		for i := 0; i < len(b); i += 2 {
			fs = append(fs, math.Float32frombits(uint32(b[i])<<16|uint32(b[i+1])<<24))
		}
	case tensorfs.F32:
		for i := 0; i < len(b); i += 4 {
			fs = append(fs, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
		}
	default:
		t.Fatalf("%s: %s is not expected here", x.Source, x.DType)
	}
	return fs
}

// TestGoldenNames holds the names of what has no counterpart elsewhere.
func TestGoldenNames(t *testing.T) {
	for manifest, want := range map[string]map[string]string{
		"registry.ollama.ai/library/tiny/jan": {
			"model.layers.0.self_attn.q_proj.weight_scale": "layers.0.attention.q.scales",
			"model.layers.0.self_attn.q_proj.weight_qbias": "layers.0.attention.q.biases",
			"model.layers.0.self_attn.q_proj.bias":         "layers.0.attention.q.bias",
		},
		"registry.ollama.ai/library/tiny/nvfp4": {
			"model.layers.0.mlp.up_proj.weight.global_scale": "layers.0.ffn.up.global_scale",
		},
		"registry.ollama.ai/library/tiny/bf16": {
			"model.layers.1.mlp.experts.up_proj.weight": "layers.1.ffn.experts.up.weight",
			"model.layers.1.router.scale":               "layers.1.ffn.router.scale",
		},
		"registry.ollama.ai/library/tiny/feb": {
			"text_encoder/model.norm.weight":       "text_encoder.output_norm.weight",
			"transformer/blocks.0.ff.weight":       "transformer%2Fblocks.0.ff.weight",
			"transformer/blocks.0.ff.weight.scale": "transformer%2Fblocks.0.ff.weight.scale",
		},
		"registry.ollama.ai/library/tiny/mixed": {
			"draft.model.layers.0.mlp.up_proj.weight":       "draft.layers.0.ffn.up.weight",
			"draft.model.layers.0.mlp.up_proj.weight.scale": "draft.layers.0.ffn.up.scales",
		},
		"registry.ollama.ai/library/tinyllama/vl": {
			"v.patch_embd.weight":        "vision.patch_embedding.weight",
			"mm.0.bias":                  "projector.0.bias",
			"blk.0.attn_q.weight.lora_a": "adapter.layers.0.attention.q.lora_a",
			"blk.0.attn_q.weight":        "layers.0.attention.q.weight",
		},
	} {
		m := opened(t, filepath.Join(goldenStore, "manifests", manifest))
		for i := range m.Tensors {
			x := &m.Tensors[i]
			if name, ok := want[x.Source]; ok && name != x.Name {
				t.Errorf("%s: %s is called %s, want %s", manifest, x.Source, x.Name, name)
			}
			delete(want, x.Source)
		}
		if len(want) > 0 {
			t.Errorf("%s lacks %v", manifest, want)
		}
	}
}

func TestGoldenMetadata(t *testing.T) {
	for manifest, want := range map[string]map[string]string{
		"registry.ollama.ai/library/tinyllama/latest": {
			"general.architecture":       `"llama"`,
			"ollama.template":            `"{{ if .System }}{{ .System }}\n{{ end }}{{ .Prompt }}"`,
			"ollama.system":              `"You are a small test model (sh)."`,
			"ollama.params":              `{"num_ctx":512,"stop":["</s>"]}`,
			"ollama.license":             `"Licence one.\n"`,
			"ollama.license.1":           `"Licence two.\n"`,
			"ollama.messages":            `[{"role":"user","content":"hi"}]`,
			"ollama.config.model_format": `"gguf"`,
		},
		"registry.ollama.ai/library/tinyllama/vl": {
			"projector.general.architecture": `"clip"`,
			"adapter.adapter.lora.alpha":     `16`,
		},
		"registry.ollama.ai/library/tiny/bf16": {
			"config.model_type":            `"qwen3_moe"`,
			"config.mlp_only_layers":       `[0]`,
			"config.rope_theta":            `10000`,
			"ollama.config.capabilities":   `["completion","tools"]`,
			"ollama.config.model_families": `null`,
		},
	} {
		m := opened(t, filepath.Join(goldenStore, "manifests", manifest))
		for _, x := range m.Metadata {
			if j, ok := want[x.Key]; ok && j != string(x.AppendJSON(nil)) {
				t.Errorf("%s: %s is %s, want %s", manifest, x.Key, x.AppendJSON(nil), j)
			}
			delete(want, x.Key)
		}
		if len(want) > 0 {
			t.Errorf("%s lacks %v", manifest, want)
		}
	}
}

func TestGoldenConfig(t *testing.T) {
	for manifest, want := range map[string]string{
		"registry.ollama.ai/library/tinyllama/latest": "llama gguf dim=64 n_layers=1 ffn_dim=128",
		"registry.ollama.ai/library/tiny/int4":        "qwen3moe hf dim=64 n_layers=2 ffn_dim=64",
	} {
		m := opened(t, filepath.Join(goldenStore, "manifests", manifest))
		got := m.Architecture + " " + m.Layout
		for _, f := range m.Config {
			if f.Name == "dim" || f.Name == "n_layers" || f.Name == "ffn_dim" {
				b, _ := json.Marshal(f.Value)
				got += " " + f.Name + "=" + string(b)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", manifest, got, want)
		}
	}
}

// TestLocateFile finds the stores of manifests.
func TestLocateFile(t *testing.T) {
	path := filepath.Join(goldenStore, "manifests/registry.ollama.ai/library/tiny/bf16")
	match := func(p string, head string) bool {
		_, name, ok := Locate(p)
		return ok && Match(name, []byte(head))
	}
	for p, want := range map[string]bool{
		path: true, filepath.Dir(path): false, filepath.Join(goldenStore, "manifests/x"): false, path + "/x": false,
		filepath.Join(goldenStore, "manifests/registry.ollama.ai/library/tiny/.hidden"): false,
		filepath.Join(goldenStore, "blobs/x/y/z/t"):                                     false, "/manifests/a/b/c/d": false, "x": false, "": false,
	} {
		if got := match(p, "{"); got != want {
			t.Errorf("Match(%q) = %v", p, got)
		}
	}
	if match(path, "GGUF\x03") {
		t.Error("a GGUF file matches")
	}
	link := filepath.Join(t.TempDir(), "link")
	abs, _ := filepath.Abs(path)
	if err := os.Symlink(abs, link); err != nil {
		t.Fatal(err)
	}
	if !match(link, "{") {
		t.Error("a link to a manifest does not match")
	}
	if m := opened(t, link); m.Path != abs || !bytes.Contains([]byte(m.Tensors[0].Name), []byte("layers.")) {
		t.Errorf("through a link: %s, %s", m.Path, m.Tensors[0].Name)
	}
}
