package hf_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	hfmodel "github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// ropeRead is what a program reads about rotary embeddings.
type ropeRead struct {
	Kind                string
	Factor, Theta, Part float64
}

// readNew reads a config.json as transformers 5 does, with the defaults of Llama.
func readNew(config map[string]any) ropeRead {
	rope, _ := config["rope_scaling"].(map[string]any)
	if len(rope) == 0 {
		rope, _ = config["rope_parameters"].(map[string]any)
	}
	r := ropeRead{"none", 1, 10000, 1}
	for _, o := range []map[string]any{config, rope} {
		for name, to := range map[string]*float64{"rope_theta": &r.Theta, "partial_rotary_factor": &r.Part} {
			if x, ok := o[name].(float64); ok {
				*to = x
			}
		}
	}
	for _, name := range []string{"type", "rope_type"} {
		if kind, ok := rope[name].(string); ok {
			r.Kind = strings.Replace(kind, "default", "none", 1)
		}
	}
	if x, ok := rope["factor"].(float64); ok {
		r.Factor = x
	}
	return r
}

// readOld reads a config.json as programs do that know nothing of rope_parameters, and of
// values in rope_scaling that are not about scaling.
func readOld(config map[string]any) ropeRead {
	old := map[string]any{}
	for name, v := range config {
		if name != "rope_parameters" {
			old[name] = v
		}
	}
	if scaling, ok := config["rope_scaling"].(map[string]any); ok {
		plain := map[string]any{}
		for name, v := range scaling {
			if name != "rope_theta" && name != "partial_rotary_factor" {
				plain[name] = v
			}
		}
		old["rope_scaling"] = plain
	}
	return readNew(old)
}

// TestSpellings holds which of two spellings in config.json counts: the same one in
// tensorfs's config.json, gguf/, hf/ and mlx/.
func TestSpellings(t *testing.T) {
	const absent = ""
	stored := onDisk(t, data+"whole-gguf/llama3")
	base := readJSONOf(t, stored["config.json"])
	objects := []string{absent, `null`, `{}`, `{"rope_type":"default","rope_theta":3e5}`, `{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":512}`,
		`{"type":"linear","factor":2.0,"rope_theta":2e5}`, `{"rope_type":"linear","factor":3.0}`, `{"rope_type":"default","rope_theta":3e5,"partial_rotary_factor":0.5}`}
	n := 0
	for _, scaling := range objects {
		for _, parameters := range objects {
			for _, theta := range []string{absent, "7e5"} {
				for _, part := range []string{absent, "1.0", "0.25"} {
					for _, types := range [][2]string{{absent, `"bfloat16"`}, {`"float16"`, `"bfloat16"`}, {`"bfloat16"`, absent}} {
						if n++; types[0] != types[1] && n%3 != 0 && theta == absent { // types and embeddings do not depend on each other
							continue
						}
						config := map[string]any{}
						for name, v := range base {
							config[name] = v
						}
						for name, text := range map[string]string{"rope_scaling": scaling, "rope_parameters": parameters, "rope_theta": theta, "partial_rotary_factor": part, "dtype": types[0], "torch_dtype": types[1]} {
							delete(config, name)
							if text != absent {
								config[name] = json.RawMessage(text)
							}
						}
						checkSpellings(t, stored, config)
					}
				}
			}
		}
	}
}

func readJSONOf(t *testing.T, text []byte) (o map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func checkSpellings(t *testing.T, stored map[string][]byte, config map[string]any) {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"config.json": text, "model.safetensors": stored["model.safetensors"]}
	m, err := hfmodel.OpenFS(memory.New(files), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	want := readNew(readJSONOf(t, text))
	where := fmt.Sprint(config["rope_scaling"], config["rope_parameters"], config["rope_theta"], config["partial_rotary_factor"])
	if raw, ok := config["rope_scaling"].(json.RawMessage); ok {
		where = string(raw) + " " + where
	}
	got := ropeRead{Kind: fieldOf(m, "rope_scaling_type").(string)}
	got.Factor, got.Theta = fieldOf(m, "rope_scaling_factor").(float64), fieldOf(m, "rope_theta").(float64)
	got.Part = float64(fieldOf(m, "rope_dim").(int64)) / float64(fieldOf(m, "head_dim").(int64))
	if got != want {
		t.Errorf("%s: config.json is %v, want %v", where, got, want)
	}
	made := convert.GGUF(m, convert.Options{})
	switch {
	case want.Part != 1:
		if !strings.Contains(made.Reason, "partial_rotary_factor") {
			t.Errorf("%s: gguf/ is made, or not for %q", where, made.Reason)
		}
	case made.Reason != "":
		t.Errorf("%s: no gguf/: %s", where, made.Reason)
	default:
		g, err := gguf.OpenFS(memory.New(contents(t, made)), made.List[0].Path)
		if err != nil {
			t.Fatal(err)
		}
		got := ropeRead{Kind: fieldOf(g, "rope_scaling_type").(string), Part: 1}
		got.Factor, got.Theta = fieldOf(g, "rope_scaling_factor").(float64), fieldOf(g, "rope_theta").(float64)
		if got != want {
			t.Errorf("%s: gguf/ is %v, want %v", where, got, want)
		}
		g.Close()
	}
	dtype, _ := config["dtype"].(json.RawMessage)
	if dtype == nil {
		dtype, _ = config["torch_dtype"].(json.RawMessage)
	}
	for dir, make := range map[string]func(*tensorfs.Model, convert.Options) *convert.Files{"hf": hf.HF, "mlx": hf.MLX} {
		f := make(m, convert.Options{})
		if f.Reason != "" {
			t.Fatalf("%s: no %s/: %s", where, dir, f.Reason)
		}
		for _, x := range f.List {
			if x.Path != "config.json" {
				continue
			}
			text := testwhole.Read(t, x.Data)
			given := readJSONOf(t, text)
			if got := readNew(given); got != want {
				t.Errorf("%s: transformers 5 reads %v in %s/, want %v: %s", where, got, dir, want, text)
			}
			if dir == "mlx" {
				if got := readOld(given); got != want {
					t.Errorf("%s: older names are %v in %s/, want %v: %s", where, got, dir, want, text)
				}
				if got := given["torch_dtype"]; fmt.Sprintf("%q", got) != string(dtype) {
					t.Errorf("torch_dtype is %v, and dtype %s", got, dtype)
				}
				delete(given, "rope_scaling")
				if parameters, _ := given["rope_parameters"].(map[string]any); len(parameters) > 0 {
					if got := readNew(given); got != want {
						t.Errorf("%s: rope_parameters is %v in %s/, want %v: %s", where, got, dir, want, text)
					}
				}
			}
		}
	}
}

// fieldOf returns a field of tensorfs's config.json, nil without it.
func fieldOf(m *tensorfs.Model, name string) any {
	for _, f := range m.Config {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}
