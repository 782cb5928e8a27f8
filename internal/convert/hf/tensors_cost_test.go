package hf

import (
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert"
	"github.com/tensorfs/tensorfs/internal/convert/preset"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// countedData counts the bytes that are read.
type countedData struct {
	tensorfs.Data
	read *atomic.Int64
}

func (c countedData) ReadAt(p []byte, off int64) (int, error) {
	c.read.Add(int64(len(p)))
	return c.Data.ReadAt(p, off)
}

// TestCost: to make a directory reads nothing of the tensors, and who reads its
// file from front to back makes the source be read about once: each stream of a
// quantised module once.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		most       float64
	}{
		{"llama-xs.f16", "hf", 1.1}, {"llama.q4_k_m", "hf", 1.1}, {"qwen3moe.q4_0", "hf", 1.1}, {"gpt-oss.mxfp4", "hf", 2.1}, {"syn-falcon-new", "hf", 1.1},
		{"syn-bloom", "hf", 1.1}, {"syn-gpt2", "hf", 1.5}, {"deepseek2.q4_k_m", "hf", 1.1}, {"types", "mlx", 3.1}, {"qwen2.q4_0", "mlx", 3.1}, {"llama-xs.f16", "mlx", 1.1},
	} {
		m := testwhole.Golden(t, c.name)
		var read atomic.Int64
		size := int64(0)
		for i := range m.Tensors {
			size += m.Tensors[i].Data.Size()
			m.Tensors[i].Data = countedData{m.Tensors[i].Data, &read}
		}
		r, err := directories[c.kind](m)
		if err != nil {
			t.Fatal(c.name, err)
		}
		d := composed(t, r)
		if n := read.Load(); n != 0 {
			t.Errorf("%s: %d bytes are read before the file is", c.name, n)
		}
		p := make([]byte, 128<<10)
		for off := int64(0); off < d.Size(); off += int64(len(p)) {
			if err := tensorfs.ReadFull(d, p[:min(int64(len(p)), d.Size()-off)], off); err != nil {
				t.Fatal(c.name, err)
			}
		}
		if times := float64(read.Load()) / float64(size); times < 0.9 || times > c.most {
			t.Errorf("%s: %s is read %.2f times", c.name, c.kind, times)
		}
	}
}

// TestFloatOfMLX holds that mlx/ has the type of numbers that hf/ of the same GGUF file states, without making hf/.
func TestFloatOfMLX(t *testing.T) {
	check := func(name string, m *tensorfs.Model) {
		hf, err := newTensors(m, purpose{})
		if err != nil || m.Layout != "gguf" {
			return
		}
		w, err := newWalk(m, false)
		if err != nil {
			t.Fatal(name, err)
		}
		if got, want := floatOf(m, w.Arch), torchTypes[hf.torch()]; got != want {
			t.Errorf("%s: mlx/ has %s, hf/ %s", name, got, want)
		}
	}
	for _, name := range append(goldenModels(t, ".hf.tsv"), goldenModels(t, ".mlx.tsv")...) {
		check(name, testwhole.Golden(t, name))
	}
	dirs, err := filepath.Glob(filepath.Join(tensorData, "architectures", "*", "config.json"))
	if err != nil || len(dirs) < 100 {
		t.Fatal(len(dirs), err)
	}
	n := 0
	for i, config := range dirs {
		m := testwhole.Open(t, filepath.Dir(config))
		for _, to := range []string{"", "BF16", "Q8_0"} {
			var opts convert.Options
			if to != "" {
				p, err := preset.Named(to)
				if err != nil {
					t.Fatal(err)
				}
				opts.Quantise = &preset.Options{Preset: p}
				if i%4 > 0 {
					continue
				}
			}
			for _, x := range convert.GGUF(m, opts).List {
				if x.Path == "model.gguf" {
					n++
					check(filepath.Dir(config)+" "+to, testwhole.OpenGGUF(t, testwhole.Read(t, x.Data)))
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d models", n)
	}
}

// TestMLXWalksOnce holds that to make mlx/ takes one walk over the tensors, as hf/ does.
func TestMLXWalksOnce(t *testing.T) {
	m := testwhole.Golden(t, "llama-xs.f16")
	allocations := func(of purpose) float64 {
		return testing.AllocsPerRun(3, func() {
			if _, err := newTensors(m, of); err != nil {
				t.Error(err)
			}
		})
	}
	if hf, mlx := allocations(purpose{}), allocations(purpose{mlx: true}); mlx > 1.5*hf {
		t.Errorf("mlx/ takes %.0f allocations, hf/ %.0f", mlx, hf)
	}
}
