package recipe

import (
	"maps"
	"slices"
)

// Method is what a merge method asks of a recipe.
type Method struct {
	Name string
	// Exact is whether its numbers are mergekit's own on a CPU, bit for bit.
	Exact        bool
	Differs      string  // why numbers may differ, unless Exact
	base         bool    // it needs a base_model
	least        int     // models, besides the base where it needs one
	most         int     // the same; 0 for any number
	sharedParams []Param // of the whole recipe, a slice or a model
	each         []Param // of each model
}

// Param is a parameter of a method.
type Param struct {
	Name     string
	Default  any // a float64 or bool; nil if required
	Required bool
}

// methods is the table of what is read. int8_mask changes no number.
var methods = map[string]*Method{
	"linear": {Exact: true, least: 1,
		sharedParams: []Param{{"normalize", true, false}},
		each:         []Param{{"weight", nil, true}}},
	"slerp": {Differs: "it adds up norms in another order", base: true, least: 1, most: 1,
		sharedParams: []Param{{"t", nil, true}}},
	"task_arithmetic": {Exact: true, base: true, least: 1,
		sharedParams: []Param{{"normalize", false, false}, {"lambda", 1.0, false}, {"int8_mask", false, false}},
		each:         []Param{{"weight", nil, true}}},
	"ties": {Differs: "of differences that are equal at the cut mergekit keeps any, and here the first ones are kept", base: true, least: 1,
		sharedParams: []Param{{"normalize", true, false}, {"rescale", false, false}, {"lambda", 1.0, false}, {"int8_mask", false, false}},
		each:         []Param{{"weight", nil, true}, {"density", 1.0, false}}},
	"passthrough": {Exact: true, least: 1, most: 1,
		each: []Param{{"scale", nil, false}}},
}

// others are methods of mergekit that are not read, with what stops each.
var others = map[string]string{
	"dare_linear": random, "dare_ties": random, "della": random, "della_linear": random,
	"breadcrumbs": wholeTensor, "breadcrumbs_ties": wholeTensor, "model_stock": wholeTensor, "nuslerp": wholeTensor,
	"karcher": wholeTensor, "sce": wholeTensor, "multislerp": wholeTensor, "nearswap": wholeTensor, "arcee_fusion": wholeTensor,
	"ram": wholeTensor, "ramplus_tl": wholeTensor,
}

const (
	random      = "it draws random numbers that no recipe records, so the same merge cannot be made again"
	wholeTensor = "its statistics of whole tensors are not computed here"
)

func init() {
	for name, m := range methods {
		m.Name = name
	}
}

// names are the supported methods, sorted.
func names() []string { return slices.Sorted(maps.Keys(methods)) }

// param returns the parameter of that name, and whether there is one.
func (m *Method) param(name string) bool {
	has := func(p Param) bool { return p.Name == name }
	return slices.ContainsFunc(m.sharedParams, has) || slices.ContainsFunc(m.each, has)
}

// anyParam reports whether a method has a parameter of that name.
func anyParam(name string) bool {
	for _, m := range methods {
		if m.param(name) {
			return true
		}
	}
	return false
}

// params are the names of the method's parameters.
func (m *Method) params() (list []string) {
	for _, p := range slices.Concat(m.each, m.sharedParams) {
		list = append(list, p.Name)
	}
	return list
}
