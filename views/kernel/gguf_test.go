package kernel

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// stored is a tensor of a golden file.
type stored struct {
	name, dtype string
	elems       int
	data        []byte
	bigEndian   bool
}

// ggufTypes names the type ids of the golden files.
var ggufTypes = map[uint32]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
	12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
	20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0",
	35: "TQ2_0", 36: "I2_S", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0", 42: "Q2_0",
}

// readGGUF reads the tensors of a well-formed little GGUF file, which is all that these tests need.
func readGGUF(t testing.TB, path string) []stored {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if file[4] == 0 {
		order = binary.BigEndian
	}
	at := 8
	u32 := func() uint32 { at += 4; return order.Uint32(file[at-4:]) }
	u64 := func() int { at += 8; return int(order.Uint64(file[at-8:])) }
	text := func() string { n := u64(); at += n; return string(file[at-n : at]) }
	tensors, pairs := make([]stored, u64()), u64()
	alignment := 32
	width := map[uint32]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
	for range pairs {
		key, kind, n := text(), u32(), 1
		if key == "general.alignment" {
			alignment = int(order.Uint32(file[at:]))
		}
		if kind == 9 {
			kind, n = u32(), u64()
		}
		for range n {
			if kind == 8 {
				text()
			}
			at += width[kind]
		}
	}
	offsets := make([]int, len(tensors))
	for i := range tensors {
		t := &tensors[i]
		t.name, t.elems, t.bigEndian = text(), 1, order == binary.ByteOrder(binary.BigEndian)
		for range u32() {
			t.elems *= u64()
		}
		t.dtype = ggufTypes[u32()]
		offsets[i] = u64()
	}
	at = (at + alignment - 1) / alignment * alignment
	for i := range tensors {
		end := len(file)
		if i+1 < len(tensors) {
			end = at + offsets[i+1]
		}
		t := &tensors[i]
		t.data = file[at+offsets[i] : end]
		if d, ok := Lookup(t.dtype); ok { // cut the padding
			t.data = t.data[:t.elems/d.Elems*d.Bytes]
		}
	}
	return tensors
}

// readSums reads a file of "sum  name" lines.
func readSums(t testing.TB, path string) map[string]string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range bytes.Lines(file) {
		sum, name, ok := strings.Cut(strings.TrimSpace(string(line)), "  ")
		if !ok {
			t.Fatalf("%s: bad line %q", path, line)
		}
		sums[name] = sum
	}
	return sums
}
