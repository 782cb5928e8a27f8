package merged_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/hf"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// pad gives the embedding and the head of a directory more rows than it has tokens.
func pad(t *testing.T, at string, rows int64) {
	t.Helper()
	m := testwhole.Open(t, at)
	var list []testmodel.SafeTensor
	for i := range m.Tensors {
		x := &m.Tensors[i]
		data, shape := testwhole.Read(t, x.Data), slices.Clone(x.Shape)
		if x.Name == "token_embedding.weight" || x.Name == "output.weight" {
			data = append(data, make([]byte, (rows-shape[0])*shape[1]*2)...)
			shape[0] = rows
		}
		list = append(list, testmodel.SafeTensor{Name: x.Source, DType: x.DType, Shape: shape, Data: data})
	}
	saveAgain(t, at, list, "vocab_size", rows)
}

// TestPaddedEmbeddings: where a recipe chooses a tokenizer, the merge has a row for each token,
// whatever pads the embeddings of its models; without that, the rows have to be as many.
func TestPaddedEmbeddings(t *testing.T) {
	dir := models(t, "llama3", 3)
	const plain = "merge_method: linear\nmodels: [{model: ./0, parameters: {weight: 0.3}}, {model: ./1, parameters: {weight: 0.5}}]\n"
	want, err := open(t, dir, plain)
	must(t, err)
	numbers := map[string][]byte{}
	for i := range want.Tensors {
		numbers[want.Tensors[i].Name] = testwhole.Read(t, want.Tensors[i].Data)
	}
	pad(t, filepath.Join(dir, "0"), 384)
	pad(t, filepath.Join(dir, "1"), 400)
	for _, choice := range []string{"tokenizer_source: ./1", "tokenizer_source: base", "tokenizer: {source: ./0}"} {
		m, err := open(t, dir, plain+choice)
		must(t, err)
		for i := range m.Tensors {
			x := &m.Tensors[i]
			if w := want.Tensor(x.Name); !slices.Equal(x.Shape, w.Shape) || !bytes.Equal(testwhole.Read(t, x.Data), numbers[x.Name]) {
				t.Errorf("%s: %s of shape %v is another", choice, x.Name, x.Shape)
			}
		}
		f := hf.HF(m, convert.Options{})
		if f.Reason != "" || !f.Exact || !strings.Contains(strings.Join(f.Notes, "\n"), "one row for each of the 371 tokens") {
			t.Errorf("%s: %s, exact %v, notes %q", choice, f.Reason, f.Exact, f.Notes)
		}
		d, err := m.File("config.json")
		must(t, err)
		var c struct {
			Rows int `json:"vocab_size"`
		}
		if must(t, json.Unmarshal(testwhole.Read(t, d), &c)); c.Rows != 371 {
			t.Errorf("%s: vocab_size %d", choice, c.Rows)
		}
	}
	if _, err := open(t, dir, plain); err == nil || !strings.Contains(err.Error(), "has shape [384 64] in one model and [400 64] in another") {
		t.Error(err)
	}
	m, err := open(t, dir, "merge_method: passthrough\nmodels: [{model: ./2}]\ntokenizer_source: ./2")
	must(t, err)
	if f := hf.HF(m, convert.Options{}); len(f.Notes) > 0 || !f.Exact {
		t.Errorf("notes %q without padding", f.Notes)
	}
}
