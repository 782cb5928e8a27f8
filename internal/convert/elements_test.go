package convert

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestElements reads fields in the objects of a list, which DeciLM has for its layers: each object is read, and
// an object that contradicts the tensors, or has what no description knows, is refused.
func TestElements(t *testing.T) {
	tested := 0
	eachGolden(t, func(name string, m *tensorfs.Model, config map[string]any) {
		if name != "deci" {
			return
		}
		blocks := config["block_configs"].([]any)
		attention := func(i int) map[string]any { return blocks[i].(map[string]any)["attention"].(map[string]any) }
		ffn := func(i int) map[string]any { return blocks[i].(map[string]any)["ffn"].(map[string]any) }
		for _, c := range []struct {
			object map[string]any
			field  string
			value  any
			want   string
		}{
			{attention(1), "window_length", 128, "window_length is 128, which cannot be said"},
			{attention(3), "replace_with_linear", false, "layer 3 has false"},
			{attention(2), "no_op", false, "layer 2 has false"},
			{attention(0), "n_heads_in_group", 4, "layer 0 has 32 for rows.attention.k, and 16"},
			{ffn(0), "ffn_mult", 12.0, "layer 0 has 256 for rows.ffn.up, and 512"},
			{ffn(0), "replace_with_linear", true, "only false can"},
			{ffn(1), "no_op", false, "layer 1 has false"},
			{ffn(2), "gating_type", "other", `"block_configs.each.ffn.gating_type" is "other", and what it means`},
			{config, "block_configs", blocks[:3], "does not have an object for each layer"},
			{config, "block_configs", append(append([]any{}, blocks[:3]...), 5), "does not have an object for each layer"},
			{config, "block_configs", 5, "does not have an object for each layer"},
			{config, "block_configs", nil, "does not have an object for each layer"},
		} {
			tested++
			before, was := c.object[c.field]
			c.object[c.field] = c.value
			if _, _, err := madeOf(t, m, config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %v: %v, want %q", c.field, c.value, err, c.want)
			}
			if c.object[c.field] = before; !was {
				delete(c.object, c.field)
			}
		}
		if _, _, err := madeOf(t, m, config); err != nil {
			t.Error(err)
		}
	})
	if tested < 12 {
		t.Errorf("%d changes", tested)
	}
}
