package near

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	have := []string{"layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.1.attention.q.weight", "output.weight", "output_norm.weight", "token_embedding.weight"}
	for _, test := range []struct {
		want string
		max  int
		near []string
	}{
		{"output.wieght", 3, []string{"output.weight"}},
		{"Output.Weight", 1, []string{"output.weight"}},
		{"layers.0.attention.w.weight", 1, []string{"layers.0.attention.k.weight"}},
		{"layers.0.attention.q.weigh", 9, []string{"layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.1.attention.q.weight"}},
		{"embedding", 3, []string{"token_embedding.weight"}},
		{"nothing", 3, nil},
		{"", 3, nil},
		{"output.weight", 0, nil},
	} {
		if got := Names(test.want, have, test.max); !slices.Equal(got, test.near) {
			t.Errorf("%q: %q, want %q", test.want, got, test.near)
		}
	}
}
