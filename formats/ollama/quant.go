package ollama

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/assemble"
)

// quantTypes are the values of quant_type in a blob's metadata. The last four are
// accepted by Ollama and never written.
var quantTypes = map[string]struct {
	mode string
	bits int
}{
	"int4":  {assemble.Affine, 4},
	"int8":  {assemble.Affine, 8},
	"nvfp4": {"nvfp4", 4},
	"mxfp4": {"mxfp4", 4},
	"mxfp8": {"mxfp8", 8},
	"q4":    {assemble.Affine, 4},
	"fp4":   {assemble.Affine, 4},
	"q8":    {assemble.Affine, 8},
	"fp8":   {assemble.Affine, 8},
}

// module is a weight stored as codes, with its companions.
type module struct {
	weight, scale, bias, global *tensorfs.Tensor // scale is nil if the metadata declares the tensor quantised but the scale is missing
	path                        string           // in config.json
	kind                        string           // quant_type of the metadata, "" without one
	group                       string           // group_size of the metadata
	config                      *modelConfig
	columns                     func() (int64, bool) // length of a row of numbers, where something else tells it
}

// resolve returns how the module's codes become numbers, or why they do not.
func (m *module) resolve() (*tensorfs.Quant, error) {
	if m.scale == nil {
		return nil, fmt.Errorf("the blob's metadata calls it %s, and there are no scales beside it", tensorfs.Quote(m.kind))
	}
	p, err := m.params()
	if err != nil {
		return nil, err
	}
	return p.Quant(m.weight, m.scale, m.bias, m.global)
}

func (m *module) params() (assemble.Params, error) {
	switch {
	case m.kind != "":
		return m.fromMetadata()
	case m.scale.DType == tensorfs.U8:
		// The number of codes for a scale tells the modes apart.
		isBytes := func(p assemble.Params) bool { return p.Mode != assemble.Affine }
		if fit := assemble.Fitting(m.weight, m.scale, isBytes); len(fit) == 1 {
			return fit[0], nil
		}
		return assemble.Params{}, fmt.Errorf("codes of shape %v with scales of shape %v are neither nvfp4 nor mxfp4 nor mxfp8", m.weight.Shape, m.scale.Shape)
	case m.config != nil && m.config.quant != nil:
		return m.config.quant.Of(m.path, false)
	}
	return m.guess()
}

func (m *module) fromMetadata() (assemble.Params, error) {
	t, known := quantTypes[strings.ToLower(m.kind)]
	p, _ := assemble.Default(t.mode)
	if !known {
		return p, fmt.Errorf("quant_type %s is not known", tensorfs.Quote(m.kind))
	}
	p.Bits = t.bits
	if m.group == "" {
		// Bits and shapes leave one group size; the default is usually that.
		isType := func(q assemble.Params) bool { return q.Mode == p.Mode && q.Bits == p.Bits }
		if fit := assemble.Fitting(m.weight, m.scale, isType); len(fit) > 0 {
			p = fit[0]
		}
		return p, nil
	}
	g, err := strconv.ParseUint(m.group, 10, 31)
	if err != nil || g == 0 {
		return p, fmt.Errorf("group_size %s is not a positive number", tensorfs.Quote(m.group))
	}
	p.Group = int(g)
	return p, nil
}

// guess returns the only parameters that shapes and the number of columns allow:
// Ollama wrote 4 and 8 bits without saying so.
func (m *module) guess() (assemble.Params, error) {
	fit := assemble.Fitting(m.weight, m.scale, func(p assemble.Params) bool {
		return p.Mode == assemble.Affine && (p.Bits == 4 || p.Bits == 8)
	})
	switch len(fit) {
	case 0:
		return assemble.Params{}, fmt.Errorf("codes of shape %v with scales of shape %v fit no known quantisation", m.weight.Shape, m.scale.Shape)
	case 1:
		return fit[0], nil
	}
	if columns, ok := m.columns(); ok {
		for _, p := range fit {
			if m.scale.Cols()*int64(p.Group) == columns {
				return p, nil
			}
		}
	}
	return assemble.Params{}, fmt.Errorf("both %d bits in groups of %d and %d bits in groups of %d fit the shapes",
		fit[0].Bits, fit[0].Group, fit[1].Bits, fit[1].Group)
}
