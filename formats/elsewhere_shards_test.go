package formats_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/internal/remote/hub"
	"github.com/tensorfs/tensorfs/internal/testing/testhub"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// Row 18: a model of 30 shards opens with few requests, several at a time, and
// without its data. Smaller shards would be fetched whole, to be compared with their
// digests.
func TestElsewhereShards(t *testing.T) {
	const shards, rows = 30, 17 << 10
	data := make([]byte, rows*512*2)
	var tensors []testmodel.SafeTensor
	for i := range shards {
		tensors = append(tensors, testmodel.SafeTensor{Name: fmt.Sprintf("model.layers.%d.mlp.up_proj.weight", i), DType: tensorfs.BF16, Shape: []int64{rows, 512}, Data: data})
	}
	files := testmodel.HF(map[string]any{"model_type": "llama", "architectures": []string{"LlamaForCausalLM"}, "hidden_size": 512}, tensors, shards, nil)
	for name, b := range files {
		var i byte
		if _, err := fmt.Sscanf(name, "model-%d-", &i); err == nil {
			b[len(b)-1] = i // so that no two are the same
		}
	}
	files["generation_config.json"] = []byte("{}")
	h := testhub.NewHub(t)
	h.Commit("org/name", files)
	h.Delay(20 * time.Millisecond)
	const together = 8
	var asked atomic.Int64
	all := make(chan struct{}) // closed when so many shards are requested concurrently
	h.Break(func(_ http.ResponseWriter, r *http.Request, _ bool) bool {
		if strings.Contains(r.URL.Path, "/resolve/") && strings.HasSuffix(r.URL.Path, ".safetensors") {
			if asked.Add(1) == together {
				close(all)
			}
			testlimit.Receive(t, "shards at the same time", all)
		}
		return false
	})
	c, store := client(t)
	l, _, err := hub.Open(context.Background(), "org/name", "", hub.Options{Client: c, Store: store, Env: func(name string) string { return map[string]string{"HF_ENDPOINT": h.URL}[name] }})
	if err != nil {
		t.Fatal(err)
	}
	m, err := formats.OpenFS(l, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	total := 0
	for _, b := range files {
		total += len(b)
	}
	requests := len(h.Requests())
	t.Logf("%d requests, at most %d at a time, %d bytes of %d", requests, h.Most(), h.Sent(), total)
	if len(m.Tensors) != shards || requests > 75 || h.Most() > 16 || h.Sent() > 6<<20 {
		t.Errorf("%d tensors, %d requests, %d at a time, %d bytes sent", len(m.Tensors), requests, h.Most(), h.Sent())
	}
	seen := map[byte]bool{}
	for i := range m.Tensors {
		end := make([]byte, 2)
		if _, err := m.Tensors[i].Data.ReadAt(end, rows*512*2-2); err != nil || end[0] != 0 {
			t.Errorf("%s ends with %v, %v", m.Tensors[i].Name, end, err)
		}
		seen[end[1]] = true
	}
	if len(seen) != shards || seen[0] {
		t.Errorf("the shards end with %v", seen)
	}
	if n := h.Count("/resolve/"); n > shards+3 {
		t.Errorf("%d files were resolved %d times", len(files), n)
	}
}
