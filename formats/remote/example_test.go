package remote_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/tensorfs/tensorfs/formats/remote"
	"github.com/tensorfs/tensorfs/views"
)

// A model on a server: only what is read of it comes, here a header and one tensor.
func Example() {
	server := httptest.NewServer(http.FileServer(http.Dir("../../testdata/gguf")))
	defer server.Close()
	cache, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(cache)

	c := remote.New(remote.Options{CacheDir: cache})
	defer c.Close()
	m, err := c.Open(context.Background(), server.URL+"/llama-xs.q8_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t := m.Tensor("output_norm.weight")
	numbers, err := views.Floats(t)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Architecture, len(m.Tensors), "tensors")
	fmt.Println(t.Name, t.DType, t.Shape, numbers[0])
	// Output:
	// llama 20 tensors
	// output_norm.weight F32 [64] 0.7851266
}
