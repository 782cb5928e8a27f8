package formats_test

import (
	"fmt"
	"log"
	"os"
	"testing/fstest"

	"github.com/tensorfs/tensorfs/formats"
)

// A model in memory. A zip.Reader, an embed.FS or a type of the program's own will do as
// well.
func ExampleOpenFS() {
	content, err := os.ReadFile("../testdata/gguf/llama-xs.q8_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	fsys := fstest.MapFS{"models/tiny.gguf": {Data: content}}

	m, err := formats.OpenFS(fsys, "models/tiny.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t := m.TensorBySource("blk.0.attn_q.weight")
	fmt.Println(m.Format, m.Path, t.Name, t.DType, t.Shape)
	// Output:
	// gguf models/tiny.gguf layers.0.attention.q.weight Q8_0 [64 64]
}
