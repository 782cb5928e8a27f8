package exported

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// module is a quantised module whose companions are files of their own.
type module struct {
	codes      int // its tensor
	quant      tensorfs.Quant
	companions [3]string // names of the scales, the biases and the global scale
	unsaid     bool      // the tree does not say which they are
}

// newModule reads raw/'s description of codes.
func newModule(codes int, e jsonobj.Object) module {
	m, q := e.Object("module"), e.Object("quant")
	x := module{codes: codes, unsaid: !e.Has("module")}
	x.quant.Mode, x.quant.Weight = str(q.Raw("mode")), str(m.Raw("weight"))
	x.quant.Bits, _ = q.Raw("bits").Int()
	x.quant.GroupSize, _ = q.Raw("group_size").Int()
	x.quant.Shape, _ = integers(m.Raw("shape"))
	if block, _ := integers(m.Raw("block")); len(block) == 2 {
		x.quant.Block = [2]int{int(block[0]), int(block[1])}
	}
	x.quant.Shards, _ = m.Raw("shards").Int()
	for i, key := range []string{"scales", "biases", "global"} {
		x.companions[i] = str(m.Raw(key))
	}
	return x
}

// join ties the codes of all modules to their companions.
func (t *tree) join() error {
	at := map[string]*tensorfs.Tensor{}
	for i := range t.tensors {
		at[t.tensors[i].Name] = &t.tensors[i]
	}
	for i := range t.modules {
		x := &t.modules[i]
		codes, q := &t.tensors[x.codes], &x.quant
		if q.Weight == codes.Name {
			q.Weight = ""
		}
		for i, to := range []**tensorfs.Tensor{&q.Scales, &q.Biases, &q.Global} {
			name := x.companions[i]
			if *to = at[name]; name != "" && *to == nil && codes.Opaque == "" {
				codes.Opaque = fmt.Sprintf("raw/%s belongs to it and is not in this directory; export that too", name)
			}
		}
		if x.unsaid {
			codes.Opaque = "the release of tensorfs that made this directory did not say which scales belong to it; export it again"
		}
		if _, ok := assemble.Default(q.Mode); !ok && q.Mode != "fp8" && codes.Opaque == "" {
			codes.Opaque = fmt.Sprintf("an exported tree does not record how to unpack %s: use its other views, or name the model that it was exported from", tensorfs.Quote(q.Mode))
		}
		if codes.Opaque != "" {
			continue
		}
		if err := check(codes, q); err != nil {
			return t.malformed(indexName, fmt.Sprintf("raw/%s: %v", codes.Name, err), "export the tree again")
		}
		assemble.Attach(codes, q)
	}
	return nil
}

// check returns an error unless codes and companions belong together.
func check(codes *tensorfs.Tensor, q *tensorfs.Quant) error {
	numbers, ok := tensorfs.Elements(q.Shape)
	switch {
	case !ok || q.Scales == nil:
		return fmt.Errorf("%s without scales, or of no size", q.Mode)
	case codes.DType == tensorfs.U32:
		p := assemble.Params{Mode: q.Mode, Bits: q.Bits, Group: q.GroupSize}
		have, err := p.Quant(codes, q.Scales, q.Biases, q.Global)
		if err == nil && !slices.Equal(have.Shape, q.Shape) {
			err = fmt.Errorf("codes of %v numbers, and it has %v", have.Shape, q.Shape)
		}
		return err
	case q.Mode == "fp8" && codes.DType.Bits() == 8 && slices.Equal(q.Shape, codes.Shape) && q.Biases == nil && q.Global == nil:
		return nil
	case q.Mode == "mxfp4" && (codes.DType == tensorfs.U8 || codes.DType == tensorfs.I8) && (q.Scales.DType == tensorfs.U8 || q.Scales.DType == tensorfs.F8_E8M0) && q.Biases == nil && q.Global == nil:
		if codes.Data.Size() == (numbers+1)/2 && q.Scales.Data.Size() == numbers/32 && len(q.Shape) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%s codes of %s and shape %v do not fit numbers of shape %v", q.Mode, codes.DType, codes.Shape, q.Shape)
}

// split makes a module of a file that has it in sections: codes, scales and biases.
func (t *tree) split(r tensorfs.Tensor, e jsonobj.Object, sections []jsonobj.Raw, fail func(string) error) error {
	q := newModule(0, e).quant
	q.Shape, q.Weight = r.Shape, ""
	cols := r.Cols()
	if _, ok := tensorfs.Elements(r.Shape); !ok || len(r.Shape) == 0 || q.GroupSize <= 0 || q.Bits <= 0 || cols > 1<<48 || r.DType.Bits() == 0 {
		return fail("its sections are of no module that is known")
	}
	stem := strings.TrimSuffix(r.Name, ".weight")
	parts := make([]tensorfs.Tensor, 0, len(sections))
	for i, s := range sections {
		name, part := str(s.Member("name")), r
		off, n := nonNegative(s.Member("offset")), nonNegative(s.Member("bytes"))
		if tensorfs.CheckRange(r.Data, off, n) != nil {
			return fail("a section is not in it")
		}
		part.Data = tensorfs.Section(r.Data, off, n)
		part.Shape = slices.Clone(r.Shape)
		if i == 0 {
			part.Shape[len(part.Shape)-1] = cols * int64(q.Bits) / r.DType.Bits()
		} else {
			part.Name, part.Source = stem+"."+name, r.Source+"."+name
			part.DType = dtypes()[str(s.Member("dtype"))]
			part.Shape[len(part.Shape)-1] = cols / int64(q.GroupSize)
		}
		if size, fits := part.DType.Size(part.Shape); !fits || size != n || i > 0 && t.names[part.Name] {
			return fail(fmt.Sprintf("section %s does not fit its shape", tensorfs.Quote(name)))
		}
		t.names[part.Name] = true
		parts = append(parts, part)
		switch {
		case i == 0:
		case name == "scales":
			q.Scales = &parts[i]
		case name == "biases":
			q.Biases = &parts[i]
		default:
			return fail("a section is not known")
		}
	}
	if err := check(&parts[0], &q); err != nil {
		return fail(err.Error())
	}
	assemble.Attach(&parts[0], &q)
	t.tensors = append(t.tensors, parts...)
	return nil
}
