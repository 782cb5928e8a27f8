package metal_test

import (
	"encoding/binary"
	"fmt"
	"github.com/tensorfs/tensorfs/metal"
	"log"
	"os"

	"github.com/tensorfs/tensorfs/internal/testing/testtree"
)

// sampleMount returns a directory that looks like a mounted model, and a function
// that removes it.
func sampleMount() (dir string, remove func()) {
	top, err := os.MkdirTemp("", "tensorfs-example-")
	if err != nil {
		log.Fatal(err)
	}
	mount, model := top+"/mount", top+"/model"
	for _, d := range []string{mount, model} {
		if err := os.Mkdir(d, 0o755); err != nil {
			log.Fatal(err)
		}
	}
	if err := testtree.Sample().WriteTo(mount, model); err != nil {
		log.Fatal(err)
	}
	return mount, func() { os.RemoveAll(top) }
}

// A tensor of a mounted model becomes a buffer without a copy, on the GPU if there is one.
func Example() {
	mount, remove := sampleMount()
	defer remove()
	l, err := metal.Open(mount, metal.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	b, err := l.Tensor("f16", "token_embedding.weight")
	if err != nil {
		log.Fatal(err)
	}
	defer b.Release()
	half := make([]byte, 2)
	if _, err := b.ReadAt(half, 2*5); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Size, "bytes, copied:", b.Copied)
	fmt.Printf("the sixth number is %#04x as a half\n", binary.LittleEndian.Uint16(half))
	// Output:
	// 8192 bytes, copied: false
	// the sixth number is 0x4500 as a half
}
