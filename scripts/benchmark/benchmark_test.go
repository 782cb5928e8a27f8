//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views"
)

// The models are models, have the size that they are said to have, and nothing
// in them sends a decoder on a slow path.
func TestModels(t *testing.T) {
	const mib = 4
	b := &bench{dir: t.TempDir(), models: make(map[string]*model)}
	writers := map[string]func() (*model, error){
		"MLX":   func() (*model, error) { return b.mlxModel(mib) },
		"fused": func() (*model, error) { return b.fusedModel(tensorfs.Q8_0, mib) },
	}
	for d := range patterns {
		if d != tensorfs.U32 {
			writers[d.String()] = func() (*model, error) { return b.ggufModel(d, mib) }
		}
	}
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			m, err := write()
			if err != nil {
				t.Fatal(err)
			}
			if st, err := os.Stat(m.file); err != nil || st.Size() < 1<<16 {
				t.Errorf("the file: %v, %v", st, err)
			}
			view, file := "f16", tensor
			if name == "fused" {
				view, file = "fused-f16", "layers.0.attention.qkv.weight"
			}
			halves := readTensor(t, m.path, view, file)
			if int64(len(halves)) != m.out || m.out != mib<<20 {
				t.Errorf("%d bytes of f16, want %d", len(halves), m.out)
			}
			odd, distinct := 0, make(map[uint16]bool)
			for i := 0; i < len(halves); i += 2 {
				h := binary.LittleEndian.Uint16(halves[i:])
				if h&0x7C00 == 0x7C00 {
					odd++
				}
				distinct[h] = true
			}
			if odd > 0 || len(distinct) < 100 {
				t.Errorf("%d infinities and NaNs, %d different numbers", odd, len(distinct))
			}
		})
	}
}

func readTensor(t *testing.T, path, view, name string) []byte {
	t.Helper()
	m, err := formats.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	for _, v := range views.Build(m, views.Options{}) {
		for i := range v.Tensors.Len() {
			if x := v.Tensors.At(i); v.Name == view && x.Name == name {
				b := make([]byte, x.Data.Size())
				if err := tensorfs.ReadFull(x.Data, b, 0); err != nil {
					t.Fatal(err)
				}
				return b
			}
		}
	}
	t.Fatalf("no %s in %s", name, view)
	return nil
}

func TestSmallTensors(t *testing.T) {
	b := &bench{dir: t.TempDir(), models: make(map[string]*model)}
	m, err := b.smallTensors(105, 1000)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := formats.Open(m.path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if n := len(opened.Tensors); n != 105 {
		t.Errorf("%d tensors", n)
	}
}

func TestParseDecoding(t *testing.T) {
	for line, want := range map[string]string{
		"BenchmarkDecode/Q4_K/avx2-2  1393  39329 ns/op  26661 MB/s  13.33 el/ns  0.9122 x-memcpy  0 B/op": "Q4_K avx2",
		"BenchmarkDecodeGroup/affine-4-BF16/go-16  6  9 ns/op  1 MB/s  0.5 el/ns  30.1 x-memcpy":           "Group affine-4-BF16 go",
		"BenchmarkDecodeI2S/trinity/go  6  9 ns/op  1 MB/s  0.5 el/ns  30.1 x-memcpy":                      "I2S trinity go",
	} {
		name, implementation, d, ok := parseDecoding(line)
		if got := name + " " + implementation; !ok || got != want || d.perNS == 0 || d.memcpy == 0 {
			t.Errorf("%q is %q, %+v, %t", line, got, d, ok)
		}
	}
	for _, line := range []string{"", "PASS", "goos: linux", "BenchmarkOpen-2 3 4 ns/op", "BenchmarkDecode/Q4_K/avx2-2"} {
		if _, _, _, ok := parseDecoding(line); ok {
			t.Errorf("%q was taken", line)
		}
	}
}

func TestStatistics(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.x); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.x, got, c.want)
		}
	}
	if got := ratios([]float64{2, 9, 4}, []float64{1, 3, 8}); !slices.Equal(got, []float64{2, 3, 0.5}) {
		t.Errorf("ratios: %v", got)
	}
	if got := spread("%.1f", []float64{3, 1, 2}); got != "2.0 (1.0 to 3.0)" {
		t.Errorf("spread: %s", got)
	}
}

func TestOptions(t *testing.T) {
	for _, args := range []string{"--only nothing", "--size 1", "--passes -1", "more"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
	o, err := parse([]string{"--quick", "--only", "start,memory"})
	if err != nil || !o.wants("memory") || o.wants("kernels") || !o.wantsMounts() || o.passes != 3 {
		t.Errorf("%+v, %v", o, err)
	}
}

// Every way of reading reads all of a file.
func TestReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 300_001), 0o600); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string]int64{"read": 300_001, "mmap": 300_001, "first": 1, "stream": 900_003} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := readers[role](f, []string{"600003"})
		if err := errors.Join(err, f.Close()); err != nil || n != want {
			t.Errorf("%s: %d bytes, %v; want %d", role, n, err, want)
		}
	}
}
