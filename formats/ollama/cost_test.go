package ollama

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

// TestCost puts large values where each of many modules looks for something.
// What that may cost is the processor, as much as looking through 100 MiB of JSON
// does, and memory, all allocations together, a multiple of config.json.
func TestCost(t *testing.T) {
	var tensors []string
	for i := range 100 {
		w := fmt.Sprintf("model.layers.0.mlp.experts.%d.o_proj.weight", i)
		tensors = append(tensors, w+" U32 2 16", w+".scale BF16 2 2", w+".bias BF16 2 2")
	}
	blob := blobOf(nil, tensors...)
	const nested = 9000
	for name, text := range map[string]string{
		"escaped text":  `"` + strings.Repeat(`\u001b`, 1<<17) + `"`,
		"a long number": strings.Repeat("7", 1<<20),
		"spaces":        "{" + strings.Repeat(" ", 1<<20) + `"a": 1}`,
		"nested":        strings.Repeat("[", nested) + strings.Repeat("1,", 1<<18) + "1" + strings.Repeat("]", nested),
		"many objects":  "{" + strings.Repeat(`"a":{},`, 1<<16) + `"b":{}}`,
	} {
		for _, format := range []string{
			`{"quantization":{"bits":4,"group_size":64,"mode":%s}}`, `{"quantization":{"bits":%s,"group_size":64}}`, `{"quantization":%s}`,
			`{"num_attention_heads":%s,"head_dim":%[1]s,"hidden_size":%[1]s}`, `{"text_config":%s}`, `{"thinker_config":{"text_config":{"num_attention_heads":%s}}}`,
		} {
			config := fmt.Sprintf(format, text)
			dir := t.TempDir()
			open := func(config string) uint64 {
				return testlimit.Allocated(func() {
					m, err := made(t, dir, part{"json", "config.json", config}, part{"tensor", "model.layers.0.mlp.experts", blob})
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Close(); err != nil {
						t.Fatal(err)
					}
				})
			}
			least := open("{}")
			testlimit.Work(t, 100, func() {
				memory := open(config)
				t.Logf("%s in %.60s: %d KiB for %d KiB", name, format, (memory-min(least, memory))>>10, len(config)>>10)
				if memory > least+20*uint64(len(config)) {
					t.Errorf("%s in %s: %d bytes for %d", name, format, memory-least, len(config))
				}
			})
		}
	}
}
