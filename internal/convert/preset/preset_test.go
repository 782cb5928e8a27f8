package preset

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// table returns the rows of a file whose columns tabs separate, the first one apart.
func table(t *testing.T, name string) (head []string, rows [][]string) {
	t.Helper()
	b, err := os.ReadFile("../../../testdata/quantise/presets/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows[0], rows[1:]
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// shapes of models whose types llama_quant_compute_types gave, by models.
func goldenModels(t *testing.T) (models map[string]Model, tensors map[string][]Tensor, want map[string]map[string][]string) {
	t.Helper()
	models, tensors, want = map[string]Model{}, map[string][]Tensor{}, map[string]map[string][]string{}
	_, rows := table(t, "types-models.tsv")
	for _, r := range rows {
		models[r[0]] = Model{r[1], number(t, r[4]), number(t, r[7]), number(t, r[5]), number(t, r[6])}
		want[r[0]] = map[string][]string{}
	}
	head, rows := table(t, "types.tsv")
	for _, r := range rows {
		var shape []int64
		for n := range strings.SplitSeq(r[2], "x") {
			shape = append(shape, number(t, n))
		}
		slices.Reverse(shape)
		from := map[string]tensorfs.DType{"bf16": tensorfs.BF16, "f32": tensorfs.F32, "f16": tensorfs.F16}[r[3]]
		if from == tensorfs.Unknown {
			t.Fatalf("type %s", r[3])
		}
		tensors[r[0]] = append(tensors[r[0]], Tensor{Name: r[1], Shape: shape, Type: from})
		for i, preset := range head[4:] {
			want[r[0]][preset] = append(want[r[0]][preset], r[4+i])
		}
	}
	return models, tensors, want
}

// TestTypes holds presets to what llama.cpp answers for the shapes of real models.
func TestTypes(t *testing.T) {
	models, tensors, want := goldenModels(t)
	n := 0
	for name, m := range models {
		for preset, types := range want[name] {
			p, err := Named(preset)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range (Options{Preset: p}).Types(m, tensors[name]) {
				if n++; !strings.EqualFold(got.String(), types[i]) {
					t.Errorf("%s of %s: %s %v is %s, want %s", preset, name, tensors[name][i].Name, tensors[name][i].Shape, got, types[i])
				}
			}
		}
	}
	if n < 30000 {
		t.Errorf("only %d types were compared", n)
	}
}

// TestOptions holds what is asked for beside a preset.
func TestOptions(t *testing.T) {
	models, tensors, _ := goldenModels(t)
	m, list := models["llama-3.2-1b"], tensors["llama-3.2-1b"]
	q4, err := Named("q4_k_m")
	if err != nil {
		t.Fatal(err)
	}
	count := func(o Options) map[tensorfs.DType]int {
		o.Preset = q4
		n := map[tensorfs.DType]int{}
		for _, to := range o.Types(m, list) {
			n[to]++
		}
		return n
	}
	if n := count(Options{Pure: true}); n[tensorfs.Q6_K] != 0 || n[tensorfs.Q4_K] != 7*16+1 {
		t.Errorf("pure: %v", n)
	}
	// A tensor that a pattern selects does not count among the tensors of its kind. Of 16 layers, 0, 1, 4, 7, 10, 13,
	// 14 and 15 have more bits; if a pattern selects the first four, the remaining twelve are counted from 0.
	rule := Rule{regexp.MustCompile(`blk\.[0-3]\.ffn_down`), tensorfs.Q5_K}
	var got []tensorfs.DType
	o := Options{Preset: q4, Rules: []Rule{rule, {regexp.MustCompile("ffn_down"), tensorfs.Unknown}}[:1]}
	for i, to := range o.Types(m, list) {
		if strings.HasSuffix(list[i].Name, "ffn_down.weight") && layerOf(list[i].Name) < 8 {
			got = append(got, to)
		}
	}
	want := []tensorfs.DType{tensorfs.Q5_K, tensorfs.Q5_K, tensorfs.Q5_K, tensorfs.Q5_K, tensorfs.Q6_K, tensorfs.Q6_K, tensorfs.Q4_K, tensorfs.Q4_K}
	if !slices.Equal(got, want) {
		t.Errorf("with a pattern: %v", got)
	}
	for _, c := range []struct {
		preset string
		layer  int
		want   tensorfs.DType
	}{{"Q4_0", 0, tensorfs.Q4_1}, {"Q4_0", 2, tensorfs.Q4_0}, {"Q5_0", 1, tensorfs.Q5_1}, {"IQ4_XS", 0, tensorfs.IQ4_XS}, {"IQ3_XXS", 0, tensorfs.IQ3_XXS}, {"IQ2_XS", 1, tensorfs.Q2_K}, {"IQ2_XS", 2, tensorfs.IQ2_XS}} {
		p, _ := Named(c.preset)
		for i, to := range (Options{Preset: p, Importance: true}).Types(m, list) {
			if list[i].Name == "blk."+strconv.Itoa(c.layer)+".ffn_down.weight" && to != c.want {
				t.Errorf("%s with an importance matrix: layer %d has %s", c.preset, c.layer, to)
			}
		}
	}
}

func TestNamed(t *testing.T) {
	for name, want := range map[string]string{"q4_k_m": "Q4_K_M", "Q4_K": "Q4_K_M", "mxfp4_moe": "MXFP4_MOE", "bf16": "BF16"} {
		if p, err := Named(name); err != nil || p.Name != want {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	for name, want := range map[string]string{"q1_0": "Q1_0 is not made here; llama-quantize makes it", "q4_k_n": `no preset "q4_k_n"; did you mean Q4_K_`, "small": `no preset "small"; these are made here: IQ1_S, `} {
		if _, err := Named(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLarge holds which models llama.cpp calls a 70B.
func TestLarge(t *testing.T) {
	for _, c := range []struct {
		m    Model
		want bool
	}{
		{Model{Architecture: "llama", Layers: 80, Heads: 64, Pairs: 8}, true}, {Model{Architecture: "llama", Layers: 80, Heads: 64, Pairs: 64}, false},
		{Model{Architecture: "llama", Layers: 32, Heads: 32, Pairs: 8}, false}, {Model{Architecture: "qwen2", Layers: 80, Heads: 64, Pairs: 64}, true},
		{Model{Architecture: "deci", Layers: 80, Heads: 64, Pairs: 64}, true}, {Model{Architecture: "jais2", Layers: 68}, true},
		{Model{Architecture: "qwen3", Layers: 80, Heads: 64, Pairs: 8}, false},
	} {
		if got := c.m.isLarge(); got != c.want {
			t.Errorf("%+v: %v", c.m, got)
		}
	}
}
