package metal_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	merge "github.com/tensorfs/tensorfs/formats/models/merged"
	"github.com/tensorfs/tensorfs/metal"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

const (
	loraBase    = "../testdata/lora/plain-bf16-f32/base"
	loraAdapter = "../testdata/lora/plain-bf16-f32/adapter0"
)

// merged are the bytes of f16/ of a tensor with an adapter.
func merged(t *testing.T, name, adapter string) []byte {
	t.Helper()
	m, err := formats.Open(loraBase)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := lora.Open(m, views.Options{}, []string{adapter}, formats.Options{}.OpenAdapter); err != nil {
		t.Fatal(err)
	}
	d, err := views.Encode(m.Tensor(name), tensorfs.F16)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// A loader has the numbers after the change, and what is kept for one scale is never given
// for another.
func TestLoRA(t *testing.T) {
	const name = "layers.0.attention.q.weight"
	cache := t.TempDir()
	var before []byte
	for _, adapter := range []string{loraAdapter, loraAdapter + ":0.5", loraAdapter} {
		for _, origin := range []metal.CacheMode{metal.CacheReadWrite, metal.CacheRead} {
			host, err := metal.NewHost(metal.HostOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := metal.Open(loraBase, metal.Options{Device: host, LoRA: []string{adapter}, CacheDir: cache})
			if err != nil {
				t.Fatal(err)
			}
			ref := metal.Ref{View: "f16", Name: name}
			set, err := l.Load(context.Background(), []metal.Ref{ref}, metal.LoadOptions{Cache: origin})
			if err != nil {
				t.Fatal(err)
			}
			b, ok := set.Buffer(ref)
			if !ok || b.Origin != metal.OriginCache {
				t.Errorf("%s: it comes from %v, %v", adapter, b.Origin, ok)
			}
			want := merged(t, name, adapter)
			got := make([]byte, len(want))
			if _, err := b.ReadAt(got, 0); err != nil && err != io.EOF {
				t.Error(err)
			}
			if !bytes.Equal(got, want) || bytes.Equal(got, before) && origin == metal.CacheReadWrite {
				t.Errorf("%s: other bytes, or those of another scale", adapter)
			}
			before = want
			if err := set.Release(); err != nil {
				t.Error(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := metal.Open(loraBase, metal.Options{LoRA: []string{loraBase}}); err == nil {
		t.Error("a model is taken for an adapter")
	}
}

// A loader opens a recipe as commands do, and what is kept of one merge is never given for
// another.
func TestRecipe(t *testing.T) {
	const name = "layers.0.attention.q.weight"
	dir, cache := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(loraBase))); err != nil {
		t.Fatal(err)
	}
	recipe := filepath.Join(dir, "recipe.yml")
	var before []byte
	for _, c := range []struct {
		weight  string
		adapter []string
	}{{"0.3", nil}, {"0.4", nil}, {"0.4", []string{filepath.Join(dir, "adapter0:0.5")}}, {"0.3", nil}} {
		text := "merge_method: linear\nmodels: [{model: ./base, parameters: {weight: " + c.weight + "}}, {model: ./base+./adapter0, parameters: {weight: 0.7}}]\n"
		if err := os.WriteFile(recipe, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := merge.OpenPath(formats.Options{}, recipe)
		if err == nil {
			err = lora.Open(m, views.Options{}, c.adapter, formats.Options{}.OpenAdapter)
		}
		if err != nil {
			t.Fatal(err)
		}
		want, err := views.Encode(m.Tensor(name), tensorfs.F16)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []metal.CacheMode{metal.CacheReadWrite, metal.CacheRead} {
			l, err := metal.Open(recipe, metal.Options{LoRA: c.adapter, CacheDir: cache})
			if err != nil {
				t.Fatal(err)
			}
			ref := metal.Ref{View: "f16", Name: name}
			set, err := l.Load(context.Background(), []metal.Ref{ref}, metal.LoadOptions{Cache: mode})
			if err != nil {
				t.Fatal(err)
			}
			b, _ := set.Buffer(ref)
			if b.Origin != metal.OriginCache {
				t.Errorf("weight %s: it comes from %v", c.weight, b.Origin)
			}
			got, made := make([]byte, want.Size()), make([]byte, want.Size())
			if err := tensorfs.ReadFull(want, made, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := b.ReadAt(got, 0); err != nil && err != io.EOF {
				t.Error(err)
			}
			if !bytes.Equal(got, made) || bytes.Equal(got, before) && mode == metal.CacheReadWrite {
				t.Errorf("weight %s: other bytes, or those of another merge", c.weight)
			}
			before = made
			if err := errors.Join(set.Release(), l.Close()); err != nil {
				t.Error(err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
