package tree

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/imatrix"
	"github.com/tensorfs/tensorfs/formats/models/merged"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// What the worst text may cost: seconds of a processor for each megabyte of a model's files and
// for a quarter more, and memory of the whole process. On slow machines a second is as long as
// unitsOfSecond looks through a megabyte of JSON.
const (
	costOfMegabyte = 2.0
	freeMegabytes  = 0.25
	maxMemory      = 300 << 20
	unitsOfSecond  = 200
)

// whichTexts has the order of a process that is started again.
const whichTexts = "TENSORFS_TEXTS"

// door is a parser, and a model with a file for it.
type door struct {
	name  string
	files map[string][]byte // all of the model
	file  string            // the one that is changed
	open  string
	texts func(base []byte, size int) []text
	run   string            // which of runs; "" for openAll
	base  map[string][]byte // another model
}

// runs are what is done with the files of a model.
var runs = map[string]func(o *order, files map[string][]byte){"": openAll, "apply": applyTo, "merge": mergeOf, "matrix": readMatrix}

// text is what a file is instead.
type text struct {
	name string
	data []byte
}

// TestTextsThatMultiply opens models whose texts were made to cost more than their size: many
// keys, depth, long names, counts, patterns for many modules. Each parser runs in a process of its
// own, whose memory and time the system measures.
func TestTextsThatMultiply(t *testing.T) {
	if which := os.Getenv(whichTexts); which != "" {
		var order order
		if err := json.Unmarshal([]byte(which), &order); err != nil {
			t.Fatal(err)
		}
		order.run(t)
		return
	}
	if testing.Short() {
		t.Skip("not in the short form: it runs some thousand texts in other processes")
	}
	const size, part = 1 << 20, 4
	for _, d := range doors(t) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel() // the system counts the time of each process
			o := order{Run: d.run, Open: d.open, File: d.file, Dir: t.TempDir()}
			for dir, files := range map[string]map[string][]byte{"model": d.files, "base": d.base} {
				if err := testmodel.Write(filepath.Join(o.Dir, dir), files); err != nil {
					t.Fatal(err)
				}
			}
			// What costs too much as a whole has cost something as a part, so most are read only in part.
			parts, wholes := d.texts(d.files[d.file], size/part), d.texts(d.files[d.file], size)
			if len(parts) != len(wholes) {
				t.Fatalf("%d parts of %d texts", len(parts), len(wholes))
			}
			order := func(x text) {
				o.Which = append(o.Which, len(o.Names))
				if err := os.WriteFile(o.path(len(o.Names)), x.data, 0o600); err != nil {
					t.Fatal(err)
				}
				o.Names = append(o.Names, x.name)
			}
			for _, x := range parts {
				order(x)
			}
			costs := o.measure(t)
			o.Which = nil
			for _, c := range costs {
				if c.seconds*part*part > costOfMegabyte || c.memory*part > maxMemory {
					order(wholes[c.text])
				}
			}
			costs = append(costs, o.measure(t)...)
			most := cost{}
			for _, c := range costs {
				most.seconds, most.memory = max(most.seconds, c.seconds), max(most.memory, c.memory)
				if !c.over() {
					continue
				}
				o.Which = []int{c.text} // once more, because a neighbour may have been in the way
				if again := o.measure(t); len(again) == 1 && again[0].over() {
					c = again[0]
					t.Errorf("%s: %.2f s of processor time and %.0f MiB of memory for %.2f MB; %.2f s and %d MiB are allowed", o.Names[c.text], c.seconds, c.memory/(1<<20), c.megabytes, c.allowed(), maxMemory>>20)
				}
			}
			t.Logf("%d texts, %d of them whole, at most %.2f s and %.0f MiB", len(parts), len(costs)-len(parts), most.seconds, most.memory/(1<<20))
		})
	}
}

// order describes what another process runs.
type order struct {
	Run   string   // which of runs
	Open  string   // what is opened
	File  string   // the one that is changed
	Dir   string   // has the files in model/, another model in base/, and the texts by their numbers
	Names []string // of the texts
	Which []int    // the numbers of the texts to run
}

func (o *order) path(i int) string { return filepath.Join(o.Dir, strconv.Itoa(i)) }

// cost is what a text took.
type cost struct {
	text               int // the number of the text
	megabytes, seconds float64
	memory             float64 // the most bytes that the process had
	unit               float64 // seconds of a look through a megabyte of JSON
}

func (c cost) allowed() float64 {
	return costOfMegabyte * (c.megabytes + freeMegabytes) * max(1, unitsOfSecond*c.unit)
}

func (c cost) over() bool { return c.seconds > c.allowed() || c.memory > maxMemory }

// measure runs texts in another process, and returns what each took.
func (o *order) measure(t *testing.T) (list []cost) {
	t.Helper()
	if len(o.Which) == 0 {
		return nil
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTextsThatMultiply$", "-test.count=1", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), whichTexts+"="+string(text))
	out, err := cmd.CombinedOutput()
	begun := ""
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "begin":
			begun = f[1]
		case len(f) == 6 && f[0] == "cost":
			var c cost
			c.text, _ = strconv.Atoi(f[1])
			for i, to := range []*float64{&c.megabytes, &c.seconds, &c.memory, &c.unit} {
				*to, _ = strconv.ParseFloat(f[2+i], 64)
			}
			list = append(list, c)
		}
	}
	if err != nil {
		if i, _ := strconv.Atoi(begun); begun != "" {
			begun = o.Names[i]
		}
		t.Errorf("the process with %q: %v\n%s", begun, err, out[max(0, len(out)-3000):])
	}
	return list
}

// run runs the texts in this process.
func (o *order) run(t *testing.T) {
	// What goes on and on is ended by the system.
	for _, l := range []struct {
		what int
		most uint64
	}{{syscall.RLIMIT_CPU, 900}, {syscall.RLIMIT_AS, 16 << 30}} {
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			t.Log(err)
		}
	}
	model := o.load("model")
	looked := bytes.Repeat([]byte(`{"name":[1,2.5,true]},`), 1<<20/22)
	looked = slices.Concat([]byte("["), looked, []byte("0]"))
	unit := math.Inf(1)
	for range 3 {
		unit = min(unit, spent(func() { json.Valid(looked) }))
	}
	for _, i := range o.Which {
		data, err := os.ReadFile(o.path(i))
		if err != nil {
			t.Fatal(err)
		}
		files, total := maps.Clone(model), 0
		files[o.File] = data
		for _, b := range files {
			total += len(b)
		}
		debug.FreeOSMemory()
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak starts here, if the system can do it
		fmt.Println("begin", i)
		seconds := spent(func() { runs[o.Run](o, files) })
		fmt.Println("cost", i, float64(total)/1e6, seconds, peak(), unit)
	}
}

// spent returns the processor time of a function in seconds.
func spent(fn func()) float64 {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	fn()
	return (used() - before).Seconds()
}

// highest finds the most memory of a process in /proc.
var highest = regexp.MustCompile(`VmHWM:\s*([0-9]+) kB`)

// peak returns the most bytes of memory that this process had.
func peak() float64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		if m := highest.FindSubmatch(status); m != nil {
			n, _ := strconv.ParseFloat(string(m[1]), 64)
			return n * 1024
		}
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Maxrss) // in bytes on systems without /proc
}

// openAll opens a model and makes all that a reader of its tree may ask for, but for numbers.
func openAll(o *order, files map[string][]byte) {
	m, err := formats.OpenFS(memory.New(files), o.Open)
	if err != nil {
		checkShort(err.Error())
		return
	}
	defer m.Close()
	lookInto(m)
}

// lookInto makes the tree of a model and reads its texts.
func lookInto(m *tensorfs.Model) {
	tree := New(m, Options{})
	for _, w := range tree.Whole {
		w.Files()
	}
	buffer := make([]byte, 1<<20)
	_ = tensorfs.Walk(tree.Root, func(p string, e tensorfs.Entry) error {
		dir, _, _ := strings.Cut(p, "/")
		if e.Data == nil || dir != "metadata" && dir != IndexDir && WholeHelp[dir] == "" && dir != p {
			return nil
		}
		for off := int64(0); off < min(e.Data.Size(), 32<<20); off += int64(len(buffer)) {
			if err := tensorfs.ReadFull(e.Data, buffer[:min(int64(len(buffer)), e.Data.Size()-off)], off); err != nil {
				checkShort(err.Error())
				return nil
			}
		}
		return nil
	})
}

// checkShort ends the process if a message is not a readable line.
func checkShort(message string) {
	if len(message) > 10_000 || strings.Contains(message, "\n") {
		panic(fmt.Sprintf("the message has %d bytes: %.300q", len(message), message))
	}
}

// doors are all parsers of texts.
func doors(t *testing.T) (list []door) {
	all := slices.SortedFunc(maps.Values(samples(t)), func(a, b *sample) int { return strings.Compare(a.name, b.name) })
	all = slices.DeleteFunc(all, func(s *sample) bool { return strings.Contains(s.name, "hostile") })
	named := func(name string) *sample {
		for _, s := range all {
			if s.name == name {
				return s
			}
		}
		t.Fatalf("there is no %s", name)
		return nil
	}
	add := func(name string, s *sample, file string, texts func([]byte, int) []text) *door {
		files := maps.Clone(s.files)
		if files[file] == nil {
			t.Fatalf("%s has no %s", s.name, file)
		}
		list = append(list, door{name: name, files: files, file: file, open: s.open, texts: texts})
		return &list[len(list)-1]
	}
	llama := named("whole-gguf/llama3")

	// Files of a directory, in the first models that have them.
	for file, models := range map[string]int{"config.json": 3, "generation_config.json": 1, "tokenizer.json": 3, "tokenizer_config.json": 2, "modules.json": 1, "preprocessor_config.json": 1,
		"model.safetensors.index.json": 1, "tekken.json": 1, "added_tokens.json": 1} {
		for _, s := range all {
			if models > 0 && s.open == "." && s.files[file] != nil && s.files["config.json"] != nil {
				add(file+" of "+s.name, s, file, jsonTexts)
				models--
			}
		}
	}
	for file, small := range map[string]string{"special_tokens_map.json": `{"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","additional_special_tokens":["<x>",{"content":"<y>"}]}`,
		"chat_template.json": `{"chat_template":"{{ messages }}"}`, "processor_config.json": `{"image_seq_length":1}`, "added_tokens.json": `{"<x>":1}`, "hf_quant_config.json": `{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8","exclude_modules":["lm_head"],"kv_cache_quant_algo":"FP8"}}`,
		"quantize_config.json": `{"bits":4,"group_size":128,"quant_method":"gptq","dynamic":{"+:.*q":{"bits":8}}}`, "sentence_bert_config.json": `{"max_seq_length":1}`, "1_Pooling/config.json": `{"pooling_mode_mean_tokens":true}`} {
		with := *llama
		with.files = maps.Clone(with.files)
		with.files[file] = []byte(small)
		add(file, &with, file, jsonTexts)
	}
	without := func(s *sample, file, small string) *sample { // a model whose tokenizer is in other files
		x := *s
		x.files = maps.Clone(x.files)
		for _, name := range []string{"tokenizer.json", "tokenizer.model"} {
			delete(x.files, name)
		}
		x.files[file] = []byte(small)
		return &x
	}
	gpt := without(llama, "vocab.json", `{"a":0,"b":1,"ab":2}`)
	gpt.files["merges.txt"] = []byte("#version: 0.2\na b\n")
	add("vocab.json", gpt, "vocab.json", jsonTexts)
	add("merges.txt", gpt, "merges.txt", lineTexts("a b"))
	add("vocab.txt", without(named("whole-gguf/bert"), "vocab.txt", "a\nb\n"), "vocab.txt", lineTexts("##a"))
	add("tokenizer.tiktoken", without(llama, "tokenizer.tiktoken", "YQ== 0\n"), "tokenizer.tiktoken", lineTexts("YQ== 0"))
	for _, s := range all {
		if s.open == "." && s.files["tokenizer.model"] != nil && s.files["tokenizer.json"] == nil && s.files["config.json"] != nil {
			add("tokenizer.model of "+s.name, s, "tokenizer.model", pieceTexts)
			break
		}
	}
	template := *llama
	template.files = maps.Clone(template.files)
	template.files["chat_template.jinja"] = []byte("{{ messages }}")
	add("chat_template.jinja", &template, "chat_template.jinja", lineTexts("{% for a in b %}", "{% if x %}", "{{ ((((((", "{% macro a() %}", "{{ x|y }}", "{% set a = [[[["))
	add("header of safetensors", llama, "model.safetensors", headerTexts)

	// Files that hold many modules, with settings for each.
	for method, config := range quantConfigs {
		s := &sample{name: method, open: ".", files: manyModules(method)}
		s.files["config.json"] = []byte(`{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,"num_hidden_layers":40,"num_attention_heads":4,"num_key_value_heads":4,"vocab_size":100,"intermediate_size":64,"torch_dtype":"float16","rms_norm_eps":1e-5,` + config + `}`)
		add("config.json of "+method, s, "config.json", jsonTextsUnder("quantization_config", "quantization"))
	}

	// GGUF.
	for _, s := range all {
		if strings.HasSuffix(s.open, ".gguf") && len(s.files) == 1 && strings.HasPrefix(s.name, "gguf/") {
			add("keys of "+s.name, s, s.open, ggufTexts)
			break
		}
	}

	// What another program stored.
	for _, s := range all {
		if strings.Contains(s.name, "/manifests/") {
			add("manifest of "+s.name, s, s.open, jsonTexts)
			for _, blob := range slices.Sorted(maps.Keys(s.files)) {
				if b := s.files[blob]; strings.HasPrefix(blob, "blobs/") && json.Valid(b) {
					add("blob of "+s.name, s, blob, jsonTexts)
					break
				}
			}
			break
		}
	}
	exported := &sample{name: "an export", open: ".", files: exportOf(t, llama)}
	add("index.json", exported, "index.json", jsonTexts)
	add("metadata.json", exported, "metadata.json", jsonTexts)

	// Adapters and recipes.
	adapter := *llama
	adapter.files = adapterFiles(40)
	d := add("adapter_config.json", &adapter, "adapter_config.json", jsonTexts)
	d.run, d.base = "apply", llama.files
	adapter.files = adapterFiles(2000)
	d = add("adapter_config.json for many modules", &adapter, "adapter_config.json", patternTexts)
	d.run, d.base = "apply", llama.files
	recipe := *llama
	recipe.files = maps.Clone(llama.files)
	recipe.files["recipe.yml"] = []byte("merge_method: linear\nmodels:\n- model: a\n  parameters: {weight: 1}\n")
	add("recipe", &recipe, "recipe.yml", recipeTexts).run = "merge"

	// Importance matrices.
	for _, form := range []string{"dat", "gguf"} {
		b, err := os.ReadFile(testdata + "/quantise/imatrix/dense256.imatrix." + form)
		if err != nil {
			t.Fatal(err)
		}
		texts := matrixTexts
		if form == "gguf" {
			texts = ggufTexts
		}
		add("imatrix of form "+form, &sample{open: "x", files: map[string][]byte{"x": b}}, "x", texts).run = "matrix"
	}
	slices.SortFunc(list, func(a, b door) int { return strings.Compare(a.name, b.name) })
	return list
}

// load returns the files of a directory.
func (o *order) load(dir string) map[string][]byte {
	m, err := memory.Load(filepath.Join(o.Dir, dir))
	if err != nil {
		panic(err)
	}
	return m.Files
}

// applyTo applies an adapter to the other model.
func applyTo(o *order, files map[string][]byte) {
	a, err := formats.OpenFS(memory.New(files), ".")
	if err != nil {
		checkShort(err.Error())
		return
	}
	m, err := formats.OpenFS(memory.New(o.load("base")), ".")
	if err != nil {
		panic(err)
	}
	defer m.Close()
	if err := lora.Apply(m, views.Options{}, lora.Use{Model: a, Adapter: tensorfs.Adapter{Source: "a", Scale: 1}}); err != nil {
		checkShort(err.Error())
		return
	}
	lookInto(m)
}

// readMatrix opens an importance matrix.
func readMatrix(o *order, files map[string][]byte) {
	m, err := imatrix.Open(tensorfs.Bytes(files[o.File]))
	if err != nil {
		checkShort(err.Error())
		return
	}
	_, _ = m.Read("blk.0.attn_q.weight", 0, 1)
}

// mergeOf opens a merge.
func mergeOf(o *order, files map[string][]byte) {
	m, err := merged.Open("/memory/recipe.yml", files[o.File], func(name string) (*tensorfs.Model, error) {
		if len(name) > 200 {
			return nil, errors.New("no such model")
		}
		return formats.OpenFS(memory.New(files), ".")
	})
	if err != nil {
		checkShort(err.Error())
		return
	}
	defer m.Close()
	lookInto(m)
}

// exportOf returns the files of an exported tree.
func exportOf(t *testing.T, s *sample) map[string][]byte {
	m, err := formats.OpenFS(memory.New(s.files), s.open)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	files := map[string][]byte{}
	err = tensorfs.Walk(New(m, Options{}).Root, func(p string, e tensorfs.Entry) error {
		if dir, _, _ := strings.Cut(p, "/"); e.Data != nil && (dir == p || dir == "raw" || dir == "metadata") {
			files[p] = content(t, p, e.Data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sized repeats what f returns for 0, 1 and so on until it has so many bytes.
func sized(size int, f func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		b.WriteString(f(i))
	}
	return b.String()
}

// listed is sized with commas between.
func listed(size int, f func(i int) string) string {
	return strings.TrimSuffix(sized(size, func(i int) string { return f(i) + "," }), ",")
}

// values are JSON values of a given number of bytes that a parser may expect to be short.
func values(size int) []text {
	object := func(f func(i int) string) []byte { return []byte("{" + listed(size, f) + "}") }
	list := func(f func(i int) string) []byte { return []byte("[" + listed(size, f) + "]") }
	const deep = 9000
	return []text{
		{"keys", object(func(i int) string { return fmt.Sprintf(`"k%d":0`, i) })},
		{"one key again", object(func(i int) string { return `"weight":{}` })},
		{"objects by name", object(func(i int) string {
			return fmt.Sprintf(`"model.layers.%d.self_attn.q_proj":{"bits":%d,"group_size":32}`, i, 2+i%7)
		})},
		{"patterns as keys", object(func(i int) string { return fmt.Sprintf(`"+:.*(a|b|%d)+{50}.*":{"bits":4}`, i) })},
		{"depth", []byte(strings.Repeat("[", deep) + strings.Repeat("]", deep))},
		{"depth again and again", list(func(i int) string { return strings.Repeat(`{"a":[`, 400) + strings.Repeat("]}", 400) })},
		{"a long word", []byte(`"` + strings.Repeat("a", size) + `"`)},
		{"a long path", []byte(`"` + strings.Repeat("a.", size/2) + `"`)},
		{"escapes", []byte(`"` + strings.Repeat(`\u0001`, size/6) + `"`)},
		{"brackets", []byte(`"` + strings.Repeat("(a|", size/6) + strings.Repeat(")", size/6) + `"`)},
		{"repetitions", []byte(`"` + strings.Repeat("(?:a{1,50}b){1,19}", size/18) + `"`)},
		{"empty lists", list(func(i int) string { return "[]" })},
		{"empty objects", list(func(i int) string { return "{}" })},
		{"empty words", list(func(i int) string { return `""` })},
		{"words", list(func(i int) string { return fmt.Sprintf(`"w%d"`, i) })},
		{"one word again", list(func(i int) string { return `"model.layers.0.self_attn.q_proj"` })},
		{"patterns", list(func(i int) string { return fmt.Sprintf(`"re:.*(x|y%d){9}.*"`, i) })},
		{"pairs", list(func(i int) string { return fmt.Sprintf(`["a%d","b%d"]`, i, i) })},
		{"numbers", list(func(i int) string { return "1000000000" })},
		{"digits", list(func(i int) string { return "1" })},
		{"named objects", list(func(i int) string {
			return fmt.Sprintf(`{"type":"Split","name":"n%d","id":%d,"content":"<c%d>","pattern":{"Regex":"a|b"},"idx":%d}`, i, i, i, i)
		})},
		{"a large number", []byte("1000000000")},
		{"a negative number", []byte("-1")},
		{"many digits", []byte(strings.Repeat("9", size))},
	}
}

// more is a value of the same kind as one, but of about so many bytes: its members again and again, with
// other names.
func more(v any, size int) []byte {
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			break
		}
		items := make([]string, len(v))
		for i := range v {
			items[i] = encode(v[i])
		}
		return []byte("[" + listed(size, func(i int) string {
			if x, ok := v[i%len(v)].(string); ok {
				return encode(x + strconv.Itoa(i))
			}
			return items[i%len(v)]
		}) + "]")
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			break
		}
		items := map[string]string{}
		for _, k := range keys {
			items[k] = encode(v[k])
		}
		return []byte("{" + listed(size, func(i int) string {
			k := keys[i%len(keys)]
			value := items[k]
			if _, ok := v[k].(float64); ok {
				value = strconv.Itoa(i)
			}
			return encode(k+strconv.Itoa(i/len(keys))) + ":" + value
		}) + "}")
	case string:
		if v != "" {
			return []byte(encode(strings.Repeat(v, size/len(v))))
		}
	}
	return []byte("999999999")
}

// maxPlaces bounds the places of a text that are changed.
const maxPlaces = 90

// jsonTexts are the texts that come of a JSON text when one of its values is another.
func jsonTexts(base []byte, size int) []text { return jsonTextsUnder()(base, size) }

// jsonTextsUnder is jsonTexts for values below some keys; none for all.
func jsonTextsUnder(under ...string) func(base []byte, size int) []text {
	return func(base []byte, size int) (list []text) {
		var root any
		if err := json.Unmarshal(base, &root); err != nil {
			panic(err)
		}
		whole, choices := values(size), values(size/4)
		n := 0
		try := func(at string, was any, set func(v json.RawMessage)) {
			for _, x := range []text{{"more", more(was, size/4)}, choices[n%len(choices)], choices[(n*7+3)%len(choices)]} {
				set(x.data)
				b, err := json.Marshal(root)
				if err != nil { // many digits
					continue
				}
				list = append(list, text{at + ": " + x.name, b})
			}
			n++
		}
		var walk func(at string, v any, depth int)
		walk = func(at string, v any, depth int) {
			if depth == 4 {
				return
			}
			switch v := v.(type) {
			case map[string]any:
				for i, k := range slices.Sorted(maps.Keys(v)) {
					if depth == 0 && len(under) > 0 && !slices.Contains(under, k) || len(list) > 3*maxPlaces || depth > 0 && i > 30 {
						continue
					}
					was := v[k]
					try(at+"."+k, was, func(r json.RawMessage) { v[k] = r })
					v[k] = was
					walk(at+"."+k, was, depth+1)
				}
			case []any:
				if len(v) > 0 {
					was := v[0]
					try(at+"[0]", was, func(r json.RawMessage) { v[0] = r })
					v[0] = was
					walk(at+"[0]", was, depth+1)
				}
			}
		}
		walk("", root, 0)
		for _, x := range whole { // all at the top, and an unknown key
			list = append(list, text{"instead of all: " + x.name, x.data})
			if at := bytes.IndexByte(base, '{'); at >= 0 && len(bytes.TrimSpace(base[at:])) > 2 {
				list = append(list, text{"another key: " + x.name, slices.Concat(base[:at+1], []byte(`"unknown":`), x.data, []byte(","), base[at+1:])})
			}
		}
		return list
	}
}

// lineTexts are texts of lines.
func lineTexts(usual ...string) func(base []byte, size int) []text {
	return func(base []byte, size int) (list []text) {
		for _, line := range usual {
			list = append(list, text{"again " + line, []byte(strings.Repeat(line+"\n", size/(len(line)+1)))},
				text{"one line of " + line, []byte(strings.Repeat(line, size/len(line)))},
				text{"numbered " + line, []byte(sized(size, func(i int) string { return fmt.Sprintf("%s%d\n", line, i) }))})
		}
		return append(list, text{"no line's end", bytes.Repeat([]byte("a"), size)}, text{"spaces", bytes.Repeat([]byte(" "), size)}, text{"empty lines", bytes.Repeat([]byte("\n"), size)},
			text{"bytes of 255", bytes.Repeat([]byte{255}, size)}, text{"zeros", make([]byte, size)}, text{"after it", slices.Concat(base, bytes.Repeat([]byte("a b\n"), size/4))})
	}
}

// pieceTexts are SentencePiece models, protobufs.
func pieceTexts(base []byte, size int) []text {
	again := func(b ...byte) []byte { return bytes.Repeat(b, size/len(b)) }
	length := func(field byte, b []byte) []byte {
		return slices.Concat(binary.AppendUvarint([]byte{field<<3 | 2}, uint64(len(b))), b)
	}
	var nested []byte
	for len(nested) < size/8 {
		nested = length(1, nested)
	}
	return []text{
		{"the same again", bytes.Repeat(base, 1+size/len(base))}, {"empty pieces", again(10, 0)}, {"pieces of one byte", again(10, 3, 10, 1, 'a')}, {"trainers", again(18, 0)}, {"normalizers", again(26, 0)},
		{"numbers", again(8, 1)}, {"groups", again(11)}, {"nested", nested}, {"a long piece", slices.Concat(base, length(1, length(1, make([]byte, size))))},
		{"a charsmap", slices.Concat(base, length(3, length(2, again(255, 0, 1))))}, {"a charsmap that lies", slices.Concat(base, length(3, length(2, append(binary.LittleEndian.AppendUint32(nil, 1<<31), make([]byte, size)...))))},
		{"a length that lies", slices.Concat(base, []byte{10, 255, 255, 255, 255, 127})}, {"scores", slices.Concat(base, length(1, again(21, 0, 0, 0, 0)))}, {"words of a trainer", slices.Concat(base, length(2, bytes.Repeat(length(30, []byte("a")), size/4)))},
	}
}

// headerTexts are safetensors files whose headers multiply.
func headerTexts(base []byte, size int) (list []text) {
	n := binary.LittleEndian.Uint64(base)
	header, data := base[8:8+n], base[8+n:]
	with := func(name string, header []byte) {
		list = append(list, text{name, slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, data)})
	}
	for _, x := range jsonTexts(header, size)[:60] {
		with(x.name, x.data)
	}
	end := len(data)
	insert := func(name string, f func(i int) string) {
		with(name, slices.Concat([]byte("{"), []byte(sized(size, func(i int) string { return f(i) + "," })), bytes.TrimSpace(header)[1:]))
	}
	insert("tensors of nothing", func(i int) string {
		return fmt.Sprintf(`"t%d":{"dtype":"F32","shape":[0],"data_offsets":[%d,%d]}`, i, end, end)
	})
	insert("layers of nothing", func(i int) string {
		return fmt.Sprintf(`"model.layers.%d.mlp.experts.%d.up_proj.weight":{"dtype":"BF16","shape":[0,8],"data_offsets":[%d,%d]}`, i/64, i%64, end, end)
	})
	insert("long names", func(i int) string {
		return fmt.Sprintf(`"%s%d":{"dtype":"F32","shape":[0],"data_offsets":[%d,%d]}`, strings.Repeat("a.", 2000), i, end, end)
	})
	insert("long shapes", func(i int) string {
		return fmt.Sprintf(`"s%d":{"dtype":"F32","shape":[%s0],"data_offsets":[%d,%d]}`, i, strings.Repeat("1,", 500), end, end)
	})
	insert("one name again", func(i int) string {
		return fmt.Sprintf(`"t":{"dtype":"F32","shape":[0],"data_offsets":[%d,%d]}`, end, end)
	})
	insert("metadata again", func(i int) string { return `"__metadata__":{"a":"b"}` })
	insert("quantised modules", func(i int) string {
		return fmt.Sprintf(`"model.layers.%d.mlp.up_proj.scales":{"dtype":"F16","shape":[0],"data_offsets":[%d,%d]}`, i, end, end)
	})
	return list
}

// ggufTexts are GGUF files with more keys. The offset of the data changes only by multiples of 32.
func ggufTexts(base []byte, size int) (list []text) {
	word := func(s string) []byte { return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...) }
	u32 := func(x uint32) []byte { return binary.LittleEndian.AppendUint32(nil, x) }
	u64 := func(x uint64) []byte { return binary.LittleEndian.AppendUint64(nil, x) }
	with := func(name string, n int, keys []byte) {
		pad := slices.Concat(word("pad"), u32(8), word(strings.Repeat("x", (32-(len(keys)+3+8+4+8)%32)%32)))
		b := slices.Concat(base[:16], u64(binary.LittleEndian.Uint64(base[16:])+uint64(n)+1), keys, pad, base[24:])
		list = append(list, text{name, b})
	}
	many := func(name string, f func(i int) []byte) {
		var b []byte
		n := 0
		for ; len(b) < size; n++ {
			b = append(b, f(n)...)
		}
		with(name, n, b)
	}
	array := func(key string, kind uint32, n uint64, b []byte) []byte {
		return slices.Concat(word(key), u32(9), u32(kind), u64(n), b)
	}
	many("keys", func(i int) []byte { return slices.Concat(word(fmt.Sprint(i)), u32(0), []byte{1}) })
	many("one key again", func(i int) []byte { return slices.Concat(word("k"), u32(0), []byte{1}) })
	many("keys of one architecture", func(i int) []byte { return slices.Concat(word(fmt.Sprintf("llama.x%d", i)), u32(4), u32(1<<30)) })
	many("empty arrays", func(i int) []byte { return array(fmt.Sprintf("a%d", i), 8, 0, nil) })
	many("templates", func(i int) []byte {
		return slices.Concat(word(fmt.Sprintf("tokenizer.chat_template.t%d", i)), u32(8), word("{{ a }}"))
	})
	for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.added", "general.tags", "llama.attention.head_count", "tokenizer.chat_templates"} {
		with("empty words as "+key, 1, array(key, 8, uint64(size/8), make([]byte, size/8*8)))
		with("words as "+key, 1, array(key, 8, uint64(size/12), bytes.Repeat(append(u64(4), "ab c"...), size/12)))
		with("numbers as "+key, 1, array(key, 4, uint64(size/4), bytes.Repeat(u32(1<<30), size/4)))
		with("bytes as "+key, 1, array(key, 0, uint64(size), make([]byte, size)))
		with("a count that lies as "+key, 1, array(key, 8, 1<<40, make([]byte, size)))
	}
	var deep []byte
	for len(deep) < size {
		deep = append(deep, slices.Concat(u32(9), u64(1))...)
	}
	with("arrays in arrays", 1, slices.Concat(word("deep"), u32(9), deep, u32(0), u64(0)))
	with("a long word", 1, slices.Concat(word("long"), u32(8), word(strings.Repeat("a", size))))
	with("a long key", 1, slices.Concat(word(strings.Repeat("a", min(size, 60000))), u32(0), []byte{0}))
	with("a long template", 1, slices.Concat(word("tokenizer.chat_template"), u32(8), word(strings.Repeat("{% if a %}{{ b }}", size/17))))
	tensors := slices.Concat(base[:8], u64(uint64(size/36)), u64(0))
	for i := range size / 36 {
		tensors = append(tensors, slices.Concat(word(fmt.Sprintf("blk.%d.w", i)), u32(1), u64(0), u32(0), u64(0))...)
	}
	list = append(list, text{"tensors of nothing", append(tensors, make([]byte, 64)...)})
	return list
}

// matrixTexts are importance matrices of the older form.
func matrixTexts(base []byte, size int) []text {
	u32 := func(x int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(x)) }
	entries := func(name string, f func(i int) []byte) text {
		var b []byte
		n := 0
		for ; len(b) < size; n++ {
			b = append(b, f(n)...)
		}
		return text{name, append(u32(n), b...)}
	}
	entry := func(name string, values int) []byte {
		return slices.Concat(u32(len(name)), []byte(name), u32(1), u32(values), make([]byte, 4*values))
	}
	return []text{
		entries("entries of one value", func(i int) []byte { return entry(fmt.Sprint(i), 1) }), entries("empty entries", func(i int) []byte { return entry(fmt.Sprint(i), 0) }),
		entries("one name again", func(i int) []byte { return entry("w", 1) }), entries("no names", func(i int) []byte { return entry("", 1) }), entries("long names", func(i int) []byte { return entry(strings.Repeat("n", 4000)+fmt.Sprint(i), 1) }),
		{"a count that lies", slices.Concat(u32(1<<30), base[4:])}, {"values that lie", slices.Concat(u32(1), u32(1), []byte("w"), u32(1), u32(1<<30))}, {"a length that lies", slices.Concat(u32(1), u32(1<<30))},
	}
}

// recipeTexts are recipes of one model, a, and of others like it.
func recipeTexts(_ []byte, size int) (list []text) {
	head := func(method string) string { return "merge_method: " + method + "\ndtype: float16\n" }
	add := func(name, s string) { list = append(list, text{name, []byte(s)}) }
	run := "- sources:\n  - {model: a, layer_range: [0, 1]}\n"
	add("slices", head("passthrough")+"slices:\n"+strings.Repeat(run, 1024))
	add("slices of all layers", head("passthrough")+"slices:\n"+strings.Repeat("- sources:\n  - {model: a, layer_range: [0, 65535]}\n", 1024))
	for _, n := range []int{40, 64, 400} {
		for _, spelling := range []string{"./", "b/../", "/", "//"} {
			add(fmt.Sprintf("%d spellings by %s", n, spelling), head("linear")+"models:\n"+listedBy("\n", n, func(i int) string { return "- {model: " + strings.Repeat(spelling, i) + "a, parameters: {weight: 1}}" }))
		}
		add(fmt.Sprintf("%d adapters", n), head("linear")+"models:\n"+listedBy("\n", n, func(i int) string { return fmt.Sprintf("- {model: a+%d, parameters: {weight: 1}}", i) }))
	}
	filters := "[" + listedBy(",", 1000, func(i int) string { return fmt.Sprintf("{filter: zz%d, value: 1}", i) }) + ", {value: 1}]"
	add("filters", head("linear")+"models:\n- {model: a, parameters: {weight: "+filters+"}}\n")
	add("filters and slices", head("passthrough")+"parameters: {scale: "+filters+"}\nslices:\n"+strings.Repeat(run, 1000))
	add("a gradient and slices", head("passthrough")+"parameters: {scale: ["+strings.Repeat("0.5, ", 1000)+"1]}\nslices:\n"+strings.Repeat(run, 1000))
	nest := "1"
	for range 7 {
		nest = "[" + strings.Repeat("{filter: zz, value: 1}, ", 900) + "{value: " + nest + "}]"
	}
	add("nested filters", head("linear")+"models:\n- {model: a, parameters: {weight: "+nest+"}}\n")
	add("parameters of sources", head("passthrough")+"slices:\n"+sized(min(size, 900_000), func(i int) string {
		return "- sources:\n  - {model: a, layer_range: [0, 1], parameters: {scale: [0.1, 0.2, 0.3]}}\n"
	}))
	size = min(size, 1_000_000)
	for name, s := range map[string]string{
		"keys": sized(size, func(i int) string { return fmt.Sprintf("k%d: 1\n", i) }), "one key again": sized(size, func(i int) string { return "k: 1\n" }), "keys in a line": "x: {" + listed(size, func(i int) string { return fmt.Sprintf("k%d: 1", i) }) + "}\n",
		"words in a line": "models: [" + listed(size, func(i int) string { return "a" }) + "]\n", "keys without values": "models: {" + listed(size, func(i int) string { return "a" }) + "}\n", "depth of lists": "models: " + strings.Repeat("[", size), "depth of mappings": "models: " + strings.Repeat("{a: ", size/4),
		"depth of lines": "models:\n" + listedBy("\n", 1200, func(i int) string { return strings.Repeat(" ", i) + "-" }), "dashes": "models:\n" + strings.Repeat("- ", size/2), "questions": strings.Repeat("? ", size/2), "anchors": sized(size, func(i int) string { return fmt.Sprintf("a%d: &a%d [1]\n", i, i) }),
		"aliases": "a: &a [1,1,1,1]\n" + sized(size, func(i int) string { return fmt.Sprintf("b%d: [*a, *a, *a]\n", i) }), "a long word": "models: " + strings.Repeat("x", size), "words": "models: " + strings.Repeat("x ", size/2), "escapes": `models: "` + strings.Repeat(`\x41`, size/4) + `"`,
		"lines of a word": "models: |\n" + strings.Repeat(" x\n", size/3), "folded lines": "models: >\n" + strings.Repeat(" x\n\n", size/4), "comments": strings.Repeat("# c\n", size/4), "comments of items": "models:\n" + strings.Repeat("- # c\n", size/6), "comments below items": "models:\n" + strings.Repeat("- a\n# c\n\n", size/9), "colons": "models: " + strings.Repeat("a:", size/2),
		"tags": "models: " + strings.Repeat("!!float ", size/8), "documents": strings.Repeat("---\n", size/4), "directives": strings.Repeat("%YAML 1.1\n", size/10) + "---\na: 1", "tag directives": sized(size, func(i int) string { return fmt.Sprintf("%%TAG !t%d! tag:x:\n", i) }) + "---\na: 1", "empty lines": strings.Repeat("\n", size), "other line ends": strings.Repeat("a\r", size/2),
	} {
		add(name, head("linear")+s)
		add(name+", before", s+"\n"+head("linear"))
	}
	slices.SortStableFunc(list, func(a, b text) int { return strings.Compare(a.name, b.name) })
	return list
}

// listedBy joins what f returns n times.
func listedBy(by string, n int, f func(i int) string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = f(i)
	}
	return strings.Join(list, by)
}

// patternTexts are configs of adapters with patterns for many modules.
func patternTexts(_ []byte, size int) (list []text) {
	for name, f := range map[string]func(i int) string{
		"names": func(i int) string { return fmt.Sprintf("m.%d.q", i) }, "names from the beginning": func(i int) string { return fmt.Sprintf("^m.%d.q$", i) }, "other names": func(i int) string { return fmt.Sprintf("z%x", i) }, "longer and longer names": func(i int) string { return strings.Repeat("q", i+1) },
		"dots": func(i int) string { return strings.ReplaceAll(fmt.Sprintf("%014b", i), "0", ".") }, "repetitions": func(i int) string { return fmt.Sprintf("a{1000}%d", i) }, "few repetitions": func(i int) string { return fmt.Sprintf("a{90}%d", i) },
		"stars": func(i int) string { return fmt.Sprintf(".*a.*b.*%d", i) }, "choices": func(i int) string { return fmt.Sprintf("(a|b|%d)*q", i) }, "classes": func(i int) string { return fmt.Sprintf(`\\pL+%d\\w*`, i) }, "any case": func(i int) string { return fmt.Sprintf("(?i)q%d", i) }, "nested": func(i int) string { return fmt.Sprintf("(((q*)*)*%d)*", i) },
	} {
		patterns := "{" + listed(size, func(i int) string { return fmt.Sprintf(`"%s":1`, f(i)) }) + "}"
		few := "{" + listed(8000, func(i int) string { return fmt.Sprintf(`"%s":1`, f(i)) }) + "}"
		words := "[" + listed(size, func(i int) string { return `"` + f(i) + `.w"` }) + "]"
		parameters := "[" + listed(size, func(i int) string { return fmt.Sprintf(`"q.w%d"`, i) }) + "]"
		tried := map[string]string{"rank_pattern": patterns, "alpha_pattern of few": few, "target_parameters": words}
		if name == "names" {
			maps.Copy(tried, map[string]string{"target_parameters of one": parameters, "target_modules": words, "modules_to_save": words, "exclude_modules": words, "layers_pattern": words, "layers_to_transform": words})
		}
		for key, value := range tried {
			list = append(list, text{key + ": " + name, []byte(`{"peft_type":"LORA","r":1,"lora_alpha":1,"` + strings.Fields(key)[0] + `":` + value + `}`)})
		}
	}
	slices.SortFunc(list, func(a, b text) int { return strings.Compare(a.name, b.name) })
	return list
}

// adapterFiles are an adapter of so many modules.
func adapterFiles(modules int) map[string][]byte {
	var tensors []testmodel.SafeTensor
	for i := range modules {
		name := fmt.Sprintf("base_model.model.m.%d.q", i)
		if i < 2 {
			name = fmt.Sprintf("base_model.model.model.layers.%d.self_attn.q_proj", i)
		}
		for _, end := range []string{".lora_A.weight", ".lora_B.weight"} {
			tensors = append(tensors, testmodel.SafeTensor{Name: name + end, DType: tensorfs.F32, Shape: []int64{1, 1}})
		}
	}
	config := `{"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q"],"rank_pattern":{"q":1},"alpha_pattern":{"q":1},"target_parameters":["z.w"],"modules_to_save":["x"],"exclude_modules":["y"],"layers_pattern":"layers","layers_to_transform":[0],"fan_in_fan_out":false,"base_model_name_or_path":"x","use_rslora":false,"init_lora_weights":true,"bias":"none","megatron_config":null,"loftq_config":{},"corda_config":null,"lora_bias":false,"task_type":"CAUSAL_LM"}`
	return map[string][]byte{"adapter_config.json": []byte(config), "adapter_model.safetensors": testmodel.Safetensors(tensors, nil)}
}

// quantConfigs are what configs say of models that other programs quantised.
var quantConfigs = map[string]string{
	"gptq":               `"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8,"desc_act":false,"sym":true,"checkpoint_format":"gptq","dynamic":{"+:.*q":{"bits":8}},"modules_in_block_to_quantize":[["q"]],"version":"x"}`,
	"awq":                `"quantization_config":{"quant_method":"awq","bits":4,"group_size":8,"zero_point":true,"version":"gemm","modules_to_not_convert":["x"]}`,
	"compressed-tensors": `"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"group_size":8,"strategy":"group","symmetric":true,"type":"int"}}},"ignore":["lm_head"],"kv_cache_scheme":null,"sparsity_config":{"format":"dense"}}`,
	"fp8":                `"quantization_config":{"quant_method":"fp8","weight_block_size":[8,8],"modules_to_not_convert":["x"],"activation_scheme":"dynamic"}`,
	"modelopt":           `"quantization_config":{"quant_method":"modelopt","quant_algo":"FP8","ignore":["x"],"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8}}},"exclude_modules":["y"]}`,
	"bitsandbytes":       `"quantization_config":{"quant_method":"bitsandbytes","load_in_8bit":true,"llm_int8_skip_modules":["x"],"llm_int8_threshold":6.0}`,
	"mlx":                `"quantization":{"bits":4,"group_size":32,"mode":"affine","model.layers.0.self_attn.q_proj":{"bits":8,"group_size":32},"model.layers.1.self_attn.q_proj":false}`,
}

// manyModules are the weights of a model that was quantised so.
func manyModules(method string) map[string][]byte {
	const n = 8
	parts := map[string][]testmodel.SafeTensor{
		"gptq":               {{Name: ".qweight", DType: tensorfs.I32, Shape: []int64{1, n}}, {Name: ".qzeros", DType: tensorfs.I32, Shape: []int64{1, 1}}, {Name: ".scales", DType: tensorfs.F16, Shape: []int64{1, n}}},
		"awq":                {{Name: ".qweight", DType: tensorfs.I32, Shape: []int64{n, 1}}, {Name: ".qzeros", DType: tensorfs.I32, Shape: []int64{1, 1}}, {Name: ".scales", DType: tensorfs.F16, Shape: []int64{1, n}}},
		"compressed-tensors": {{Name: ".weight_packed", DType: tensorfs.I32, Shape: []int64{n, 1}}, {Name: ".weight_scale", DType: tensorfs.F16, Shape: []int64{n, 1}}, {Name: ".weight_shape", DType: tensorfs.I64, Shape: []int64{2}, Data: []byte{n, 0, 0, 0, 0, 0, 0, 0, n, 0, 0, 0, 0, 0, 0, 0}}},
		"fp8":                {{Name: ".weight", DType: tensorfs.F8_E4M3, Shape: []int64{n, n}}, {Name: ".weight_scale_inv", DType: tensorfs.F32, Shape: []int64{1, 1}}},
		"modelopt":           {{Name: ".weight", DType: tensorfs.F8_E4M3, Shape: []int64{n, n}}, {Name: ".weight_scale", DType: tensorfs.F32, Shape: []int64{}}},
		"bitsandbytes":       {{Name: ".weight", DType: tensorfs.I8, Shape: []int64{n, n}}, {Name: ".SCB", DType: tensorfs.F32, Shape: []int64{n}}},
		"mlx":                {{Name: ".weight", DType: tensorfs.U32, Shape: []int64{n, 4}}, {Name: ".scales", DType: tensorfs.F16, Shape: []int64{n, 1}}, {Name: ".biases", DType: tensorfs.F16, Shape: []int64{n, 1}}},
	}[method]
	var tensors []testmodel.SafeTensor
	for layer := range 40 {
		for _, module := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"} {
			for _, p := range parts {
				p.Name = fmt.Sprintf("model.layers.%d.%s%s", layer, module, p.Name)
				tensors = append(tensors, p)
			}
		}
	}
	return map[string][]byte{"model.safetensors": testmodel.Safetensors(tensors, [][2]string{{"format", "pt"}})}
}
