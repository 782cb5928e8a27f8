package gguf

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

// shard returns a shard of a set of two with one tensor, which repeats metadata.
func shard(no uint16, version uint32, bigEndian bool, meta ...tensorfs.Meta) testmodel.GGUF {
	return testmodel.GGUF{
		Version: version, BigEndian: bigEndian,
		Meta: append([]tensorfs.Meta{
			{Key: "split.no", Value: no}, {Key: "split.count", Value: uint16(2)}, {Key: "split.tensors.count", Value: int32(2)},
		}, meta...),
		Tensors: []testmodel.GGUFTensor{{Name: string('a' + rune(no)), Shape: []int64{4}, Data: make([]byte, 16)}},
	}
}

// TestRepeatedMetadata compares values of shards, across versions and byte
// orders.
func TestRepeatedMetadata(t *testing.T) {
	nan, otherNaN := math.Float32frombits(0x7fc00000), math.Float32frombits(0x7fc00001)
	for _, c := range []struct {
		a, b any
		same bool
	}{
		{"x", "x", true},
		{"x", "y", false},
		{uint8(7), int64(7), true},
		{uint64(math.MaxUint64), uint64(math.MaxUint64), true},
		{uint64(math.MaxUint64), int64(-1), false},
		{uint32(7), "7", false},
		{true, true, true},
		{true, uint8(1), false},
		{nan, nan, true},
		{nan, otherNaN, false},
		{0.5, 0.5, true},
		{0.5, float32(0.5), false},
		{0.0, math.Copysign(0, -1), false},
		{[]string{"a", "b"}, []string{"a", "b"}, true},
		{[]string{"a", "b"}, []string{"a", "c"}, false},
		{[]string{"a", "b"}, []string{"a"}, false},
		{[]uint32{1, 2}, []uint32{1, 2}, true},
		{[]uint32{1, 2}, []int32{1, 2}, false},
		{[][]float32{{1}, {nan}}, [][]float32{{1}, {nan}}, true},
		{[][]float32{{1}, {2}}, [][]float32{{1}, {2, 3}}, false},
		{[]uint32{1}, uint32(1), false},
		{uint32(1), []uint32{1}, false},
		{"", []string{}, false},
	} {
		for _, second := range []struct {
			version uint32
			big     bool
		}{{1, false}, {2, false}, {3, true}} {
			dir := t.TempDir()
			err := testmodel.Write(dir, map[string][]byte{
				"m-00001-of-00002.gguf": shard(0, 3, false, tensorfs.Meta{Key: "k", Value: c.a}).Bytes(),
				"m-00002-of-00002.gguf": shard(1, second.version, second.big, tensorfs.Meta{Key: "k", Value: c.b}).Bytes(),
			})
			if err != nil {
				t.Fatal(err)
			}
			m, err := Open(filepath.Join(dir, "m-00001-of-00002.gguf"))
			if (err == nil) != c.same {
				t.Errorf("%v and %v in version %d: %v", c.a, c.b, second.version, err)
			}
			if err == nil {
				if m.Tensors[0].BigEndian || m.Tensors[1].BigEndian != second.big {
					t.Errorf("%+v", m.Tensors)
				}
				m.Close()
			} else if !strings.Contains(err.Error(), `"k"`) || !strings.Contains(err.Error(), "m-00002-of-00002.gguf") {
				t.Error(err)
			}
		}
	}
}

// TestManyShards opens a set by each of its shards, by a relative path and
// through links whose targets have other names.
func TestManyShards(t *testing.T) {
	g := testmodel.GGUF{Meta: []tensorfs.Meta{{Key: "general.architecture", Value: "llama"}}}
	for i := range 23 {
		name := "t" + strings.Repeat("x", i)
		g.Tensors = append(g.Tensors, testmodel.GGUFTensor{Name: name, Shape: []int64{int64(i + 1)}, Type: 24, Data: bytes.Repeat([]byte{byte(i)}, i+1)})
	}
	dir := t.TempDir()
	const prefix = "a-00001-of-00002.gguf-\nb" // names may hold anything
	files := g.Shards(prefix, 11)
	if err := testmodel.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	links := t.TempDir()
	for name := range files {
		target := filepath.Join(links, "blob-"+name[len(prefix)+1:][:5])
		if err := os.WriteFile(target, files[name], 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for name := range files {
		for _, path := range []string{name, "./" + name, filepath.Join(dir, name), filepath.Join(links, name)} {
			m := open(t, path)
			if len(m.Tensors) != len(g.Tensors) || len(m.Sources) != 11 {
				t.Fatalf("%q: %d tensors, %d sources", path, len(m.Tensors), len(m.Sources))
			}
			for _, want := range g.Tensors {
				if got := content(t, bySource(t, m, want.Name).Data); !slices.Equal(got, want.Data) {
					t.Errorf("%q: %s is %v", path, want.Name, got)
				}
			}
		}
	}
}

// TestOtherShardErrors checks that an error in another shard names that file.
func TestOtherShardErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		want   string
	}{
		"loop": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Base(path), path); err != nil {
				t.Fatal(err)
			}
		}, "loop"},
		"garbage": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("\x01\x02\x03\x04\x05"), 0o666); err != nil {
				t.Fatal(err)
			}
		}, "not a GGUF file"},
		"an answer in its place": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("Entry not found"), 0o666); err != nil {
				t.Fatal(err)
			}
		}, "the server does not have it"},
		"space that was not filled": {func(t *testing.T, path string) {
			if err := errors.Join(os.Truncate(path, 0), os.Truncate(path, 5000)); err != nil {
				t.Fatal(err)
			}
		}, "the download did not run"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			g := testmodel.GGUF{Tensors: []testmodel.GGUFTensor{{Name: "a", Shape: []int64{1}, Data: make([]byte, 4)}}}
			if err := testmodel.Write(dir, g.Shards("m", 3)); err != nil {
				t.Fatal(err)
			}
			second := filepath.Join(dir, "m-00002-of-00003.gguf")
			c.change(t, second)
			_, err := Open(filepath.Join(dir, "m-00003-of-00003.gguf"))
			if err == nil || !strings.HasPrefix(err.Error(), second+": ") || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
}

// TestJoinedShards opens a joined file that kept the keys of its shards, and names what is
// wrong with shards that cat joined.
func TestJoinedShards(t *testing.T) {
	set := testmodel.GGUF{
		Meta: []tensorfs.Meta{
			{Key: keyNo, Value: uint16(0)}, {Key: keyCount, Value: uint16(3)}, {Key: keyTensors, Value: int32(1)},
		},
		Tensors: []testmodel.GGUFTensor{{Name: "t", Shape: []int64{5}, Data: make([]byte, 20)}},
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, set.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	if m := open(t, path); len(m.Tensors) != 1 {
		t.Errorf("%d tensors", len(m.Tensors))
	}
	set.Meta[2].Value = int32(2)
	for _, cut := range []int{0, 12} { // all padding is 12 bytes
		b := append(set.Bytes()[:len(set.Bytes())-cut], set.Bytes()...)
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), "another follows it in the same file") {
			t.Errorf("without %d bytes of padding: %v", cut, err)
		}
	}
}
