package gguf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// inLayer splits the name of a tensor into the start that names its layer and the rest.
func inLayer(source string) (layer, name string) {
	if rest, ok := strings.CutPrefix(source, "blk."); ok {
		if number, name, ok := strings.Cut(rest, "."); ok {
			return "blk." + number + ".", name
		}
	}
	return "", source
}

// rename gives the file's own tensor of a name another one, unless a tensor has it already.
func (t *translation) rename(from, to string) {
	if x := t.named(from); x != nil && t.named(to) == nil {
		x.Source = to
	}
}

// named returns the file's own tensor of a name.
func (t *translation) named(source string) *tensorfs.Tensor {
	i := slices.IndexFunc(t.tensors, func(x tensorfs.Tensor) bool { return x.Source == source && t.own(&x) })
	if i < 0 {
		return nil
	}
	return &t.tensors[i]
}

// join makes one tensor of two in every layer that has both. The rows of the first come before the rows of the second,
// in each expert if there are experts. Tensors that have factors stay apart.
func (t *translation) join(to, first, second string) {
	at := map[string]int{}
	for i := range t.tensors {
		if t.own(&t.tensors[i]) {
			at[t.tensors[i].Source] = i
		}
	}
	gone := map[int]bool{}
	for i := range t.tensors {
		layer, name := inLayer(t.tensors[i].Source)
		j, both := at[layer+second]
		if name != first || !both || !t.own(&t.tensors[i]) || t.hasFactors(layer, first, at) || t.hasFactors(layer, second, at) {
			continue
		}
		x, y := &t.tensors[i], &t.tensors[j]
		dims := len(x.Shape)
		if x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || dims < 2 || dims > 3 || x.Change != nil || y.Change != nil || x.Quant != nil || y.Quant != nil || !x.WholeRowGroups() {
			t.Absent = fmt.Sprintf("%s and %s have to be one tensor, and are not of one type and shape", tensorfs.Quote(x.Source), tensorfs.Quote(y.Source))
			return
		}
		experts := int64(1)
		if dims == 3 {
			experts = x.Shape[0]
		}
		shape := slices.Clone(x.Shape)
		shape[dims-2] *= 2
		y.Source, y.Shape, y.Data, y.Parts = layer+to, shape, tensorfs.Interleave(experts, x.Data, y.Data), nil
		gone[i] = true
	}
	kept := t.tensors[:0]
	for i, x := range t.tensors {
		if !gone[i] {
			kept = append(kept, x)
		}
	}
	t.tensors = kept
}

// hasFactors reports whether a tensor has factors beside it.
func (t *translation) hasFactors(layer, name string, at map[string]int) bool {
	stem := strings.TrimSuffix(name, ".weight")
	_, scale := at[layer+stem+".scale"]
	_, input := at[layer+stem+".input_scale"]
	return scale || input
}

// predicts turns the tensors that begin with a prefix and a number into layers that follow
// the model's own and predict further tokens. A tensor that all of these layers share can
// only be stored for a single layer; if there are more layers, it is left out.
func (t *translation) predicts(prefix, rest string) {
	numbers := map[int]bool{}
	for _, x := range t.tensors {
		if name, ok := strings.CutPrefix(x.Source, prefix); ok && t.own(&x) {
			number, _, _ := strings.Cut(name, ".")
			n, err := strconv.Atoi(number)
			if err != nil || n < 0 || n > maxLayers {
				n = -1
			}
			numbers[n] = true
		}
	}
	layers := t.integerKey("block_count")
	if len(numbers) != 1 || !numbers[0] || layers < 1 || layers > maxLayers || t.firstTensor("blk.*.nextn.*") != nil {
		t.leave(rest)
		return
	}
	t.base, t.next = layers, 1
	for i := range t.tensors {
		x := &t.tensors[i]
		if name, ok := strings.CutPrefix(x.Source, prefix+"0."); ok && t.own(x) {
			x.Source = t.layer(0) + name
		}
	}
	t.set("block_count", uint32(layers+1))
	t.set("nextn_predict_layers", uint32(1))
}

// layer returns the start of the names of tensors in a layer that predicts further tokens.
func (t *translation) layer(i int) string { return fmt.Sprintf("blk.%d.", t.base+int64(i)) }

// stack makes one tensor of experts that are stored as a tensor each. "*" is the number of
// the expert.
func (t *translation) stack(to, pattern string) {
	start, end, _ := strings.Cut(pattern, "*")
	experts := map[int]tensorfs.Tensor{}
	for _, x := range t.tensors {
		rest, ok := strings.CutPrefix(x.Source, start)
		if number, isExpert := strings.CutSuffix(rest, end); ok && isExpert && t.own(&x) {
			if n, err := strconv.Atoi(number); err == nil {
				experts[n] = x
			}
		}
	}
	first, ok := experts[0]
	if !ok || len(first.Shape) != 2 {
		return
	}
	parts := make([]tensorfs.Data, len(experts))
	for n := range parts {
		x, ok := experts[n]
		if !ok || x.DType != first.DType || !slices.Equal(x.Shape, first.Shape) || x.Change != nil || x.Quant != nil {
			t.Absent = fmt.Sprintf("the experts of %s are not of one type and shape", tensorfs.Quote(to))
			return
		}
		parts[n] = x.Data
	}
	t.tensors = slices.DeleteFunc(t.tensors, func(x tensorfs.Tensor) bool {
		return t.own(&x) && x.Source != first.Source && strings.HasPrefix(x.Source, start) && strings.HasSuffix(x.Source, end)
	})
	x := t.named(first.Source)
	x.Source, x.Shape, x.Data = to, append([]int64{int64(len(parts))}, first.Shape...), tensorfs.Concat(parts...)
}
