package architectures

import (
	"slices"
	"strings"
	"testing"
)

// TestRopePaths holds which objects about rotary embeddings count.
func TestRopePaths(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"", ""},
		{"rope_parameters", "rope_parameters"},
		{"rope_scaling rope_parameters", "rope_scaling"},
		{"rope_parameters rope_parameters.full_attention", "rope_parameters.full_attention"},
		{"rope_scaling rope_parameters rope_parameters.full_attention", "rope_scaling rope_parameters.full_attention"},
		{"rope_scaling rope_scaling.full_attention rope_parameters", "rope_scaling.full_attention"},
		{"rope_scaling text.rope_parameters", "text.rope_parameters"},
		{"rope_scaling text.rope_theta", ""},
		{"rope_scaling rope_theta", "rope_scaling"},
	} {
		says := strings.Fields(c.says)
		got := RopePaths(func(path string) bool { return slices.Contains(says, path) }, "text.", "")
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.says, got, c.want)
		}
	}
}
