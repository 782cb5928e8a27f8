package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testnumbers"
)

// quantised is the directory of libggml's output for rows of 512 numbers.
const quantised = "../../testdata/quantise/"

// goldenRows returns the rows as F32, what they are, and an importance of their columns.
func goldenRows(t *testing.T) (rows []byte, kinds []string, importance []float32) {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(quantised + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for line := range strings.Lines(string(read("rows.tsv"))) {
		kinds = append(kinds, strings.TrimSpace(line))
	}
	w := read("imatrix.f32")
	for ; len(w) > 0; w = w[4:] {
		importance = append(importance, math.Float32frombits(binary.LittleEndian.Uint32(w)))
	}
	return read("rows.f32"), kinds[1:], importance
}

// TestQuantisers holds every encoder to the bytes of libggml, with an importance matrix and without one.
func TestQuantisers(t *testing.T) {
	rows, kinds, importance := goldenRows(t)
	size := 4 * len(importance)
	for _, e := range encoderTypes {
		if e.Name == "BF16" {
			continue
		}
		fast, ok := LookupEncoder(e.Name)
		if !ok {
			t.Fatalf("no encoder of %s", e.Name)
		}
		check := func(name string, encode func(dst, src []byte)) {
			t.Helper()
			want, err := os.ReadFile(quantised + "blocks/" + name + ".bin")
			if err != nil {
				t.Fatal(err)
			}
			row := len(importance) / e.Elems * e.Bytes
			if len(want) != row*len(kinds) {
				t.Fatalf("%s has %d bytes, not %d", name, len(want), row*len(kinds))
			}
			for i, kind := range kinds {
				got := bytes.Repeat([]byte{0xA5}, row)
				encode(got, rows[i*size:][:size])
				if at := firstDifference(got, want[i*row:][:row]); at >= 0 {
					at = at / e.Bytes * e.Bytes
					t.Errorf("%s, row %s, block %d is\n% x, want\n% x", name, kind, at/e.Bytes, got[at:][:e.Bytes], want[i*row+at:][:e.Bytes])
				}
			}
		}
		if (fast.Encode == nil) != (e.Encode == nil) {
			t.Errorf("%s is made without an importance: %t", e.Name, fast.Encode != nil)
		}
		if _, err := os.Stat(quantised + "blocks/" + e.Name + ".bin"); (err == nil) != (e.Encode != nil) {
			t.Errorf("%s is made without an importance: %t", e.Name, e.Encode != nil)
		} else if e.Encode != nil {
			check(e.Name, e.Encode)
			check(e.Name, fast.Encode)
		}
		_, err := os.Stat(quantised + "blocks/imatrix." + e.Name + ".bin")
		if weighs := err == nil; weighs != (e.Weigh != nil) {
			t.Errorf("an importance changes what %s is: %t", e.Name, weighs)
		} else if weighs {
			check("imatrix."+e.Name, func(dst, src []byte) { fast.Weigh(dst, src, importance) })
		}
	}
}

// TestWeighRows holds that rows together give the same as one by one.
func TestWeighRows(t *testing.T) {
	rows, _, importance := goldenRows(t)
	size := 4 * len(importance)
	rows = rows[:5*size]
	for _, e := range encoderTypes {
		if e.Weigh == nil {
			continue
		}
		row := len(importance) / e.Elems * e.Bytes
		all := make([]byte, 5*row)
		e.Weigh(all, rows, importance)
		var alone []byte
		for src := range slices.Chunk(rows, size) {
			dst := make([]byte, row)
			e.Weigh(dst, src, importance)
			alone = append(alone, dst...)
		}
		if !bytes.Equal(all, alone) {
			t.Errorf("%s of five rows differs from that of each", e.Name)
		}
	}
}

// TestQuantisersHard compares every encoder with libggml's bytes for numbers that are hard to quantise.
func TestQuantisersHard(t *testing.T) {
	b, err := os.ReadFile(quantised + "hashes.tsv")
	if err != nil {
		t.Fatal(err)
	}
	compared := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		f := strings.Split(line, "\t") // type, whether by an importance, kind of rows, hash
		if i == 0 {
			continue
		}
		e, ok := LookupEncoder(f[0])
		if !ok {
			t.Fatalf("no encoder of %s", f[0])
		}
		h := sha256.New()
		for _, row := range testnumbers.Rows(f[2], 40) {
			dst := make([]byte, testnumbers.Columns/e.Elems*e.Bytes)
			if f[1] == "true" {
				e.Weigh(dst, row.Numbers, row.Importance)
			} else {
				e.Encode(dst, row.Numbers)
			}
			h.Write(dst)
		}
		if got := fmt.Sprintf("%x", h.Sum(nil)[:16]); got != f[3] {
			t.Errorf("%s of rows of kind %q, by an importance %s, has other bytes", f[0], f[2], f[1])
		}
		compared[f[0]]++
	}
	if len(compared) != len(encoderTypes)-1 { // all but BF16
		t.Errorf("%d types were compared", len(compared))
	}
}
