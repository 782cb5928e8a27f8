package tree_test

import (
	"fmt"
	"log"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"

	"github.com/tensorfs/tensorfs/views/tree"
)

// A model is opened, laid out and read without a mount. Handing the root to
// fs.Mount serves the same entries as files.
func Example() {
	m, err := formats.Open("../../testdata/gguf/llama-xs.q8_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t := tree.New(m, tree.Options{})
	for _, e := range t.Root {
		fmt.Println(e.Name)
	}

	e, err := tensorfs.Find(t.Root, "f16/output_norm.weight")
	if err != nil {
		log.Fatal(err)
	}
	half := make([]byte, 4)
	if err := tensorfs.ReadFull(e.Data, half, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d bytes, the first two numbers are % x\n", e.Data.Size(), half)
	// Output:
	// README
	// bf16
	// config.json
	// f16
	// f32
	// fused
	// fused-f16
	// gguf
	// hf
	// index.json
	// metadata
	// metadata.json
	// mlx
	// npy
	// packed
	// raw
	// source
	// views
	// 128 bytes, the first two numbers are 48 3a 5a 3a
}
