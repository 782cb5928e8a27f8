package tensorfs_test

import (
	"fmt"
	"log"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/views"
)

// Open a model, look at a tensor as it is stored, then read it as numbers.
func Example() {
	m, err := formats.Open("testdata/gguf/llama-xs.q8_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	t := m.Tensor("layers.0.attention.q.weight")
	fmt.Println(t.Source, t.DType, t.Shape, t.Data.Size(), "bytes")
	for _, e := range tensorfs.Extents(t.Data) {
		fmt.Println("  stored in", e.File, "at", e.Offset)
	}

	numbers, err := views.Floats(t)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(numbers), "numbers, the first", numbers[:3])
	// Output:
	// blk.0.attn_q.weight Q8_0 [64 64] 4352 bytes
	//   stored in llama-xs.q8_0.gguf at 36288
	// 4096 numbers, the first [0.14350891 -0.019931793 -0.013952255]
}

func text(d tensorfs.Data) string {
	b := make([]byte, d.Size())
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		log.Fatal(err)
	}
	return string(b)
}

func ExampleSection() {
	d := tensorfs.Bytes("before tensor after")
	fmt.Println(text(tensorfs.Section(d, 7, 6)))
	// Output: tensor
}

func ExampleConcat() {
	q, k, v := tensorfs.Bytes("qqqq"), tensorfs.Bytes("kk"), tensorfs.Bytes("vv")
	fmt.Println(text(tensorfs.Concat(q, k, v)))
	// Output: qqqqkkvv
}

// The matrices of three experts, gate and up of each together.
func ExampleInterleave() {
	gate, up := tensorfs.Bytes("G0G1G2"), tensorfs.Bytes("u0u1u2")
	fmt.Println(text(tensorfs.Interleave(3, gate, up)))
	// Output: G0u0G1u1G2u2
}

func ExampleNewText() {
	names := []string{"a", "b", "c"}
	d := tensorfs.NewText(len(names), func(dst []byte, i int) []byte {
		return fmt.Appendf(dst, "%d %s\n", i, names[i])
	})
	fmt.Print(d.Size(), " bytes\n", text(d))
	// Output:
	// 12 bytes
	// 0 a
	// 1 b
	// 2 c
}

// Read two inputs in place: without a copy if they are mapped files.
func ExampleGuard() {
	codes, scales := tensorfs.Bytes("\x01\x02\x03\x04"), tensorfs.Bytes("\x0a\x0b")
	var copies [2][]byte // used for Data that cannot be viewed
	c, m0, err := tensorfs.View(codes, 0, 4, &copies[0])
	if err != nil {
		log.Fatal(err)
	}
	s, m1, err := tensorfs.View(scales, 0, 2, &copies[1])
	if err != nil {
		log.Fatal(err)
	}
	var out [4]byte
	err = tensorfs.Guard(func() error {
		for i := range out {
			out[i] = c[i] * s[i/2]
		}
		return nil
	}, m0, m1)
	fmt.Println(out, err)
	// Output: [10 20 33 44] <nil>
}
