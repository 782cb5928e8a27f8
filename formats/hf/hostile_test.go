package hf_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// list returns "FIRST,SECOND,..." of n items, each formatted from its number.
func list(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(format, "%") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

func nested(open, inside, shut string) string {
	return strings.Repeat(open, 9000) + inside + strings.Repeat(shut, 9000)
}

// hostileTexts are values of about 256 KiB that cost much if they are under a key that is read.
var hostileTexts = map[string]func() string{
	"nested arrays around numbers":  func() string { return nested("[", list(1<<16, "1"), "]") },
	"nested arrays around text":     func() string { return nested("[", `"`+strings.Repeat("x", 1<<17)+`"`, "]") },
	"nested arrays around spaces":   func() string { return nested("[", strings.Repeat(" ", 1<<17)+"1", "]") },
	"nested objects around text":    func() string { return nested(`{"text_config":`, `"`+strings.Repeat("x", 1<<17)+`"`, "}") },
	"many numbers":                  func() string { return "[" + list(1<<17, "1") + "]" },
	"many words":                    func() string { return "[" + list(1<<13, `"sliding_attention"`) + "]" },
	"many empty arrays":             func() string { return "[" + list(1<<16, "[]") + "]" },
	"many NaNs":                     func() string { return "[" + list(1<<16, "NaN") + "]" },
	"many keys":                     func() string { return "{" + list(20_000, `"k%d":[[1]]`) + "}" },
	"many empty objects":            func() string { return "{" + list(1<<14, `"model.layers.%d.q":{}`) + "}" },
	"many modules":                  func() string { return "{" + list(5_000, `"model.layers.%d.q":{"bits":8,"group_size":32}`) + "}" },
	"many groups":                   func() string { return `{"config_groups":{` + list(20_000, `"%d":{"weights":{"num_bits":8}}`) + "}}" },
	"one key many times":            func() string { return "{" + list(1<<15, `"":1`) + "}" },
	"one key many times, as object": func() string { return "{" + list(1<<13, `"text_config":{}`) + "}" },
	"long keys":                     func() string { return "{" + list(7, `"%d`+strings.Repeat("k", 1<<15)+`":1`) + "}" },
	"long escaped keys":             func() string { return "{" + list(7, `"%d`+strings.Repeat(`\u0061`, 1<<12)+`":1`) + "}" },
	"long text":                     func() string { return `"` + strings.Repeat("x", 1<<18) + `"` },
	"long escaped text":             func() string { return `"` + strings.Repeat(`\u001b`, 1<<15) + `"` },
	"long number":                   func() string { return strings.Repeat("7", 1<<18) },
	"long fraction":                 func() string { return "0." + strings.Repeat("7", 1<<18) },
	"spaces":                        func() string { return "{" + strings.Repeat(" ", 1<<18) + `"a" : 1}` },
}

// asked are places where the program looks for something. %s is hostile.
var asked = []string{
	`{"layer_types":%s}`, `{"text_config":%s}`, `{"thinker_config":{"text_config":%s}}`, `{"hidden_size":%s}`, `{"model_type":%s}`, `{"architectures":%s}`, `{"architectures":[%s]}`,
	`{"rope_parameters":{"full_attention":%s}}`, `{"n_layers":%s,"num_attention_heads":%[1]s}`,
	`{"quantization":%s}`, `{"quantization":{"bits":%s,"group_size":64}}`, `{"quantization":{"bits":4,"group_size":64,"mode":%s}}`, `{"quantization":{"bits":4,"group_size":64,"` + x + `":%s}}`,
	`{"quantization_config":%s}`, `{"quantization_config":{"quant_method":%s}}`, `{"quantization_config":{"quant_method":"gptq","config_groups":%s}}`,
	`{"quantization_config":{"quant_method":"compressed-tensors","format":%s}}`, `{"quantization_config":{"quant_method":"fp8","weight_block_size":%s}}`,
	`{"quantization_config":{"quant_method":"modelopt","quant_algo":%s}}`, `{"text_config":{"quantization_config":%s}}`, `{"unknown":%s}`,
}

// openCheaply opens a model and holds what that may cost: the processor, as
// much as looking through 100 MiB of JSON does, and memory, all allocations
// together, a multiple of the size of its texts, beside what other files cost.
func openCheaply(t *testing.T, open func() (*tensorfs.Model, error), size, others int) (m *tensorfs.Model, err error) {
	t.Helper()
	testlimit.Work(t, 100, func() {
		if m != nil {
			m.Close()
		}
		if n := testlimit.Allocated(func() { m, err = open() }); n > uint64(14*size+others) {
			t.Errorf("it allocates %d bytes for a file of %d", n, size)
		}
	})
	return m, err
}

// cost opens a model cheaply, and holds that its messages are clear.
func cost(t *testing.T, open func() (*tensorfs.Model, error), size, others int) error {
	t.Helper()
	m, err := openCheaply(t, open, size, others)
	if err != nil {
		if s := err.Error(); strings.ContainsAny(s, "\n\x1b") || len(s) > 1000 {
			t.Errorf("error %.300q of %d bytes is not a clear line", s, len(s))
		}
		return err
	}
	defer m.Close()
	for _, w := range m.Warnings {
		if strings.ContainsAny(w, "\n\x1b") || len(w) > 1000 {
			t.Errorf("warning %.300q of %d bytes is not a clear line", w, len(w))
		}
	}
	for i := range m.Tensors {
		if s := m.Tensors[i].Opaque; strings.ContainsAny(s, "\n\x1b") || len(s) > 1000 {
			t.Errorf("reason %.300q of %d bytes is not a clear line", s, len(s))
		}
	}
	return nil
}

// manyModules are weights of several schemes, enough that what each of them asks
// for is asked often.
func manyModules() []byte {
	var ts []testmodel.SafeTensor
	for i := range 50 {
		p := fmt.Sprintf("model.layers.%d.self_attn.q_proj", i)
		ts = append(ts, st(p+".weight", tensorfs.U32, 1, 8), st(p+".scales", tensorfs.F16, 1, 1), st(p+".biases", tensorfs.F16, 1, 1),
			st(p+".qweight", tensorfs.I32, 1), st(p+".qzeros", tensorfs.I32, 1), st(p+".weight_packed", tensorfs.I32, 1), st(p+".weight_scale", tensorfs.F16, 1),
			st(fmt.Sprintf("model.layers.%d.self_attn.k_proj.weight", i), tensorfs.F8_E4M3, 2, 2), st(fmt.Sprintf("model.layers.%d.self_attn.k_proj.weight_scale_inv", i), tensorfs.F32, 1, 1))
	}
	return testmodel.Safetensors(ts, nil)
}

// TestHostileConfig puts each hostile text where something is looked for.
func TestHostileConfig(t *testing.T) {
	weights := manyModules()
	for name, text := range hostileTexts {
		t.Run(name, func(t *testing.T) {
			hostile := text()
			for _, format := range asked {
				config := fmt.Sprintf(format, hostile)
				src := memory.New(map[string][]byte{"config.json": []byte(config), "model.safetensors": weights})
				open := func() (*tensorfs.Model, error) { return hf.OpenFS(src, ".") }
				if err := cost(t, open, len(config), 4<<20); err != nil {
					t.Errorf("%s: %v", format, err)
				}
			}
		})
	}
}

// TestHostileFiles has texts at the top, in every file.
func TestHostileFiles(t *testing.T) {
	const (
		index  = "model.safetensors.index.json"
		places = `{"weight_map":{%s}}`
	)
	a := shard("a")
	for _, c := range []struct {
		name, text string
		refused    string            // by config.json and those like it
		indexed    string            // by the index
		only       string            // file, "" for all
		also       map[string]string // other files
	}{
		{name: "many keys", text: "{" + list(400_000, `"%d":1`) + "}", refused: "it has 400000 keys", indexed: "it has 400000 keys"},
		{name: "as many keys as allowed", text: "{" + list(1<<14, `"%d":{"a":[1]}`) + "}", indexed: "no object"},
		{name: "cut off in nested arrays", text: `{"a":` + strings.Repeat("[", 4<<20), refused: "depth", indexed: "depth"},
		{name: "too deep", text: `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", refused: "depth", indexed: "depth"},
		{name: "cut off in text", text: `{"a":"` + strings.Repeat("x", 4<<20), refused: "cut off", indexed: "cut off"},
		{name: "cut off in a number", text: `{"a":` + strings.Repeat("1", 4<<20), refused: "cut off", indexed: "cut off"},
		{name: "zeros", text: strings.Repeat("\x00", 4<<20), refused: "invalid character '\\x00'", indexed: "invalid character '\\x00'"},
		{name: "spaces", text: strings.Repeat(" ", 4<<20), refused: "empty", indexed: "empty"},
		{name: "quotes", text: strings.Repeat(`"`, 4<<20), refused: "not an object", indexed: "not an object"},
		{name: "a list", text: "[" + list(1<<20, "1") + "]", refused: "not an object", indexed: "not an object"},
		{name: "something after it", text: "{}" + strings.Repeat("{}", 2<<20), refused: "something follows", indexed: "something follows"},
		{name: "100,000 tensors", only: index, text: fmt.Sprintf(places, list(100_000, `"model.layers.%d.mlp.experts.down_proj.weight":"model.safetensors"`)), indexed: `tensor "model.layers.0.mlp.experts.down_proj.weight": the index places it in "model.safetensors", which does not have it`},
		{name: "100,000 files", only: index, text: fmt.Sprintf(places, list(100_000, `"model.layers.%d.weight":"model-%[1]d.safetensors"`)), indexed: "more than 16384 files"},
		{name: "16,000 files", only: index, text: fmt.Sprintf(places, list(16_000, `"%d":"%[1]d"`))}, // stale, beside model.safetensors
		{name: "long names of files", only: index, text: fmt.Sprintf(places, list(100, `"%d":"%[1]d`+strings.Repeat("x", 1<<15)+`"`)), indexed: "is not a plain file name"},
		{name: "nested place", only: index, text: fmt.Sprintf(places, `"a":`+nested("[", list(1<<20, "1"), "]")), indexed: "is not a file name"},
		{name: "nested metadata", only: index, text: `{"weight_map":{"a":"model.safetensors"},"metadata":{"a":` + nested("[", list(1<<20, "1"), "]") + "}}"},
		{name: "many keys of metadata", only: index, text: `{"weight_map":{"a":"model.safetensors"},"metadata":{` + list(400_000, `"%d":1`) + "}}", indexed: `"metadata": it has 400000 keys`},
		{name: "one tensor many times", only: index, text: fmt.Sprintf(places, list(200_000, `"a":"model.safetensors"`))},
		{name: "ModelOpt's table", only: "hf_quant_config.json", text: `{"quantization":{"quant_algo":"NVFP4","quantized_layers":{` + list(100_000, `"model.layers.%d.mlp":{"quant_algo":"FP8"}`) + "}}}"},
	} {
		for _, file := range []string{"config.json", "hf_quant_config.json", "generation_config.json", index} {
			if c.only != "" && c.only != file {
				continue
			}
			t.Run(c.name+"/"+file, func(t *testing.T) {
				files := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": a}
				files[file] = []byte(c.text)
				dir := writeDir(t, files)
				err := cost(t, func() (*tensorfs.Model, error) { return hf.Open(dir) }, len(c.text), 8<<20)
				want := c.refused
				switch file {
				case index:
					want = c.indexed
				case "generation_config.json": // only a warning
					want = ""
				}
				if (err != nil) != (want != "") || err != nil && !(strings.Contains(err.Error(), want) && strings.Contains(err.Error(), filepath.Join("001", file))) {
					t.Errorf("error %v, want %q", err, want)
				}
			})
		}
	}
}

// TestHostileTogether makes all files hostile at once.
func TestHostileTogether(t *testing.T) {
	text := `{"metadata":{` + list(1<<14, `"%d":"x"`) + `},"quantization":{` + list(20_000, `"model.layers.%d.mlp":{}`) + `},"layer_types":[` + list(1<<18, "1") + `],` + list(1<<13, `"%d":[1]`)
	size := 0
	files := map[string][]byte{"model.safetensors": manyModules()}
	for _, name := range []string{"config.json", "generation_config.json", "hf_quant_config.json", "model.safetensors.index.json"} {
		files[name] = []byte(text + `,"weight_map":{` + list(50_000, `"%d":"model.safetensors"`) + "}}")
		if name == "model.safetensors.index.json" {
			files[name] = []byte(text + `,"weight_map":{` + list(50, `"model.layers.%d.self_attn.q_proj.weight":"model.safetensors"`) + "}}")
		}
		size += len(files[name])
	}
	dir := writeDir(t, files)
	if err := cost(t, func() (*tensorfs.Model, error) { return hf.Open(dir) }, size, 8<<20); err != nil {
		t.Error(err)
	}
}
