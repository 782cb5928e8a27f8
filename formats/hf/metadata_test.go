package hf_test

import (
	"reflect"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestMetadata compares every entry as text and as JSON.
func TestMetadata(t *testing.T) {
	one := []testmodel.SafeTensor{st("a", tensorfs.F16, 2)}
	two := []testmodel.SafeTensor{st("b", tensorfs.F16, 2)}
	m := open(t, writeDir(t, map[string][]byte{
		"config.json": []byte(`{
			"model_type": "llama", "dup": 1, "list": ["a\nb", 1, [2, {"k" : null}], null, true], "empty": [],
			"object": {"b" : 1, "a" : [1.0, "<&>"]}, "null": null, "yes": true, "eps": 1e-05, "theta": 10000.0, "big": 18446744073709551615,
			"huge": 123456789012345678901234567890, "minus": -3, "limit": [0.0, Infinity], "nan": NaN, "low": -Infinity, "text": "say NaN \"Infinity\"", "dup": 2
		}`),
		"generation_config.json":           []byte(`{"temperature":0.6}`),
		"model-00001-of-00002.safetensors": testmodel.Safetensors(one, [][2]string{{"format", "pt"}, {"only", "first"}}),
		"model-00002-of-00002.safetensors": testmodel.Safetensors(two, [][2]string{{"format", "np"}, {"other", "second"}}),
		"model.safetensors.index.json":     []byte(`{"metadata":{"total_size":8},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`),
	}))
	want := [][3]string{
		{"config.model_type", "llama\n", `"llama"`},
		{"config.dup", "2\n", `2`},
		{"config.list", "a\\nb\n1\n[2,{\"k\":null}]\nnull\ntrue\n", "[\"a\\nb\",1,[2,{\"k\":null}],null,true]"},
		{"config.empty", "", `[]`},
		{"config.object", "{\"b\":1,\"a\":[1.0,\"<&>\"]}\n", `{"b":1,"a":[1.0,"<&>"]}`},
		{"config.null", "null\n", `null`},
		{"config.yes", "true\n", `true`},
		{"config.eps", "0.00001\n", `0.00001`},
		{"config.theta", "10000\n", `10000`},
		{"config.big", "18446744073709551615\n", `18446744073709551615`},
		{"config.huge", "123456789012345678901234567890\n", `123456789012345678901234567890`},
		{"config.minus", "-3\n", `-3`},
		{"config.limit", "0\nInfinity\n", `[0,"Infinity"]`},
		{"config.nan", "NaN\n", `"NaN"`},
		{"config.low", "-Infinity\n", `"-Infinity"`},
		{"config.text", "say NaN \"Infinity\"\n", `"say NaN \"Infinity\""`},
		{"generation_config.temperature", "0.6\n", `0.6`},
		{"index.total_size", "8\n", `8`},
		{"safetensors.format", "pt\n", `"pt"`},
		{"safetensors.only", "first\n", `"first"`},
		{"safetensors.model-00002-of-00002.safetensors.format", "np\n", `"np"`},
		{"safetensors.other", "second\n", `"second"`},
	}
	var got [][3]string
	for _, e := range m.Metadata {
		got = append(got, [3]string{e.Key, string(e.AppendText(nil)), string(e.AppendJSON(nil))})
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}
