package memory

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// repackedTypes are those whose rows llama.cpp interleaves by eight where the processor has
// AVX2: the weights are then copied.
var repackedTypes = []tensorfs.DType{tensorfs.Q4_0, tensorfs.Q4_K, tensorfs.MXFP4, tensorfs.IQ4_NL}

const (
	tokenTable = "token_embd.weight"
	output     = "output.weight"
)

// rowTables are read by rows and never multiplied with.
var rowTables = []string{tokenTable, "position_embd.weight", "token_types.weight", "per_layer_token_embd.weight"}

// alignment of tensors in memory.
const alignment = 32

// isRepacked reports whether a weight is copied when the model is loaded.
func (t *Tensor) isRepacked() bool {
	return !slices.Contains(rowTables, t.Name) && t.interleaves() &&
		(len(t.Shape) == 2 || strings.Contains(t.Name, "_exps")) && !strings.Contains(t.Name, "attn_k_b") && !strings.Contains(t.Name, "attn_v_b")
}

// interleaves reports whether type and shape allow it.
func (t *Tensor) interleaves() bool {
	return slices.Contains(repackedTypes, t.DType) && len(t.Shape) >= 2 && t.Shape[len(t.Shape)-2]%8 == 0
}

// tied returns the table of tokens if it is the output, too, otherwise nil.
func (m *model) tied() *Tensor {
	if m.noOutput || m.header.tensor(output) != nil {
		return nil
	}
	return m.header.tensor(tokenTable)
}

// weights adds up the tensors: tensors that stay in the file are mapped from the first to
// the last of their bytes, so weights that are repacked in between are in the range as
// well.
func (n *Need) weights(c *checked, m *model) {
	first, last := int64(-1), int64(0)
	for i := range m.header.Tensors {
		t := &m.header.Tensors[i]
		size := t.Bytes
		n.Weights = c.add(n.Weights, size)
		if t.isRepacked() {
			n.Repacked = c.add(n.Repacked, size)
			continue
		}
		n.Resident = c.add(n.Resident, c.pad(size, alignment))
		if size > 0 && (first < 0 || t.Offset < first) {
			first = t.Offset
		}
		last = max(last, c.add(t.Offset, size))
	}
	if first >= 0 {
		n.Mapped = last - first
	}
	if t := m.tied(); t != nil && t.interleaves() {
		n.Repacked = c.add(n.Repacked, t.Bytes)
	}
}
