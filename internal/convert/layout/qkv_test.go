package layout

import (
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// TestShards holds that the rows of q, k and v are divided only for a number of processors that the scales show.
func TestShards(t *testing.T) {
	for _, c := range []struct {
		name                        string
		rows, scales, heads, stated int64 // stated is the number of shards that decoded the matrix
		block                       int
		want                        int64
		err                         string
	}{
		{"four", 1248, 12, 4, 4, 128, 4, ""},
		{"four in whole blocks", 1536, 12, 4, 0, 128, 4, ""},
		{"eight, by the heads", 704, 8, 8, 8, 128, 8, ""},
		{"four or eight", 704, 8, 4, 8, 128, 0, "may be of 8 or of 4 processors"},
		{"none", 1248, 10, 4, 0, 128, 0, "not of 8 or 4 processors"},
		{"all rows or shards", 1016, 8, 8, 0, 128, 0, "may be of 8 processors or of all rows"},
		{"other blocks", 1248, 12, 4, 4, 64, 0, "not for blocks of 128 x 128"},
	} {
		w := &Walk{facts: func(name string) any {
			if name == "config.num_key_value_heads" {
				return c.heads
			}
			return nil
		}}
		scales := &tensorfs.Tensor{Shape: []int64{c.scales, 1}}
		x := &tensorfs.Tensor{Shape: []int64{c.rows, 8}, Quant: &tensorfs.Quant{Mode: "fp8", Block: [2]int{c.block, c.block}, Shards: int(c.stated), Scales: scales}}
		got, err := w.shards(x)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v; want %d, %s", c.name, got, err, c.want, c.err)
		}
	}
}
