package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"
)

// implementations returns plain Go and what this machine has besides.
func implementations() []*implementation {
	all := []*implementation{plain()}
	if fast := native(); fast != nil {
		all = append(all, fast)
	}
	return all
}

// canonicalNaN makes every half NaN sign | 0x7E00, as the golden sums have it.
func canonicalNaN(halves []byte) {
	for i := 0; i < len(halves); i += 2 {
		if h := binary.LittleEndian.Uint16(halves[i:]); h&0x7FFF > 0x7C00 {
			binary.LittleEndian.PutUint16(halves[i:], h&0x8000|0x7E00)
		}
	}
}

// TestGolden decodes what ggml's own quantisers and random block bytes gave and compares with what ggml decodes.
func TestGolden(t *testing.T) {
	sums := readSums(t, "../../testdata/ggml/types.f16.sha256")
	seen := map[string]bool{}
	for _, file := range []string{"types.gguf", "big_endian.gguf"} {
		for _, tensor := range readGGUF(t, "../../testdata/ggml/"+file) {
			want := sums[tensor.name]
			decoder, ok := Lookup(tensor.dtype)
			if !ok || want == "" {
				t.Fatalf("%s: %s: no decoder for %q or no sum", file, tensor.name, tensor.dtype)
			}
			src := bytes.Clone(tensor.data)
			if tensor.bigEndian {
				decoder.Swap(src)
			}
			for _, impl := range implementations() {
				decode := impl.types[tensor.dtype]
				if decode == nil {
					continue
				}
				seen[impl.name+" "+tensor.dtype] = true
				dst := make([]byte, 2*tensor.elems)
				decode(dst, src)
				canonicalNaN(dst)
				if sum := sha256.Sum256(dst); hex.EncodeToString(sum[:]) != want {
					t.Errorf("%s: %s (%s) by %s: sum differs", file, tensor.name, tensor.dtype, impl.name)
				}
			}
		}
	}
	for _, d := range types {
		if d.Name[0] != 'F' && d.Name != "Q6_0" && !seen["go "+d.Name] {
			t.Errorf("no golden tensor of type %s", d.Name)
		}
	}
}
