package packing_test

import (
	"sync/atomic"
	"testing"

	"github.com/tensorfs/tensorfs"
)

// counted is Data that counts the bytes that are read of it.
type counted struct {
	tensorfs.Data
	n *atomic.Int64
}

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Data.ReadAt(p, off)
	c.n.Add(int64(n))
	return n, err
}

// TestWindows holds how much of its tensors a module reads for a window of its numbers: no
// more than the share of the 8 rows that a word may hold, whatever lies between them. Of many
// rows it reads each byte once, or twice where reads end within words and what lies between
// their columns is little.
func TestWindows(t *testing.T) {
	const n, g = 256, 128
	const small = 2048 // tables, and the ends of words and runs
	for _, k := range []int64{1024, 1408} {
		var tensors []*tensorfs.Tensor
		var counts []*atomic.Int64
		count := func(x *tensorfs.Tensor) *tensorfs.Tensor {
			c := new(atomic.Int64)
			x.Data = counted{x.Data, c}
			tensors, counts = append(tensors, x), append(counts, c)
			return x
		}
		order := count(mixed(k, g))
		for _, c := range examples(n, k, g, func(d tensorfs.DType, shape ...int64) *tensorfs.Tensor { return count(filled(d, shape...)) }, order) {
			tensors, counts = tensors[:1], counts[:1]
			q, err := c.make()
			if err != nil {
				t.Fatal(c.name, err)
			}
			if err := tensorfs.ReadFull(q.Numbers, make([]byte, 4), 0); err != nil { // the groups of columns stay in memory
				t.Fatal(err)
			}
			row, all := 4*k, 4*k*n
			for _, w := range []struct {
				name        string
				size        int64 // of reads
				from, bytes int64
				times       float64 // the tensor is read at most so often
			}{
				{"a row", row, 37 * row, row, 8. / n},
				{"a part of a row", 512, 37*row + 1024, 512, 8. / n * 512 / 4096},
				{"8 rows", 8 * row, 40 * row, 8 * row, 8. / n},
				{"32 rows of which the first is not the first of a word", 32 * row, 37 * row, 32 * row, 40. / n},
				{"all, 1 MiB at a time", 1 << 20, 0, all, 2.1},
				{"all, in reads that begin anywhere", 1<<17 + 4, 0, all, 2},
			} {
				for _, c := range counts {
					c.Store(0)
				}
				p := make([]byte, w.size)
				for at := w.from; at < w.from+w.bytes; at += w.size {
					size := min(w.size, w.from+w.bytes-at)
					if err := tensorfs.ReadFull(q.Numbers, p[:size], at); err != nil {
						t.Fatal(err)
					}
				}
				for i, x := range tensors {
					reads := (w.bytes + w.size - 1) / w.size
					if got := counts[i].Load(); float64(got) > w.times*float64(x.Data.Size())+float64(reads*small) {
						t.Errorf("%s of %d columns, %s: %d bytes of %d of %s %v", c.name, k, w.name, got, x.Data.Size(), x.DType, x.Shape)
					}
				}
			}
		}
	}
}
