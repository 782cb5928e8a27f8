package hf_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestIndexVerdicts goes through the directories of the verdict table.
func TestIndexVerdicts(t *testing.T) {
	expect := map[string]struct {
		tensors  int
		warnings int
		refusal  string
	}{
		"ok-two-shards":                     {tensors: 2},
		"ok-total-size-wrong":               {tensors: 2},
		"ok-no-metadata":                    {tensors: 2},
		"ok-no-index":                       {tensors: 2},
		"ok-extra-tensor-not-in-index":      {tensors: 3, warnings: 1},
		"ok-stale-index-beside-single-file": {tensors: 2, warnings: 1},
		"ok-index-names-single-file":        {tensors: 2},
		"ok-unrelated-safetensors-beside":   {tensors: 2},
		"bad-missing-shard":                 {refusal: `"model-00002-of-00002.safetensors" that it names is missing`},
		"bad-tensor-not-in-its-shard":       {refusal: `tensor "lm_head.weight": the index places it in "model-00002-of-00002.safetensors", which does not have it`},
		"bad-tensor-in-another-shard":       {refusal: `tensor "model.embed_tokens.weight": the index places it in "model-00002-of-00002.safetensors", but it is in "model-00001-of-00002.safetensors"`},
		"bad-same-name-in-two-shards":       {refusal: `model-00002-of-00002.safetensors: tensor "model.embed_tokens.weight": the name is in "model-00001-of-00002.safetensors" too`},
		"bad-shard-path-parent":             {refusal: `"../ok-two-shards/model-00002-of-00002.safetensors" is not a plain file name`},
		"bad-shard-path-absolute":           {refusal: `"/dev/zero" is not a plain file name`},
		"bad-shard-name-empty":              {refusal: `"" is not a plain file name`},
		"bad-shard-name-is-directory":       {refusal: `"." is not a plain file name`},
		"bad-weight-map-missing":            {refusal: `no object "weight_map"`},
		"bad-weight-map-array":              {refusal: `no object "weight_map"`},
		"bad-weight-map-value-number":       {refusal: `its place "1" is not a file name`},
		"bad-index-not-json":                {refusal: "model.safetensors.index.json: it is not JSON: the text is cut off"},
		"bad-one-shard-truncated":           {refusal: "model-00002-of-00002.safetensors: tensor"},
	}
	table, err := os.ReadFile(filepath.Join(testdata, "hostile-safetensors", "verdicts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		path, verdict, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name, ok := strings.CutPrefix(path, "index/")
		if !ok {
			continue
		}
		want, ok := expect[name]
		if !ok || (want.refusal != "") != (verdict == "refuse") {
			t.Errorf("%s: verdict %s", name, verdict)
			continue
		}
		delete(expect, name)
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(testdata, "hostile-safetensors", path)
			if !match(dir) {
				t.Error("no match")
			}
			m, err := hf.Open(dir)
			if want.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), want.refusal) || !errors.Is(err, tensorfs.ErrFormat) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v does not say %q", err, want.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if len(m.Tensors) != want.tensors || len(m.Warnings) != want.warnings {
				t.Errorf("%d tensors, warnings %q", len(m.Tensors), m.Warnings)
			}
			for i := range m.Tensors {
				read(t, m.Tensors[i].Data)
			}
		})
	}
	if len(expect) > 0 {
		t.Errorf("not in the table: %v", expect)
	}
}

// TestHostileNames opens the file of awkward tensor names: all must get safe
// names of their own.
func TestHostileNames(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "hostile-safetensors", "valid", "*.safetensors"))
	if err != nil || len(files) != 20 {
		t.Fatal(files, err)
	}
	opened := 0
	for _, file := range files {
		m, err := hf.OpenFile(file)
		if err != nil {
			continue // by policy, tested with the parser
		}
		opened++
		if strings.Contains(file, "awkward") && len(m.Tensors) != 14 {
			t.Errorf("%d tensors", len(m.Tensors))
		}
		for i := range m.Tensors {
			read(t, m.Tensors[i].Data)
		}
		m.Close()
	}
	if opened != 16 {
		t.Errorf("%d files opened", opened)
	}
}

// shard returns a weight file with those tensors.
func shard(names ...string) []byte {
	var ts []testmodel.SafeTensor
	for _, n := range names {
		ts = append(ts, st(n, tensorfs.F16, 2))
	}
	return testmodel.Safetensors(ts, [][2]string{{"format", "pt"}})
}

func sources(m *tensorfs.Model) []string {
	var names []string
	for _, s := range m.Sources {
		names = append(names, s.Name)
	}
	return names
}

// TestSources holds which files belong to a model.
func TestSources(t *testing.T) {
	files := map[string][]byte{"model.safetensors": shard("a"), "sub/config.json": nil}
	for _, name := range []string{
		"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt", "tokenizer.model",
		"chat_template.jinja", "README.md", "LICENSE", "modeling_x.py", // these belong to it
		"adapter_config.json", "adapters.safetensors", "consolidated.safetensors", "pytorch_model.bin", "pytorch_model.bin.index.json", "model.gguf", ".gitattributes",
		"model.safetensors.index.json.bak", "other.safetensors.index.json", "image.png",
	} {
		files[name] = []byte("{}")
	}
	dir := writeDir(t, files)
	if err := os.Symlink("nowhere", filepath.Join(dir, "lost.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.json"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o666); err != nil {
		t.Fatal(err)
	}
	m := open(t, dir)
	want := strings.Fields("LICENSE README.md chat_template.jinja config.json generation_config.json merges.txt model.safetensors modeling_x.py special_tokens_map.json tokenizer.json tokenizer.model tokenizer_config.json vocab.json")
	if got := sources(m); !reflect.DeepEqual(got, want) {
		t.Errorf("sources\n%q, want\n%q", got, want)
	}
	for _, s := range m.Sources {
		if s.Path != filepath.Join(dir, s.Name) {
			t.Errorf("%+v", s)
		}
	}
	if len(m.Warnings) != 2 || !strings.Contains(m.Warnings[0], "an adapter of mlx-lm, which is not applied") || !strings.Contains(m.Warnings[1], "lost.json") {
		t.Errorf("warnings %q", m.Warnings)
	}
	st, err := os.Stat(filepath.Join(dir, "model.safetensors"))
	if err != nil || !m.ModTime.Equal(st.ModTime()) {
		t.Errorf("mtime %v", m.ModTime)
	}
	if e := tensorfs.Extents(m.Tensors[0].Data); len(e) != 1 || e[0].File != "model.safetensors" {
		t.Errorf("extents %v", e)
	}
}

// TestSourcesBelow holds which files of a model's folders belong to it, and that a
// folder with many does not make a model large.
func TestSourcesBelow(t *testing.T) {
	files := map[string][]byte{"model.safetensors": shard("a"), "config.json": []byte("{}"), "real/config.json": []byte("{}"), "real/t.jinja": nil, "7_File": nil}
	for _, name := range []string{
		"1_Pooling/config.json", "12_Dense/config.json", "additional_chat_templates/rag.jinja", // these belong to it
		"1_Pooling/model.safetensors", "1_Pooling/sub/config.json", "x_Pooling/config.json", "1_/config.json", "_Pooling/config.json",
		"additional_chat_templates/notes.txt", "onnx/config.json", ".1_Pooling/config.json",
	} {
		files[name] = []byte("{}")
	}
	dir := writeDir(t, files)
	for from, to := range map[string]string{"2_Link": "real", "3_Lost": "nowhere", "4_File": "config.json", "additional_chat_templates/l.jinja": "../real/t.jinja", "additional_chat_templates/m.jinja": "gone"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	m := open(t, dir)
	want := strings.Fields("12_Dense/config.json 1_Pooling/config.json 2_Link/config.json additional_chat_templates/l.jinja additional_chat_templates/rag.jinja config.json model.safetensors")
	if got := sources(m); !reflect.DeepEqual(got, want) {
		t.Errorf("sources\n%q, want\n%q", got, want)
	}
	if len(m.Warnings) != 1 || !strings.Contains(m.Warnings[0], "additional_chat_templates/m.jinja is left out") {
		t.Errorf("warnings %q", m.Warnings)
	}
	if d, err := m.File("1_Pooling/config.json"); err != nil || string(read(t, d)) != "{}" {
		t.Error(err)
	}

	for i := range 300 {
		name := fmt.Sprintf("%d_Module/config.json", i)
		if i%2 == 0 {
			name = fmt.Sprintf("additional_chat_templates/%d.jinja", i)
		}
		files[name] = []byte("{}")
	}
	m = open(t, writeDir(t, files))
	if n := len(m.Sources); n < 50 || n > 110 {
		t.Errorf("%d sources", n)
	}
}

// TestOpenFile checks when a file represents its directory.
func TestOpenFile(t *testing.T) {
	config := []byte(`{"model_type":"llama"}`)
	const shards = `{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`
	for _, c := range []struct {
		name     string
		files    map[string][]byte
		file     string
		format   string
		warnings int
	}{
		{"whole model", map[string][]byte{"config.json": config, "model.safetensors": shard("a")}, "model.safetensors", "huggingface", 0},
		{"whole model by its index", map[string][]byte{"config.json": config, "w.safetensors": shard("a"), "model.safetensors.index.json": []byte(`{"weight_map":{"a":"w.safetensors"}}`)}, "w.safetensors", "huggingface", 0},
		{"no config", map[string][]byte{"model.safetensors": shard("a")}, "model.safetensors", "safetensors", 0},
		{"beside the model", map[string][]byte{"config.json": config, "model.safetensors": shard("a"), "adapters.safetensors": shard("b")}, "adapters.safetensors", "safetensors", 0},
		{"a shard", map[string][]byte{"config.json": config, "model-00001-of-00002.safetensors": shard("a"), "model-00002-of-00002.safetensors": shard("b"), "model.safetensors.index.json": []byte(shards)},
			"model-00002-of-00002.safetensors", "safetensors", 1},
		{"a shard of a broken model", map[string][]byte{"config.json": config, "model-00002-of-00002.safetensors": shard("b"), "model.safetensors.index.json": []byte(shards)},
			"model-00002-of-00002.safetensors", "safetensors", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeDir(t, c.files)
			path := filepath.Join(dir, c.file)
			m, err := hf.OpenFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if m.Format != c.format || m.Path != path || len(m.Tensors) != 1 || len(m.Warnings) != c.warnings {
				t.Errorf("format %s, path %s, %d tensors, warnings %q", m.Format, m.Path, len(m.Tensors), m.Warnings)
			}
			if c.format == "safetensors" {
				if m.Architecture != "unknown" || len(m.Sources) != 1 {
					t.Errorf("architecture %s, sources %v", m.Architecture, m.Sources)
				}
				return
			}
			d := open(t, dir)
			if d.Path != dir || d.Architecture != m.Architecture || !slices.EqualFunc(d.Sources, m.Sources, func(a, b tensorfs.Source) bool { return a.Name == b.Name && a.Path == b.Path }) || !reflect.DeepEqual(d.Metadata, m.Metadata) || !reflect.DeepEqual(d.Config, m.Config) {
				t.Errorf("directory and file differ: %+v, %+v", d, m)
			}
		})
	}
	t.Chdir(writeDir(t, map[string][]byte{"model.safetensors": shard("a"), "config.json": config}))
	m, err := hf.OpenFile("model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !filepath.IsAbs(m.Path) || !filepath.IsAbs(m.Sources[0].Path) || m.Architecture != "llama" {
		t.Errorf("%+v", m)
	}
}

// TestRefusedDirectories names what cannot be opened, and the advice for it.
func TestRefusedDirectories(t *testing.T) {
	config := []byte(`{}`)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		links map[string]string // name to target
		want  string
		match bool
	}{
		{name: "empty", want: "no model.safetensors"},
		{name: "no weights", files: map[string][]byte{"config.json": config}, want: "name a directory with a model", match: true},
		{name: "only PyTorch", files: map[string][]byte{"config.json": config, "pytorch_model.bin": nil}, want: `only "pytorch_model.bin", a model of PyTorch; save the model as safetensors first, with transformers'`, match: true},
		{name: "only consolidated", files: map[string][]byte{"consolidated.safetensors": shard("a")}, want: "name the file itself", match: true},
		{name: "config is not JSON", files: map[string][]byte{"config.json": []byte(`{"a":1,}`), "model.safetensors": shard("a")}, want: "config.json: it is not JSON: invalid character '}' at start of string (expecting '\"') (at byte 7)", match: true},
		{name: "config is a list", files: map[string][]byte{"config.json": []byte(`[]`), "model.safetensors": shard("a")}, want: "its top value is not an object", match: true},
		{name: "config is empty", files: map[string][]byte{"config.json": nil, "model.safetensors": shard("a")}, want: "config.json: it is not JSON: the text is empty", match: true},
		{name: "config goes on", files: map[string][]byte{"config.json": []byte(`{}{}`), "model.safetensors": shard("a")}, want: "something follows", match: true},
		{name: "config is a broken link", files: map[string][]byte{"model.safetensors": shard("a")}, links: map[string]string{"config.json": "../blobs/1"}, want: `config.json: it is a link to "../blobs/1", which does not exist`, match: true},
		{name: "config is a directory", files: map[string][]byte{"config.json/x": nil, "model.safetensors": shard("a")}, want: "config.json: it is a directory, not a regular file", match: true},
		{name: "weights are a broken link", links: map[string]string{"model.safetensors": "../blobs/1"}, want: "finish the download", match: true},
		{name: "weights are a directory", files: map[string][]byte{"model.safetensors/x": nil}, want: "it is a directory, not a regular file", match: true},
		{name: "weights are a device", links: map[string]string{"model.safetensors": "/dev/zero"}, want: "it is a device, not a regular file", match: true},
		{name: "a shard is a broken link", files: map[string][]byte{"model-00001-of-00002.safetensors": shard("a")}, links: map[string]string{"model-00002-of-00002.safetensors": "../blobs/1"}, want: "model-00002-of-00002.safetensors: it is a link", match: true},
		{name: "a shard of a series is missing", files: map[string][]byte{"model-00001-of-00003.safetensors": shard("a"), "model-00003-of-00003.safetensors": shard("b")}, want: "model-00002-of-00003.safetensors: the other files say", match: true},
		{name: "index without tensors", files: map[string][]byte{"model.safetensors.index.json": []byte(`{"weight_map":{}}`)}, want: "names no file", match: true},
		{name: "one name in two files", files: map[string][]byte{"model-a.safetensors": shard("w"), "model-b.safetensors": shard("w")}, want: `model-b.safetensors: tensor "w": the name is in "model-a.safetensors" too`, match: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeDir(t, c.files)
			for name, target := range c.links {
				if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if got := match(dir); got != c.match {
				t.Errorf("Match is %v", got)
			}
			m, err := hf.Open(dir)
			if err == nil {
				m.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
	for path, want := range map[string]string{"/nowhere": "/nowhere: no such file or directory; check the path", "/dev/null": "/dev/null: it is not a directory"} {
		if _, err := hf.Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
		if match(path) {
			t.Errorf("%s matches", path)
		}
	}
}

// TestLargestJSON holds from both sides how large a JSON file may be.
func TestLargestJSON(t *testing.T) {
	const largest = 100 << 20
	dir := writeDir(t, map[string][]byte{"config.json": nil, "model.safetensors": shard("a")})
	for size, want := range map[int64]string{
		largest:     "config.json: it is not JSON: invalid character", // of zeros
		largest + 1: "config.json: it has 104857601 bytes, but such a file may have at most 104857600",
	} {
		if err := os.Truncate(filepath.Join(dir, "config.json"), size); err != nil {
			t.Fatal(err)
		}
		if _, err := hf.Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: error %v does not say %q", size, err, want)
		}
	}
}

// TestWarnings holds what is accepted and said.
func TestWarnings(t *testing.T) {
	index := []byte(`{"weight_map":{"a":"w.safetensors"}}`)
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  []string
	}{
		{"model.safetensors beside an index", map[string][]byte{"w.safetensors": shard("a"), "model.safetensors": shard("b"), "model.safetensors.index.json": index}, []string{"model.safetensors is left out"}},
		{"stale index", map[string][]byte{"model.safetensors": shard("b"), "model.safetensors.index.json": index}, []string{"the index is stale"}},
		{"settings that no tensor has", map[string][]byte{"model.safetensors": shard("b"), "config.json": []byte(`{"quantization_config":{"quant_method":"fp8"}}`)}, []string{"by config.json the model is quantised (fp8), but no tensor is"}},
		{"generation_config.json is broken", map[string][]byte{"model.safetensors": shard("b"), "generation_config.json": []byte(`{`)}, []string{"generation_config.json: it is not JSON"}},
		{"gpt-oss", map[string][]byte{"model.safetensors": shard("model.layers.0.mlp.experts.gate_up_proj_bias"), "config.json": []byte(`{"model_type":"gpt_oss"}`)}, []string{"layers.0.ffn.experts.gate_up.bias and others like it: the model interleaves the rows of its parts"}},
		{"two names for one thing", map[string][]byte{"model.safetensors": shard("model.norm.weight", "norm.weight")}, []string{`"norm.weight" keeps its name`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := open(t, writeDir(t, c.files))
			if len(m.Warnings) != len(c.want) {
				t.Fatalf("warnings %q", m.Warnings)
			}
			for i, w := range c.want {
				if !strings.Contains(m.Warnings[i], w) {
					t.Errorf("%q does not say %q", m.Warnings[i], w)
				}
			}
		})
	}
}

// largeModel writes a model like DeepSeek-V3 with pairs of a weight and its
// scales. The data is a hole.
func largeModel(t *testing.T, files, pairs int) (dir string) {
	t.Helper()
	dir = writeDir(t, map[string][]byte{"config.json": []byte(`{"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}`)})
	var index strings.Builder
	index.WriteString(`{"weight_map":{`)
	per := (pairs + files - 1) / files
	for f := range files {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", f+1, files)
		var ts []testmodel.SafeTensor
		for i := f * per; i < min((f+1)*per, pairs); i++ {
			w := fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", i/768, i%768/3, [3]string{"gate", "up", "down"}[i%3])
			ts = append(ts, st(w, tensorfs.F8_E4M3, 2048, 7168), st(w+"_scale_inv", tensorfs.F32, 16, 56))
			if i > 0 {
				index.WriteByte(',')
			}
			fmt.Fprintf(&index, "%q:%q,%q:%q", w, name, w+"_scale_inv", name)
		}
		if err := testmodel.WriteSparseSafetensors(filepath.Join(dir, name), ts); err != nil {
			t.Fatal(err)
		}
	}
	index.WriteString(`}}`)
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(index.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLargeModel opens a model like DeepSeek-V3, 163 files with 90,000 tensors,
// and holds that the work is in proportion to the model.
func TestLargeModel(t *testing.T) {
	const files, pairs = 163, 45_000
	dirs := map[int]string{pairs / 4: largeModel(t, files/4, pairs/4), pairs: largeModel(t, files, pairs)}
	testlimit.Growth(t, pairs/4, func(pairs int) {
		var m *tensorfs.Model
		n := testlimit.Allocated(func() { m = open(t, dirs[pairs]) })
		if per := n / uint64(2*pairs); per > 4096 {
			t.Errorf("%d bytes are allocated for each of %d tensors", per, 2*pairs)
		}
		if len(m.Tensors) != 2*pairs || len(m.Warnings) > 0 || m.Architecture != "deepseek2" {
			t.Errorf("%d tensors, architecture %s, warnings %q", len(m.Tensors), m.Architecture, m.Warnings)
		}
		for i := range m.Tensors {
			p := &m.Tensors[i]
			if isScale := p.DType == tensorfs.F32; isScale != (p.Owner != "") || isScale != (p.Quant == nil) || !strings.HasPrefix(p.Name, "layers.") {
				t.Fatalf("%+v", p)
			}
		}
		t.Logf("%d bytes for each of %d tensors", n/uint64(2*pairs), 2*pairs)
	})
}
