package gguf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// TestKnownTypes writes a tensor of every number in the table and opens it.
func TestKnownTypes(t *testing.T) {
	if len(byID) != 37+18 {
		t.Errorf("%d types", len(byID))
	}
	for id, d := range byID {
		shape := []int64{2, 8, 256}
		size, ok := d.Size(shape)
		if !ok {
			t.Fatalf("%s has no size", d)
		}
		x := oneTensor(t, testmodel.GGUFTensor{Name: "t", Shape: shape, Type: id, Data: make([]byte, size)}, "llama", nil)
		if x.DType != d || x.Data.Size() != size {
			t.Errorf("type %d: %s of %d bytes, want %s of %d", id, x.DType, x.Data.Size(), d, size)
		}
		if (x.Opaque != "") != (d.Kind() == tensorfs.KindOpaque) {
			t.Errorf("%s: %q", d, x.Opaque)
		}
	}
}

// oneTensor opens a file of one tensor with bytes after it, which are there
// whether the tensor is the last or not.
func oneTensor(t *testing.T, x testmodel.GGUFTensor, arch string, behind []byte) tensorfs.Tensor {
	t.Helper()
	g := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: arch}}, Tensors: []testmodel.GGUFTensor{x}}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, append(g.Bytes(), behind...), 0o666); err != nil {
		t.Fatal(err)
	}
	return open(t, path).Tensors[0]
}

// TestUnknownTypes checks that a number without a known layout is named and
// gets the bytes up to the next tensor.
func TestUnknownTypes(t *testing.T) {
	for id, reason := range map[uint32]string{
		4:         "was Q4_2, which ggml removed",
		5:         "was Q4_3, which ggml removed",
		43:        "its ggml type 43 is not known here; see raw/",
		97:        "activations",
		132:       "not known",
		136:       "activations",
		142:       "known as PQ2_0, which does not fit",
		143:       "known as PTQ1_0, which does not fit",
		151:       "activations",
		201:       "not known",
		202:       "ik_llama.cpp's Q4_0 with the bytes of several rows mixed",
		212:       "ik_llama.cpp's Q4_K with",
		219:       "ik_llama.cpp's IQ1_S with",
		230:       "ik_llama.cpp's BF16 with",
		335:       "ik_llama.cpp's IQ2_BN with",
		339:       "ik_llama.cpp's IQ4_K with",
		353:       "ik_llama.cpp's MXFP4 with",
		399:       "mix the bytes of several rows",
		400:       "not known",
		1<<32 - 1: "its ggml type 4294967295 is",
	} {
		x := oneTensor(t, testmodel.GGUFTensor{Name: "t", Shape: []int64{4, 30}, Type: id, Data: make([]byte, 96)}, "llama", make([]byte, 5))
		if x.DType != tensorfs.Unknown || x.Data.Size() != 101 || !strings.Contains(x.Opaque, reason) || !strings.Contains(x.Opaque, fmt.Sprint(id)) {
			t.Errorf("type %d: %s, %d bytes, %q", id, x.DType, x.Data.Size(), x.Opaque)
		}
		if x := oneTensor(t, testmodel.GGUFTensor{Name: "t", Shape: []int64{0, 30}, Type: id}, "llama", make([]byte, 64)); x.Data.Size() != 0 || x.Opaque == "" {
			t.Errorf("empty tensor of type %d: %d bytes, %q", id, x.Data.Size(), x.Opaque)
		}
	}
}

// TestGroupedRows checks that the removed repackings need whole groups of rows.
func TestGroupedRows(t *testing.T) {
	for id, group := range map[uint32]int64{31: 4, 32: 4, 33: 8} {
		for rows := int64(1); rows <= 16; rows++ {
			for _, shape := range [][]int64{{rows, 32}, {2, rows, 32}} {
				n, _ := tensorfs.Elements(shape)
				x := oneTensor(t, testmodel.GGUFTensor{Name: "t", Shape: shape, Type: id, Data: make([]byte, n/32*18)}, "llama", nil)
				if (x.Opaque == "") != (rows%group == 0) {
					t.Errorf("%s of %v: %q", x.DType, shape, x.Opaque)
				}
			}
		}
		if x := oneTensor(t, testmodel.GGUFTensor{Name: "t", Shape: []int64{32}, Type: id, Data: make([]byte, 18)}, "llama", nil); x.Opaque == "" {
			t.Errorf("a single row of %s has no reason", x.DType)
		}
	}
}

// TestSharedTypes checks which meaning of a shared number a space selects,
// for a tensor followed by another and for the last one, with padding and
// without.
func TestSharedTypes(t *testing.T) {
	const tl2 = 7082 // of 64 rows of 480 columns
	for _, c := range []struct {
		id     uint32
		shape  []int64
		size   int
		want   tensorfs.DType
		opaque string
	}{
		{36, []int64{16, 256}, 1024 + 32, tensorfs.I2_S, ""},
		{36, []int64{16, 256}, 1024, tensorfs.I2_S, ""},
		{36, []int64{16, 256}, 2304, tensorfs.IQ4_NL_4_4, "IQ4_NL_4_4"},
		{36, []int64{16, 256}, 4096, tensorfs.Unknown, "type 36"},
		{37, []int64{16, 256}, 2304, tensorfs.IQ4_NL_4_8, "IQ4_NL_4_8"},
		{37, []int64{16, 256}, 4096, tensorfs.I8_S, "I8_S"},
		{37, []int64{15, 250}, 3750, tensorfs.I8_S, "I8_S"},
		{38, []int64{16, 256}, 1024 + 32, tensorfs.TL1, "TL1"},
		{38, []int64{16, 256}, 2304, tensorfs.IQ4_NL_8_8, "IQ4_NL_8_8"},
		{39, []int64{16, 256}, 2176, tensorfs.MXFP4, ""},
		{39, []int64{4, 4, 256}, 2176, tensorfs.MXFP4, ""},
		{39, []int64{64, 480}, tl2, tensorfs.TL2, "TL2"},
		{39, []int64{64, 480}, 7104 + 32, tensorfs.TL2, "TL2"},
		{39, []int64{64, 480}, 16320, tensorfs.MXFP4, ""},
		{39, []int64{16, 250}, 2176, tensorfs.Unknown, "type 39"},
		{40, []int64{16, 256}, 2304, tensorfs.NVFP4, ""},
		{40, []int64{16, 256}, 768, tensorfs.Unknown, "NVFP4"}, // an early fork's 1-bit type
		{41, []int64{16, 256}, 576, tensorfs.Q1_0, ""},
		{41, []int64{16, 256}, 768, tensorfs.Unknown, "Q1_0"},
		{41, []int64{16, 256}, 1088, tensorfs.Unknown, "Q1_0"},
		{42, []int64{16, 256}, 1152, tensorfs.Q2_0, ""},
		{42, []int64{16, 256}, 1088, tensorfs.PQ2_0, ""},
		{42, []int64{16, 256}, 1280, tensorfs.Unknown, "Q2_0 or PQ2_0"},
		{139, []int64{16, 256}, 2304, tensorfs.IQ4_K, "ik_llama.cpp"},
		{139, []int64{16, 256}, 2336, tensorfs.Unknown, "IQ4_K"},
		{142, []int64{16, 256}, 1088, tensorfs.PQ2_0, ""},
		{142, []int64{16, 256}, 1056, tensorfs.Unknown, "PQ2_0"},
		{143, []int64{16, 256}, 896, tensorfs.PTQ1_0, "Prism"},
	} {
		for _, behind := range []int{-1, 0, 1, 31} { // -1: another tensor
			if c.want == tensorfs.Unknown && (behind > 0 || behind == 0 && c.size < 1080) {
				continue // 1080: of a last tensor, fewer bytes than the types need are a file that was cut
			}
			x := testmodel.GGUFTensor{Name: "t", Shape: c.shape, Type: c.id, Data: make([]byte, c.size)}
			g := testmodel.GGUF{Tensors: []testmodel.GGUFTensor{x}}
			if behind < 0 {
				g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: "u", Shape: []int64{1}, Data: make([]byte, 4)})
			}
			b := g.Bytes()
			if behind >= 0 {
				start := len(b) - (c.size+31)/32*32
				b = append(b[:start+c.size], make([]byte, behind)...)
			}
			path := filepath.Join(t.TempDir(), "m.gguf")
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
			got := bySource(t, open(t, path), "t")
			size := int64(c.size)
			if c.want == tensorfs.Unknown && behind < 0 {
				size = (size + 31) / 32 * 32
			}
			if got.DType != c.want || got.Data.Size() != size || (got.Opaque == "") != (c.opaque == "") || !strings.Contains(got.Opaque, c.opaque) {
				t.Errorf("%d %v in %d bytes, %d after it: %s of %d bytes, %q", c.id, c.shape, c.size, behind, got.DType, got.Data.Size(), got.Opaque)
			}
		}
	}
}

// TestSharedByChance checks that a tensor whose space fits a type by chance is not read as
// it, if another tensor of the same number does not fit.
func TestSharedByChance(t *testing.T) {
	tensor := func(name string, rows int64, size int) testmodel.GGUFTensor {
		return testmodel.GGUFTensor{Name: name, Shape: []int64{rows, 128}, Type: 41, Data: make([]byte, size)}
	}
	g := testmodel.GGUF{Tensors: []testmodel.GGUFTensor{
		tensor("one", 1, 24), // with its padding as large as Q1_0's 18 bytes
		tensor("many", 64, 64*24),
		{Name: "end", Shape: []int64{1}, Data: make([]byte, 4)},
	}}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, g.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	m := open(t, path)
	for _, name := range []string{"one", "many"} {
		if x := bySource(t, m, name); x.DType != tensorfs.Unknown || x.Opaque == "" {
			t.Errorf("%s: %s, %q", name, x.DType, x.Opaque)
		}
	}
}

// TestManyDimensions opens tensors of up to 32 dimensions, in the reverse order of the file's.
func TestManyDimensions(t *testing.T) {
	for n := 5; n <= 33; n++ {
		shape := slices.Repeat([]int64{1}, n)
		shape[0], shape[n-1] = 3, 2
		g := testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: "t", Shape: shape, Data: make([]byte, 24)}}}
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, g.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if (err == nil) != (n <= 32) {
			t.Fatalf("%d dimensions: %v", n, err)
		}
		if err != nil {
			continue
		}
		if got := m.Tensors[0].Shape; !slices.Equal(got, shape) {
			t.Errorf("%d dimensions: %v, want %v", n, got, shape)
		}
		m.Close()
	}
}

// TestSharedTruncated checks that a cut file is not taken for one with another
// meaning of the number.
func TestSharedTruncated(t *testing.T) {
	for _, c := range []struct {
		id   uint32
		arch string
		left int // of 16 x 256 elements
		ok   bool
	}{
		{36, "llama", 1024, true},
		{36, "llama", 1023, false},
		{39, "gpt-oss", 2176, true},
		{39, "gpt-oss", 2175, false},
		{39, "gpt-oss", 900, false},
		{39, "bitnet-b1.58", 2175, true}, // raw
		{39, "bitnet-b1.58", 100, false},
	} {
		g := testmodel.GGUF{
			Meta:    []tensorfs.Meta{{Key: "general.architecture", Value: c.arch}},
			Tensors: []testmodel.GGUFTensor{{Name: "t", Shape: []int64{16, 256}, Type: c.id, Data: make([]byte, 4096)}},
		}
		b := g.Bytes()
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, b[:len(b)-4096+c.left], 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			m.Close()
		}
	}
}

// TestBitNetFiles opens files of bitnet.cpp's own programs.
func TestBitNetFiles(t *testing.T) {
	for file, want := range map[string]string{
		"gguf/i2s-128-zerotail.gguf": "I2_S 4128",
		"bitnet/i2s-128.gguf":        "I2_S 4128",
		"bitnet/i2s-64-arm.gguf":     "I2_S 4128",
		"bitnet/i2s-rows4.gguf":      "I2_S 4128",
		"bitnet/i2s-trinity.gguf":    "I2_S 4096",
		"gguf/tl1.gguf":              "TL1 8192 opaque",
		"gguf/tl2.gguf":              "TL2 7082 opaque",
		"gguf/id39-mxfp4.gguf":       "MXFP4 1020",
	} {
		x := bySource(t, open(t, filepath.Join("../../testdata", file)), "blk.0.attn_q.weight")
		got := fmt.Sprintf("%s %d", x.DType, x.Data.Size())
		if x.Opaque != "" {
			got += " opaque"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}
