package hf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
	"github.com/tensorfs/tensorfs/views"
)

// sameTensors holds that two models have the same tensors.
func sameTensors(t *testing.T, got, want *tensorfs.Model) {
	t.Helper()
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for i := range want.Tensors {
		w := &want.Tensors[i]
		x := got.TensorBySource(w.Source)
		if x == nil || x.DType != w.DType || !slices.Equal(x.Shape, w.Shape) || !bytes.Equal(testwhole.Read(t, x.Data), testwhole.Read(t, w.Data)) {
			t.Errorf("%s is %+v, want %+v", w.Source, x, w)
		}
	}
}

// fields are the fields of a config.json.
func fields(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDequantise holds that hf/ and mlx/ of every packing have plain numbers, each rounded once to
// the model's type. gguf/ of these equals gguf/ of the packed model, unless a block type holds the
// packed numbers exactly.
func TestDequantise(t *testing.T) {
	for _, name := range testwhole.PackedCases(t) {
		for torch, to := range map[string]tensorfs.DType{"bfloat16": tensorfs.BF16, "float16": tensorfs.F16, "float32": tensorfs.F32} {
			if torch != "bfloat16" && !strings.Contains(name, "real") {
				continue
			}
			t.Run(name+" "+torch, func(t *testing.T) {
				more := map[string]any{"torch_dtype": torch, "compression_config": 1}
				files := testwhole.Packed(t, name, more)
				files["quantize_config.json"], files["hf_quant_config.json"] = []byte("{}"), []byte("{}")
				m := testwhole.OpenFiles(t, files)
				want := testwhole.OpenFiles(t, testwhole.Unpacked(t, m, files, to))
				stored := fields(t, files["config.json"])
				delete(stored, "quantization_config")
				delete(stored, "compression_config")
				opts := convert.Options{Dequantise: true}
				for kind, make := range map[string]func(*tensorfs.Model, convert.Options) *convert.Files{"hf": hf.HF, "mlx": hf.MLX} {
					f := make(m, opts)
					got := contents(t, f)
					opened := testwhole.OpenFiles(t, got)
					sameTensors(t, opened, want)
					if c := fields(t, got["config.json"]); kind == "hf" && !jsonEqual(c, stored) || c["quantization_config"] != nil {
						t.Errorf("%s: config.json %v, want %v", kind, c, stored)
					}
					names := slices.Sorted(maps.Keys(got))
					if want := []string{"config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json"}; !slices.Equal(names, want) {
						t.Errorf("%s: %v", kind, names)
					}
					said := strings.Join(f.Notes, "; ")
					lost := !to32(t, m, want)
					if !strings.Contains(said, "plain numbers") || f.Exact && lost || f.Exact == strings.Contains(said, "10 tensors are rounded to "+to.String()) {
						t.Errorf("%s: exact is %v, %q", kind, f.Exact, said)
					}
					if len(opened.Warnings) > 0 {
						t.Error(opened.Warnings)
					}
				}
			})
		}
	}
}

func jsonEqual(a, b map[string]any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// to32 reports whether the modules of a plain model have all numbers of the packed one.
func to32(t *testing.T, packed, plain *tensorfs.Model) bool {
	t.Helper()
	for i := range packed.Tensors {
		x := &packed.Tensors[i]
		if x.Quant == nil {
			continue
		}
		a, err1 := views.Encode(x, tensorfs.F32)
		b, err2 := views.Encode(plain.Tensor(x.Weight()), tensorfs.F32)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		return bytes.Equal(testwhole.Read(t, a), testwhole.Read(t, b))
	}
	return false
}

// TestRequantisePacked: --mlx-bits with --requantise is what it is of the plain directory.
func TestRequantisePacked(t *testing.T) {
	for _, name := range []string{"gptq-real-4bit-act-asym", "ct-real-fp8-block", "ct-real-mxfp4", "awq-real-gemm"} {
		o, err := convert.MLXAsked{Bits: 4, Group: 32}.Options()
		if err != nil {
			t.Fatal(err)
		}
		o.Requantise = true
		files := testwhole.Packed(t, name, nil)
		m := testwhole.OpenFiles(t, files)
		f := hf.MLX(m, convert.Options{MLX: o})
		want := hf.MLX(testwhole.OpenFiles(t, testwhole.Unpacked(t, m, files, tensorfs.BF16)), convert.Options{MLX: o})
		a, b := testwhole.OpenFiles(t, contents(t, f)), testwhole.OpenFiles(t, contents(t, want))
		sameTensors(t, a, b)
		if q := a.TensorBySource("model.layers.0.self_attn.q_proj.weight").Quant; q == nil || f.BitsPerWeight != want.BitsPerWeight {
			t.Errorf("%s: %v, %v bits", name, q, f.BitsPerWeight)
		}
	}
}

// TestDequantiseNothing holds the reason for a model that is not packed, and that one of an unknown
// packing is absent.
func TestDequantiseNothing(t *testing.T) {
	opts := convert.Options{Dequantise: true}
	for path, want := range map[string]string{"whole-gguf/llama3": "not packed", "gguf/llama-xs.f16.gguf": "hf/ of others", "models-mlx/qwen3-mixed": "hf/ of others"} {
		m := testwhole.Open(t, testwhole.Data(t)+"/"+path)
		if why := hf.KeptPacked(m, opts); !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", path, why, want)
		}
		f := hf.HF(m, opts)
		if f.Reason != "" || !strings.Contains(strings.Join(f.Notes, ""), want) || hf.KeptPacked(m, convert.Options{}) != "" {
			t.Errorf("%s: %s %q", path, f.Reason, f.Notes)
		}
		other := hf.HF(m, convert.Options{})
		if !maps.EqualFunc(contents(t, f), contents(t, other), bytes.Equal) {
			t.Errorf("%s: other files", path)
		}
	}
	files := testwhole.Packed(t, "gptq-4bit-plain-v1", map[string]any{"quantization_config": map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "marlin"}})
	m := testwhole.OpenFiles(t, files)
	if f := hf.HF(m, opts); !strings.Contains(f.Reason, "marlin") || hf.KeptPacked(m, opts) != "" {
		t.Errorf("%q", f.Reason)
	}
	if f := hf.HF(m, convert.Options{}); f.Reason != "" {
		t.Error(f.Reason)
	}
	if f := hf.MLX(m, convert.Options{}); !strings.Contains(f.Reason, `does not load: "gptq"`) || !strings.Contains(f.Reason, "marlin") {
		t.Errorf("%q", f.Reason)
	}
}

// TestDequantiseActivations: what is for activations is no tensor of the directory.
func TestDequantiseActivations(t *testing.T) {
	files := testwhole.Packed(t, "ct-real-fp8-channel", nil)
	m := testwhole.OpenFiles(t, files)
	var list []testmodel.SafeTensor
	for i := range m.Tensors {
		x := &m.Tensors[i]
		list = append(list, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: testwhole.Read(t, x.Data)})
	}
	for _, name := range []string{"self_attn.q_proj.input_scale", "self_attn.k_scale", "self_attn.v_proj.output_scale"} {
		list = append(list, testmodel.SafeTensor{Name: "model.layers.0." + name, DType: tensorfs.F32, Shape: []int64{1}})
	}
	more := maps.Clone(files)
	more["model.safetensors"] = testmodel.Safetensors(list, nil)
	opts := convert.Options{Dequantise: true}
	n := testwhole.OpenFiles(t, more)
	got := testwhole.OpenFiles(t, contents(t, hf.HF(n, opts)))
	sameTensors(t, got, testwhole.OpenFiles(t, contents(t, hf.HF(m, opts))))
	if f := convert.GGUF(n, convert.Options{}); f.Reason != "" || f.Tensors != convert.GGUF(m, convert.Options{}).Tensors {
		t.Errorf("gguf/: %q, %d tensors", f.Reason, f.Tensors)
	}
}

// TestMLXOfPacked: mlx/ of what mlx-lm does not load as it is packed has modules of MLX's with
// all of the numbers, and what MLX has no module of is as with Dequantise.
func TestMLXOfPacked(t *testing.T) {
	modules := map[string]string{ // "" without modules
		"ct-real-w2-asym": "affine 2 32", "ct-real-w3-dense": "affine 3 32", "ct-real-int8-channel": "affine 8 128", "gptq-real-8bit-act": "affine 8 128",
		"ct-mxfp4": "mxfp4 4 32", "ct-real-mxfp4": "mxfp4 4 32", "ar-real-mxfp4": "mxfp4 4 32",
		"ar-real-gptq-2bit-asym": "affine 2 32", "ar-real-own-2bit-asym": "affine 2 32", "ar-real-gptq-3bit-asym": "affine 3 32", "ar-real-own-3bit-asym": "affine 3 32",
	}
	for _, name := range testwhole.PackedCases(t) {
		if strings.HasPrefix(name, "awq") { // mlx-lm loads it
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := testwhole.OpenFiles(t, testwhole.Packed(t, name, nil))
			f := hf.MLX(m, convert.Options{})
			got := testwhole.OpenFiles(t, contents(t, f))
			plain := testwhole.OpenFiles(t, contents(t, hf.MLX(m, convert.Options{Dequantise: true})))
			kept := 0
			for i := range plain.Tensors {
				w := &plain.Tensors[i]
				x := got.TensorBySource(w.Source)
				if x == nil {
					t.Fatalf("no %s", w.Source)
				}
				if x.Quant == nil {
					if x.DType != w.DType || !bytes.Equal(testwhole.Read(t, x.Data), testwhole.Read(t, w.Data)) {
						t.Errorf("%s is %s, or has other numbers", x.Source, x.DType)
					}
					continue
				}
				kept++
				packed := &m.Tensors[slices.IndexFunc(m.Tensors, func(p tensorfs.Tensor) bool { return p.Weight() == x.Name })]
				a, err1 := views.Encode(x, tensorfs.F32)
				b, err2 := views.Encode(packed, tensorfs.F32)
				if err1 != nil || err2 != nil || !bytes.Equal(testwhole.Read(t, a), testwhole.Read(t, b)) {
					t.Errorf("%s has other numbers: %v, %v", x.Source, err1, err2)
				}
				if q := x.Quant; fmt.Sprint(q.Mode, " ", q.Bits, " ", q.GroupSize) != modules[name] {
					t.Errorf("%s is %s of %d bits in groups of %d", x.Source, q.Mode, q.Bits, q.GroupSize)
				}
			}
			said := strings.Join(f.Notes, "; ")
			if want := modules[name] != ""; want != (kept == 10) || want != f.Exact && kept > 0 || want != strings.Contains(said, "10 modules are repacked as MLX's") || want == (kept == 0) || !strings.Contains(said, "cannot load the stored packing") {
				t.Errorf("%d modules, exact is %v, %q", kept, f.Exact, said)
			}
			if c := fields(t, contents(t, f)["config.json"]); (c["quantization"] != nil) != (kept > 0) {
				t.Errorf("config.json says %v", c["quantization"])
			}
		})
	}
}

// TestPackedExperts: the experts of a model that GPTQ packed are stacks of MLX's modules in mlx/, and of Q4_1 in gguf/,
// with the numbers of the modules.
func TestPackedExperts(t *testing.T) {
	llama := testwhole.OpenFiles(t, testwhole.Packed(t, "gptq-4bit-plain-v1", nil)) // for codes
	codes := testwhole.Read(t, llama.TensorBySource("model.layers.0.self_attn.q_proj.qweight").Data)
	source := testwhole.Open(t, data+"whole-gguf/qwen3moe")
	files := map[string][]byte{}
	for _, s := range source.Sources {
		if !strings.Contains(s.Name, "model.safetensors") && !strings.HasPrefix(s.Name, "model-") {
			d, err := source.File(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			files[s.Name] = testwhole.Read(t, d)
		}
	}
	config := fields(t, files["config.json"])
	config["quantization_config"] = map[string]any{"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq"}
	var list []testmodel.SafeTensor
	modules := 0
	for i := range source.Tensors {
		x := &source.Tensors[i]
		stem, ok := strings.CutSuffix(x.Source, "_proj.weight")
		if !ok {
			list = append(list, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: x.Shape, Data: testwhole.Read(t, x.Data)})
			continue
		}
		modules++
		rows, cols := x.Shape[0], x.Shape[1]
		of := func(n int64, b ...byte) []byte { return bytes.Repeat(b, int(n)/len(b)) }
		list = append(list,
			testmodel.SafeTensor{Name: stem + "_proj.qweight", DType: tensorfs.I32, Shape: []int64{cols / 8, rows}, Data: slices.Concat(codes[modules:], of(rows*cols, codes[:rows]...))[:rows*cols/2]},
			testmodel.SafeTensor{Name: stem + "_proj.qzeros", DType: tensorfs.I32, Shape: []int64{cols / 32, rows / 8}, Data: of(cols/32*rows/2, 0x77)},
			testmodel.SafeTensor{Name: stem + "_proj.scales", DType: tensorfs.F16, Shape: []int64{cols / 32, rows}, Data: of(cols/32*rows*2, byte(modules), 0x24, 0xff, 0x21)})
	}
	maps.Copy(files, testmodel.HF(config, list, 1, nil))
	m := testwhole.OpenFiles(t, files)
	f, gguf := hf.MLX(m, convert.Options{}), convert.GGUF(m, convert.Options{})
	if said := strings.Join(f.Notes, "; "); !strings.Contains(said, fmt.Sprintf("%d modules are repacked as MLX's with equal numbers", modules)) || !f.Exact || gguf.Reason != "" || !gguf.Exact {
		t.Errorf("%q, exact %v; gguf/: %q, exact %v", said, f.Exact, gguf.Reason, gguf.Exact)
	}
	a, b := testwhole.OpenFiles(t, contents(t, f)), testwhole.OpenGGUF(t, testwhole.Read(t, gguf.List[0].Data))
	f32 := func(x *tensorfs.Tensor) []byte {
		d, err := views.Encode(x, tensorfs.F32)
		if err != nil {
			t.Fatal(err)
		}
		return testwhole.Read(t, d)
	}
	for _, part := range []string{"gate", "up", "down"} {
		var want []byte
		for e := range 4 {
			want = append(want, f32(m.TensorBySource(fmt.Sprintf("model.layers.1.mlp.experts.%d.%s_proj.qweight", e, part)))...)
		}
		x, y := a.TensorBySource("model.layers.1.mlp.switch_mlp."+part+"_proj.weight"), b.TensorBySource("blk.1.ffn_"+part+"_exps.weight")
		if x == nil || x.Quant == nil || !bytes.Equal(f32(x), want) {
			t.Errorf("%s in mlx/: %+v", part, x)
		}
		if y == nil || y.DType != tensorfs.Q4_1 || !bytes.Equal(f32(y), want) {
			t.Errorf("%s in gguf/: %+v", part, y)
		}
	}
	if q := b.TensorBySource("blk.0.attn_q.weight"); q.DType != tensorfs.Q4_1 {
		t.Errorf("q is %s", q.DType)
	}
}
