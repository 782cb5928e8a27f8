package hf_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/formats/gguf"
	hfmodel "github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// goldenCase is a model of testdata/architectures, and the expected files.
type goldenCase struct {
	name  string
	files map[string][]byte // of the model's directory
	gguf  []byte            // the model's gguf/model.gguf, nil without one
}

// architectureChecks are what is held of each case. A check returns what is wrong.
var architectureChecks = []struct {
	name, table, what string // which of its files a case has to have, and what is held then
	check             func(c *goldenCase, t *testing.T) []string
}{
	{"gguf", "expected/CASE.meta.json", "gguf/ has the tensors and the keys of llama.cpp's converter", (*goldenCase).checkGGUF},
	{"v5", "CASE/config.v5.json", "gguf/ is the same with the config.json that transformers 5 writes", (*goldenCase).checkV5},
	{"hf", "expected/CASE.meta.json", "hf/ of the GGUF file has the tensors and the config.json that transformers loads", (*goldenCase).checkHF},
	{"mlx", "expected/CASE.mlx.tsv", "mlx/ of the GGUF file has the tensors that mlx-lm saves", (*goldenCase).checkMLX},
	{"round", "expected/CASE.hf.tsv", "gguf/ of hf/ of gguf/ is the first one", (*goldenCase).checkRound},
}

// missingCases reads the table of known gaps: a case, a check, and why it does not pass.
func missingCases(t *testing.T) map[string]string {
	missing := map[string]string{}
	for line := range strings.Lines(string(read(t, "architectures/missing.txt"))) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) < 3 {
			t.Fatalf("%q has no reason", line)
		}
		for check := range strings.SplitSeq(f[1], ",") {
			missing[f[0]+" "+check] = strings.Join(f[2:], " ")
		}
	}
	return missing
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestArchitectures holds models of many architectures to what the real converters make
// of them, but for what missing.txt lists, which has to fail.
func TestArchitectures(t *testing.T) {
	tables, err := filepath.Glob(data + "architectures/expected/*.tensors.tsv")
	if err != nil || len(tables) < 57 {
		t.Fatalf("%d cases, %v", len(tables), err)
	}
	missing, works, of := missingCases(t), map[string]int{}, map[string]int{}
	for _, table := range tables {
		c := &goldenCase{name: strings.TrimSuffix(filepath.Base(table), ".tensors.tsv")}
		t.Run(c.name, func(t *testing.T) {
			c.files = onDisk(t, data+"architectures/"+c.name)
			for _, check := range architectureChecks {
				if _, err := os.Stat(data + "architectures/" + strings.Replace(check.table, "CASE", c.name, 1)); err != nil {
					continue
				}
				of[check.name]++
				key := c.name + " " + check.name
				wrong, why := check.check(c, t), missing[key]
				delete(missing, key)
				if len(wrong) == 0 {
					works[check.name]++
				}
				switch {
				case why == "" && len(wrong) == 0:
				case len(wrong) == 0:
					t.Errorf("%s works: take it out of missing.txt", key)
				case why == "":
					t.Errorf("%s: %d mistakes: %.900s", check.name, len(wrong), strings.Join(wrong[:min(len(wrong), 4)], "; "))
				default:
					t.Logf("%s is missing (%s): %d mistakes: %.600s", check.name, why, len(wrong), strings.Join(wrong[:min(len(wrong), 3)], "; "))
				}
			}
		})
	}
	for _, check := range architectureChecks {
		t.Logf("%-5s %d of %d: %s", check.name, works[check.name], of[check.name], check.what)
	}
	if flag.Lookup("test.run").Value.String() == "" {
		for key := range missing {
			t.Errorf("missing.txt lists %s, which is no case or no check", key)
		}
	}
}

// problems collects what is wrong.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// rowsOf returns the lines of a table of the expected results by their first column, without the
// head. It is nil if the table is missing.
func (c *goldenCase) rowsOf(t *testing.T, suffix string) map[string]string {
	b, err := os.ReadFile(data + "architectures/expected/" + c.name + suffix)
	if err != nil {
		return nil
	}
	rows := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		name, rest, _ := strings.Cut(line, "\t")
		rows[name] = strings.ReplaceAll(strings.TrimSpace(rest), "\t", " ")
	}
	return rows
}

// compare compares lines by name.
func (p *problems) compare(got, want map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			p.add("%s is %q, want %q", name, got[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			p.add("%s is %q, which is not in the table", name, got[name])
		}
	}
}

// of makes one of the whole models of files in memory.
func (p *problems) of(t *testing.T, make func(*tensorfs.Model, convert.Options) *convert.Files, open func(*memory.FS) (*tensorfs.Model, error), files map[string][]byte) map[string][]byte {
	m, err := open(memory.New(files))
	if err != nil {
		p.add("%v", err)
		return nil
	}
	t.Cleanup(func() { m.Close() })
	made := make(m, convert.Options{})
	if made.Reason != "" {
		p.add("%s", made.Reason)
		return nil
	}
	return contents(t, made)
}

func openDirectory(f *memory.FS) (*tensorfs.Model, error) { return hfmodel.OpenFS(f, ".") }
func openGGUF(f *memory.FS) (*tensorfs.Model, error)      { return formats.OpenFS(f, "m.gguf") }

func dimensions(shape []int64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", "x")
}

// tensorsOfGGUF are the tensors of a file as the tables have them.
func tensorsOfGGUF(t *testing.T, p *gguf.File) map[string]string {
	got := map[string]string{}
	for _, x := range p.Tensors {
		b := all(t, x.Data)
		shape := slices.Clone(x.Shape)
		slices.Reverse(shape)
		got[x.Source] = fmt.Sprintf("%s %s %d %x", x.DType, dimensions(shape), len(b), sha256.Sum256(b))
	}
	return got
}

// unwrittenKeys are the keys that the converter derives from a model's name.
var unwrittenKeys = []string{"general.basename", "general.organization", "general.finetune", "general.size_label"}

const fileTypeKey = "general.file_type"

// assumedKeys are keys of tokenizers that may be there, or not, where they say what
// llama.cpp assumes without them.
var assumedKeys = map[string]func(model, value string) bool{
	"tokenizer.ggml.add_bos_token":    func(model, v string) bool { return v == fmt.Sprint(model == "llama" || model == "bert") },
	"tokenizer.ggml.add_eos_token":    func(model, v string) bool { return v == fmt.Sprint(model == "bert") },
	"tokenizer.ggml.add_sep_token":    func(model, v string) bool { return v == fmt.Sprint(model == "bert") },
	"tokenizer.ggml.add_space_prefix": func(model, v string) bool { return v == fmt.Sprint(model == "llama" || model == "t5") },
}

// goTypes are the types of GGUF by their names in Go.
var goTypes = map[string]string{
	"uint8": "UINT8", "int8": "INT8", "uint16": "UINT16", "int16": "INT16", "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64", "int64": "INT64",
	"float32": "FLOAT32", "float64": "FLOAT64", "bool": "BOOL", "string": "STRING",
}

// written is a value of GGUF as text, with its type.
func written(v any) string {
	if f, ok := v.(float32); ok {
		return fmt.Sprintf("FLOAT32 %08x (%v)", math.Float32bits(f), f)
	}
	if a, ok := v.(tensorfs.Array); ok {
		var b strings.Builder
		for e := range a.Values() {
			b.WriteString(written(e) + "\n")
		}
		return "array " + b.String()
	}
	return goTypes[fmt.Sprintf("%T", v)] + fmt.Sprintf(" %q", fmt.Sprint(v))
}

// expectedValue is a value of the expected results, as written has it.
func expectedValue(t *testing.T, kind string, text json.RawMessage) string {
	if element, ok := strings.CutPrefix(kind, "array:"); ok {
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, e := range list {
			b.WriteString(expectedValue(t, element, e) + "\n")
		}
		return "array " + b.String()
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	switch v := v.(type) {
	case string:
		if x, err := strconv.ParseFloat(v, 32); kind == "FLOAT32" && err == nil {
			return written(float32(x))
		}
		return kind + fmt.Sprintf(" %q", v)
	case float64:
		if kind == "FLOAT32" {
			return written(float32(v))
		}
	}
	return kind + fmt.Sprintf(" %q", text)
}

// keysOf are the keys of a file as written has them.
func keysOf(p *gguf.File) map[string]string {
	got := map[string]string{}
	for _, m := range p.Metadata {
		got[m.Key] = written(m.Value)
	}
	return got
}

// withoutAssumed takes away what does not count.
func withoutAssumed(keys map[string]string, without ...string) map[string]string {
	var model string
	if _, err := fmt.Sscanf(keys["tokenizer.ggml.model"], "STRING %q", &model); err != nil {
		model = ""
	}
	for key, is := range assumedKeys {
		var v string
		if n, _ := fmt.Sscanf(keys[key], "BOOL %q", &v); n == 1 && is(model, v) {
			delete(keys, key)
		}
	}
	if model == "bert" { // any pre-tokenizer will do
		delete(keys, "tokenizer.ggml.pre")
	}
	for _, key := range slices.Concat(unwrittenKeys, without) {
		delete(keys, key)
	}
	return keys
}

func (c *goldenCase) wantKeys(t *testing.T, without ...string) map[string]string {
	var keys map[string]struct {
		Type  string
		Value json.RawMessage
	}
	text := bytes.ReplaceAll(read(t, "architectures/expected/"+c.name+".meta.json"), []byte("-Infinity"), []byte(`"-Inf"`)) // as Python writes it
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for k, v := range keys {
		want[k] = expectedValue(t, v.Type, v.Value)
	}
	return withoutAssumed(want, without...)
}

// roundedTensors are other hashes that a tensor may have, by case and name, because exp is rounded
// correctly here and not in PyTorch.
func roundedTensors(t *testing.T) map[string]string {
	rounded := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(read(t, "architectures/expected/exp-rounded.tsv"))), "\n")[1:] {
		f := strings.Split(line, "\t")
		rounded[f[0]+" "+f[1]] = f[2]
	}
	return rounded
}

func (c *goldenCase) compareGGUF(t *testing.T, wrong *problems, file []byte, without ...string) {
	f, want := testwhole.Parse(t, file), c.rowsOf(t, ".tensors.tsv")
	got := tensorsOfGGUF(t, f)
	for key, hash := range roundedTensors(t) {
		name, isCase := strings.CutPrefix(key, c.name+" ")
		if isCase && strings.HasSuffix(got[name], hash) {
			want[name] = got[name]
		}
	}
	wrong.compare(got, want)
	keys, wantKeys := withoutAssumed(keysOf(f), without...), c.wantKeys(t, without...)
	// Converters forget or add them: the type of GPT-NeoX's file, heads of Llama's, what llama.cpp does not load Nemotron-H without.
	for _, key := range append(sharedHeads(f), fileTypeKey, "nemotron_h.attention.layer_norm_rms_epsilon") {
		if _, ok := wantKeys[key]; !ok {
			delete(keys, key)
		}
	}
	wrong.compare(keys, wantKeys)
}

func (c *goldenCase) checkGGUF(t *testing.T) (wrong []string) {
	m, err := formats.Open(data + "architectures/" + c.name) // under its name, which is a key
	if err != nil {
		return []string{err.Error()}
	}
	t.Cleanup(func() { m.Close() })
	made := convert.GGUF(m, convert.Options{})
	if made.Reason != "" {
		return []string{made.Reason}
	}
	c.gguf = contents(t, made)["model.gguf"]
	c.compareGGUF(t, (*problems)(&wrong), c.gguf)
	return wrong
}

func (c *goldenCase) checkV5(t *testing.T) (wrong []string) {
	files := maps.Clone(c.files)
	files["config.json"] = files["config.v5.json"]
	if made := (*problems)(&wrong).of(t, convert.GGUF, openDirectory, files); made != nil {
		c.compareGGUF(t, (*problems)(&wrong), made["model.gguf"], "general.name")
	}
	return wrong
}

func (c *goldenCase) checkHF(t *testing.T) []string  { return c.checkDirectory(t, "hf", hf.HF) }
func (c *goldenCase) checkMLX(t *testing.T) []string { return c.checkDirectory(t, "mlx", hf.MLX) }

// checkDirectory compares a directory that was converted from the GGUF file.
func (c *goldenCase) checkDirectory(t *testing.T, kind string, make func(*tensorfs.Model, convert.Options) *convert.Files) []string {
	var wrong problems
	want := c.rowsOf(t, "."+kind+".tsv")
	if c.gguf == nil {
		return []string{"there is no GGUF file"}
	}
	made := wrong.of(t, make, openGGUF, map[string][]byte{"m.gguf": c.gguf})
	switch {
	case want == nil && made == nil: // CASE.hf.absent has the reason
		return nil
	case want == nil:
		return []string{"there is a directory, of a file that lacks what the class needs"}
	case made == nil:
		return wrong
	}
	m, err := formats.OpenFS(memory.New(map[string][]byte{"m.safetensors": made["model.safetensors"]}), "m.safetensors")
	if err != nil {
		wrong.add("%v", err)
		return wrong
	}
	t.Cleanup(func() { m.Close() })
	got := map[string]string{}
	for i := range m.Tensors {
		x := &m.Tensors[i]
		got[x.Source] = fmt.Sprintf("%s %s %x", x.DType, dimensions(x.Shape), sha256.Sum256(all(t, x.Data)))
	}
	if kind == "mlx" {
		want = likeMLX(m, got, want, c.rowsOf(t, ".hf.tsv"))
	}
	wrong.compare(got, want)
	config := read(t, "architectures/expected/"+c.name+"."+kind+".config.json")
	if kind == "mlx" {
		config = readByMLX(t, config)
	}
	wrong.compareConfig(t, made["config.json"], config)
	return wrong
}

// likeMLX returns a table of what mlx-lm saves in the form that mlx/ of a GGUF file has. It keeps
// only the language model. It rounds the F32 numbers that mlx-lm rounds when it saves a model, and
// has no copy of the embedding, which mlx-lm makes when it loads a model. A GGUF file stores the
// exponential of A_log; several neighbouring numbers have the same exponential, so the table takes
// the number that hf/ has.
func likeMLX(m *tensorfs.Model, got, want, hf map[string]string) map[string]string {
	list := map[string]string{}
	for name, row := range want {
		if got[name] == "" { // only classes that mlx-lm has within others keep it
			name = strings.TrimPrefix(name, "language_model.")
		}
		if strings.HasSuffix(name, ".A_log") && strings.HasPrefix(row, "F32 ") {
			row = hf[name]
		}
		if t := m.TensorBySource(name); t != nil && t.DType == tensorfs.F32 && strings.HasPrefix(row, "BF16 ") {
			if rounded, err := views.Encode(t, tensorfs.BF16); err == nil {
				b := make([]byte, rounded.Size())
				if err := tensorfs.ReadFull(rounded, b, 0); err == nil && row == fmt.Sprintf("BF16 %s %x", dimensions(t.Shape), sha256.Sum256(b)) {
					row = got[name]
				}
			}
		}
		if name != "lm_head.weight" || row != want["model.embed_tokens.weight"] || got[name] != "" {
			list[name] = row
		}
	}
	return list
}

// readByMLX returns the fields that mlx-lm's class reads from the config.json of a language model,
// except names and fields with several valid values: the length of texts, which converters take
// from elsewhere; the period of Jamba's layers, where the smallest is taken; and the width that
// LFM2's feed-forward width was computed from.
func readByMLX(t *testing.T, config []byte) []byte {
	var fields, read map[string]any = nil, map[string]any{}
	if err := json.Unmarshal(config, &fields); err != nil {
		t.Fatal(err)
	}
	kind, _ := fields["model_type"].(string)
	for _, name := range architectures.MLXClassOf(kind).Needs {
		if v, ok := fields[name]; ok && !slices.Contains([]string{"model_type", "max_position_embeddings", "text_config", "attn_layer_period", "block_auto_adjust_ff_dim", "block_multiple_of"}, name) {
			read[name] = v
		}
	}
	text, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// compareConfig holds that one config.json has all fields of another. It may have more.
func (p *problems) compareConfig(t *testing.T, got, want []byte) {
	var has, wants map[string]any
	for text, to := range map[string]*map[string]any{string(got): &has, string(want): &wants} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	flat := map[string]any{}
	for _, object := range []string{"rope_scaling", "rope_parameters"} {
		inner, _ := has[object].(map[string]any)
		maps.Copy(flat, inner)
	}
	maps.Copy(flat, has)
	for _, k := range slices.Sorted(maps.Keys(wants)) {
		w := wants[k]
		g := flat[k]
		switch inner, isObject := w.(map[string]any); {
		case k == "eos_token_id" && holdsNumber(g, w):
		case isObject && strings.HasPrefix(k, "rope_") && !holdsObject(inner):
			for k, w := range inner {
				if strings.HasSuffix(k, "type") && w == "default" && flat[k] == nil {
					continue
				}
				if !sameValue(flat[k], w) {
					p.add("config.json has %s %v about rotary embeddings, want %v", k, flat[k], w)
				}
			}
		case !sameValue(g, w):
			p.add("config.json has %s %v, want %v", k, g, w)
		}
	}
}

func holdsObject(v map[string]any) bool {
	for _, x := range v {
		if _, ok := x.(map[string]any); ok {
			return true
		}
	}
	return false
}

// holdsNumber reports whether a list has a number.
func holdsNumber(list, n any) bool {
	l, ok := list.([]any)
	return ok && slices.Contains(l, n)
}

// sameValue compares values of JSON, and numbers as F32.
func sameValue(a, b any) bool {
	switch b := b.(type) {
	case float64:
		n, ok := a.(float64)
		return ok && float32(n) == float32(b)
	case []any:
		l, ok := a.([]any)
		return ok && slices.EqualFunc(l, b, sameValue)
	case map[string]any:
		o, ok := a.(map[string]any)
		return ok && maps.EqualFunc(o, b, sameValue)
	}
	return a == b
}

// checkRound makes hf/ of the GGUF file, and a GGUF file of that.
func (c *goldenCase) checkRound(t *testing.T) []string {
	var wrong problems
	if c.gguf == nil {
		return []string{"there is no GGUF file"}
	}
	back := wrong.of(t, hf.HF, openGGUF, map[string][]byte{"m.gguf": c.gguf})
	if back == nil {
		return wrong
	}
	again := wrong.of(t, convert.GGUF, openDirectory, back)
	if again == nil {
		return wrong
	}
	a, b := testwhole.Parse(t, c.gguf), testwhole.Parse(t, again["model.gguf"])
	wrong.compare(tensorsOfGGUF(t, b), tensorsOfGGUF(t, a))
	wrong.compare(roundKeys(b), roundKeys(a))
	return wrong
}

// roundKeys returns the keys that must survive the round trip. Four need not: the name, the length
// of heads that share the width, a token marked as unused, and the first token as the unknown
// token, which llama.cpp assumes.
func roundKeys(f *gguf.File) map[string]string {
	keys := withoutAssumed(keysOf(f), "general.name")
	for _, key := range sharedHeads(f) {
		delete(keys, key)
	}
	if f.Value("tokenizer.ggml.model") == any("llama") && f.Value("tokenizer.ggml.unknown_token_id") == any(uint32(0)) { // as without the key
		delete(keys, "tokenizer.ggml.unknown_token_id")
	}
	keys["tokenizer.ggml.token_type"] = strings.ReplaceAll(keys["tokenizer.ggml.token_type"], written(int32(5)), written(int32(1)))
	return keys
}

// sharedHeads are the keys that say how long heads are which share the width evenly.
func sharedHeads(f *gguf.File) (list []string) {
	arch, _ := f.Value("general.architecture").(string)
	width, _ := f.Value(arch + ".embedding_length").(uint32)
	heads, _ := f.Value(arch + ".attention.head_count").(uint32)
	for _, key := range []string{arch + ".attention.key_length", arch + ".attention.value_length"} {
		if n, _ := f.Value(key).(uint32); n*heads == width {
			list = append(list, key)
		}
	}
	return list
}
