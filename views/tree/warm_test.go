package tree

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views"
)

// fetched is Data that counts what is brought in.
type fetched struct {
	tensorfs.Data
	bytes *atomic.Int64
	err   error
}

func (f fetched) Fetch(_ context.Context, off, n int64) error {
	f.bytes.Add(n)
	return f.err
}

// What a view needs is brought in, in the order of the files, and nothing else.
func TestWarming(t *testing.T) {
	for _, c := range []struct {
		model, view string
		tensors     int
	}{
		{"gguf/llama-xs.q8_0.gguf", "all", 20},
		{"gguf/llama-xs.q8_0.gguf", "f16", 20},
		{"gguf/llama-xs.q8_0.gguf", "fused-f16", 20},
		{"gguf/llama-xs.q8_0.gguf", "npy", 20},
		{"whole-gguf/mlx-llama3-4bit", "f16", -1}, // with all scales and biases
	} {
		m, err := formats.Open(testdata + "/" + c.model)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var bytes atomic.Int64
		total := int64(0)
		for i := range m.Tensors {
			total += m.Tensors[i].Data.Size()
			if c.view == "all" {
				m.Tensors[i].Data = fetched{m.Tensors[i].Data, &bytes, nil}
			}
		}
		w, err := New(m, Options{}).Warming(c.view)
		if err != nil {
			t.Fatal(err)
		}
		if c.tensors < 0 {
			c.tensors = len(m.Tensors)
		}
		if len(w.tensors) != c.tensors || w.Bytes != total {
			t.Errorf("%s of %s: %d tensors, %d bytes; want %d, %d", c.view, c.model, len(w.tensors), w.Bytes, c.tensors, total)
		}
		for i := 1; i < len(w.tensors); i++ {
			if a, b := place(w.tensors[i-1]), place(w.tensors[i]); c.view != "all" && a.File == b.File && a.Offset > b.Offset {
				t.Errorf("%s is brought in before %s", w.tensors[i-1].Name, w.tensors[i].Name)
			}
		}
		var came atomic.Int64
		if err := w.Run(context.Background(), func(n int64) { came.Add(n) }); err != nil || came.Load() != total || c.view == "all" && bytes.Load() != total {
			t.Errorf("%v, %d bytes came, %d were asked for, of %d", err, came.Load(), bytes.Load(), total)
		}
	}
}

// Without the tensors that a view leaves out, and nothing for a name that is not a view.
func TestWarmingLeavesOut(t *testing.T) {
	m, err := tensorfs.NewModel(tensorfs.Model{Tensors: []tensorfs.Tensor{
		{Name: "a", Source: "a", DType: tensorfs.I32, Shape: []int64{1}, Data: tensorfs.Bytes(make([]byte, 4))},
		{Name: "b", Source: "b", DType: tensorfs.F32, Shape: []int64{2}, Data: tensorfs.Bytes(make([]byte, 8))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	tr := New(m, Options{Views: views.Options{}})
	if w, err := tr.Warming("f16"); err != nil || w.Bytes != 8 {
		t.Errorf("%v, %v", w, err)
	}
	if _, err := tr.Warming("f17"); err == nil {
		t.Error("f17 is not a view")
	}
}

// An error ends it, and so does its context.
func TestWarmingEnds(t *testing.T) {
	broken := errors.New("broken")
	var bytes atomic.Int64
	m, err := tensorfs.NewModel(tensorfs.Model{Tensors: []tensorfs.Tensor{
		{Name: "a", Source: "a", DType: tensorfs.F32, Shape: []int64{1}, Data: fetched{tensorfs.Bytes(make([]byte, 4)), &bytes, broken}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(m, Options{}).Warming(WarmAll)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(context.Background(), func(int64) {}); !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(context.Canceled)
	if err := w.Run(ctx, func(int64) {}); err == nil {
		t.Error("it did not end")
	}
}
