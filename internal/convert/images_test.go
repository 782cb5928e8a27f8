package convert_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// imageData has models of ComfyUI-GGUF's architectures, and what its programs write of them.
const imageData = "../../testdata/images"

// flattened are tensors whose leading dimension of 1 the tool's quantiser drops, for which loaders
// refuse files.
var flattened = []string{"img_emb.emb_pos", "pos_embedder.seq", "x_pad_token", "cap_pad_token"}

// TestImages compares files of image models with ComfyUI-GGUF's: every key, and the type, shape
// and bytes of every tensor, in order.
func TestImages(t *testing.T) {
	tables, err := filepath.Glob(filepath.Join(imageData, "*.tensors.tsv"))
	if err != nil || len(tables) < 20 {
		t.Fatal(len(tables), err)
	}
	for _, table := range tables {
		name := strings.TrimSuffix(filepath.Base(table), ".tensors.tsv")
		t.Run(name, func(t *testing.T) {
			model, asked, _ := strings.Cut(name, ".")
			path := filepath.Join(imageData, model)
			if _, err := os.Stat(path + "/transformer"); err == nil {
				path += "/transformer"
			}
			m, err := formats.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			opts := convert.Options{}
			if asked != "" {
				p, err := preset.Named(asked)
				if err != nil {
					t.Fatal(err)
				}
				opts.Quantise = &preset.Options{Preset: p}
			}
			f := convert.GGUF(m, opts)
			made, err := gguf.Parse(bytes.NewReader(one(t, f)))
			if err != nil {
				t.Fatal(err)
			}
			compareKeys(t, made, filepath.Join(imageData, name+".meta.json"))
			compareTensors(t, made, table, asked != "")
		})
	}
}

func compareKeys(t *testing.T, made *gguf.File, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Type  string
		Value any
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, e := range made.Metadata {
		w, ok := want[e.Key]
		var got any = e.Value
		kind := map[string]string{"string": "STRING", "uint32": "UINT32"}[fmt.Sprintf("%T", got)]
		if a, isList := got.(tensorfs.Array); isList {
			var list []any
			for v := range a.Values() {
				kind = "array:" + strings.ToUpper(fmt.Sprintf("%T", v))
				list = append(list, float64(v.(int32)))
			}
			got = list
		} else if n, isNumber := got.(uint32); isNumber {
			got = float64(n)
		}
		if !ok || kind != w.Type || !reflect.DeepEqual(got, w.Value) {
			t.Errorf("%s: %s %v, want %s %v", e.Key, kind, got, w.Type, w.Value)
		}
		delete(want, e.Key)
	}
	for key := range want {
		t.Errorf("the key %s is missing", key)
	}
}

func compareTensors(t *testing.T, made *gguf.File, table string, quantised bool) {
	t.Helper()
	file, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Scan()
	n := 0
	for ; lines.Scan(); n++ {
		if n >= len(made.Tensors) {
			t.Fatalf("there are only %d tensors", n)
		}
		got := &made.Tensors[n]
		shape := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(got.Shape), "[]")), "x")
		line := fmt.Sprintf("%s\t%s\t%s\t%x", got.Source, got.DType, shape, sha256.Sum256(testwhole.Read(t, got.Data)))
		if quantised && slices.Contains(flattened, got.Source) {
			line = strings.Replace(line, "\t1x", "\t", 1)
		}
		if line != lines.Text() {
			t.Errorf("got  %s\nwant %s", line, lines.Text())
		}
	}
	if n != len(made.Tensors) {
		t.Errorf("%d tensors, want %d", len(made.Tensors), n)
	}
}

// TestImageScales holds that weights with scales beside them are refused, by all names of scales.
func TestImageScales(t *testing.T) {
	for name, s := range map[string]testmodel.SafeTensor{
		"double_blocks.0.img_attn.proj.scale_weight": {DType: tensorfs.F32, Data: make([]byte, 4)},
		"double_blocks.0.img_attn.proj.weight_scale": {DType: tensorfs.F32, Data: make([]byte, 4)},
		"double_blocks.0.img_attn.proj.comfy_quant":  {DType: tensorfs.U8, Shape: []int64{2}, Data: []byte("{}")},
		"scaled_fp8": {DType: tensorfs.F8_E4M3, Shape: []int64{2}, Data: make([]byte, 2)},
	} {
		s.Name = name
		weight := testmodel.SafeTensor{Name: "double_blocks.0.img_attn.proj.weight", DType: tensorfs.F8_E4M3, Shape: []int64{2, 4}, Data: make([]byte, 8)}
		path := filepath.Join(t.TempDir(), "flux.safetensors")
		if err := os.WriteFile(path, testmodel.Safetensors([]testmodel.SafeTensor{weight, s}, nil), 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := formats.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if f := convert.GGUF(m, convert.Options{}); !strings.Contains(f.Reason, name) || !strings.HasSuffix(f.Reason, "name the release of the model in BF16 or F16") {
			t.Errorf("with %s: %q", name, f.Reason)
		}
	}
}
