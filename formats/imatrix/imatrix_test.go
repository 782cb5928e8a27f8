package imatrix

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

func golden(t testing.TB, form string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/quantise/imatrix/dense256.imatrix." + form)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestForms holds the two forms of one matrix to each other.
func TestForms(t *testing.T) {
	a, err := Open(tensorfs.Bytes(golden(t, "gguf")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(tensorfs.Bytes(golden(t, "dat")))
	if err != nil {
		t.Fatal(err)
	}
	if a.Len() < 60 || a.Len() != b.Len() || a.Dataset != b.Dataset || a.Dataset == "" {
		t.Errorf("%d entries of %q, and %d of %q", a.Len(), a.Dataset, b.Len(), b.Dataset)
	}
	for name := range a.entries {
		n := a.Values(name)
		x, err := a.Read(name, 0, n)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Read(name, 0, b.Values(name))
		if err != nil || !slices.Equal(x, y) {
			t.Errorf("%s differs: %v", name, err)
		}
		if part, err := a.Read(name, 3, 5); err != nil || !slices.Equal(part, x[3:8]) {
			t.Errorf("a part of %s: %v, %v", name, part, err)
		}
		if _, err := a.Read(name, n-1, 2); err == nil {
			t.Errorf("%s has values beyond the last", name)
		}
	}
}

// dat writes the older form.
func dat(name string, calls, values int32, sums ...float32) (b []byte) {
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	b = binary.LittleEndian.AppendUint32(b, uint32(calls))
	b = binary.LittleEndian.AppendUint32(b, uint32(values))
	b, _ = binary.Append(b, binary.LittleEndian, sums)
	return b
}

func TestRefuses(t *testing.T) {
	whole := golden(t, "gguf")
	swap := func(old, new string) []byte { return []byte(strings.Replace(string(whole), old, new, 1)) }
	for what, c := range map[string]struct {
		b    []byte
		want string
	}{
		"nothing":           {nil, "it ends at byte 0"},
		"text":              {[]byte("not an importance matrix"), "not an importance matrix"},
		"no type":           {swap("general.type", "general.typo"), "general.type does not say"},
		"no chunks":         {swap("imatrix.chunk_count", "imatrix.chunk_court"), "imatrix.chunk_count or"},
		"no datasets":       {swap("imatrix.datasets", "imatrix.dataset5"), "imatrix.datasets is missing"},
		"no counts":         {swap(".counts", ".courts"), "has no counts"},
		"a cut file":        {golden(t, "dat")[:1000], "do not fit into the file"},
		"a huge name":       {append(binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 0}, 1<<30), make([]byte, 100)...), "a name of 1073741824 bytes"},
		"too many values":   {dat("w", 1, 1<<30, 1), "has 1073741824 values, which do not fit"},
		"negative":          {dat("w", 1, -1, 1), "has -1 values"},
		"too many entries":  {append([]byte{255, 255, 255, 127}, make([]byte, 100)...), "2147483647 entries do not fit into its 104 bytes"},
		"the end of a name": {dat("a weight of a layer", 1, 1, 1)[:20], "in the middle of an entry"},
	} {
		if _, err := Open(tensorfs.Bytes(c.b)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	nan := float32(0)
	nan /= nan
	inf := float32(math.Inf(1))
	for what, v := range map[string]float32{"NaN": nan, "infinity": inf, "negative infinity": -inf} {
		if _, err := Open(tensorfs.Bytes(dat("w", 2, 2, 1, v))); err == nil || !strings.Contains(err.Error(), "column 1") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if m, err := Open(tensorfs.Bytes(dat("w", 2, 2, 1, -1))); err != nil {
		t.Error(err)
	} else if x, err := m.Read("w", 0, 2); err != nil || !slices.Equal(x, []float32{0.5, -0.5}) {
		t.Errorf("negative: %v, %v", x, err)
	}
	if m, err := Open(tensorfs.Bytes(dat("w", 0, 1, 3))); err != nil {
		t.Error(err)
	} else if x, _ := m.Read("w", 0, 1); !slices.Equal(x, []float32{3}) {
		t.Errorf("of no calls: %v", x)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(golden(f, "gguf"))
	f.Add(golden(f, "dat"))
	f.Add(dat("blk.0.attn_q.weight", 3, 2, 1, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Open(tensorfs.Bytes(b))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
			return
		}
		for name := range m.entries {
			n := m.Values(name)
			if n < 1 || 4*n > int64(len(b)) {
				t.Fatalf("%d values in %d bytes", n, len(b))
			}
			_, _ = m.Read(name, 0, n)
		}
	})
}
