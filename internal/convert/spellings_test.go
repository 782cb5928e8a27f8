package convert

import (
	"bytes"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testwhole"
)

// TestDenseGptOss: transformers 5 saves the decoded experts of gpt-oss under the names that
// their codes have. They are the same as under their own names.
func TestDenseGptOss(t *testing.T) {
	plain, saved := published(t, "gpt-oss"), published(t, "gpt-oss")
	for model, suffix := range map[*sampleModel]string{plain: "", saved: "_blocks"} {
		model.drop(t, "_(blocks|scales)$")
		for _, layer := range []string{"0", "1"} {
			experts := "model.layers." + layer + ".mlp.experts."
			model.add(experts+"gate_up_proj"+suffix, tensorfs.BF16, 1, 4, 64, 128)
			model.add(experts+"down_proj"+suffix, tensorfs.BF16, 2, 4, 64, 64)
		}
	}
	want, got := plain.must(t), saved.must(t)
	if len(want) != 41 || len(got) != 41 {
		t.Fatalf("%d and %d tensors", len(want), len(got))
	}
	for name, w := range want {
		if g, ok := got[name]; !ok || g.DType != w.DType || !bytes.Equal(testwhole.Read(t, g.Data), testwhole.Read(t, w.Data)) {
			t.Errorf("%s differs", name)
		}
	}
}
