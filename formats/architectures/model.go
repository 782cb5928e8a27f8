package architectures

import (
	"math"
	"strconv"
)

// A Source has the values that expressions take from a model besides its facts: the fields of its
// config.json and the shapes of its tensors.
type Source interface {
	// Field returns a field of config.json by its path with dots, nil if it is missing.
	Field(path string) any
	// Shape returns the row-major shape of a tensor by its canonical name, nil if it is missing.
	Shape(tensor string) []int64
	// Refuse reports that an expression needs what the model does not have.
	Refuse(format string, args ...any)
}

// maxLayers bounds the layers for which an expression is evaluated. No model has that many.
const maxLayers = 1 << 16

// Fact returns the value of a name in an expression. With a Source these are, beside its facts:
//
//	config.FIELD   a field of config.json
//	has.MODULE     whether the module's tensor exists: the tensor of the layer, or of the first one
//	rows.MODULE    its rows and columns
//	cols.MODULE
//	layer, kind    the layer that each evaluates, and its word in layer_types
//	NAME           a function of headFunctions without arguments
func (env *Env) Fact(name string) any {
	if env.Source == nil {
		return env.Facts(name)
	}
	for i := range len(name) {
		if name[i] == '.' {
			return env.about(name[:i], name[i+1:])
		}
	}
	switch f := headFunctions[name]; {
	case name == "layer":
		return env.Layer()
	case name == "kind":
		return ofLayer(asList(env.Source.Field("layer_types")), env.Layer())
	case f != nil:
		return f(env, nil)
	}
	return env.Facts(name)
}

func ofLayer(list []any, layer int64) any {
	if layer < 0 || layer >= int64(len(list)) {
		return nil
	}
	return list[layer]
}

func (env *Env) about(what, of string) any {
	if what == "config" {
		return env.Source.Field(of)
	}
	inLayer := Canonical(of, strconv.FormatInt(max(env.Layer(), 0), 10)+".")
	var shape []int64
	for _, name := range []string{of + ".weight", inLayer + ".weight", inLayer, of} {
		if shape == nil {
			shape = env.Source.Shape(name)
		}
	}
	switch {
	case what == "has":
		return shape != nil
	case len(shape) == 0:
		return nil
	case what == "rows":
		return shape[0]
	case what == "cols":
		return shape[len(shape)-1]
	}
	return nil
}

// Layer returns the layer for which the expression is evaluated, -1 for none.
func (env *Env) Layer() int64 { return env.layer - 1 }

// SetLayer makes facts belong to a layer, -1 for none.
func (env *Env) SetLayer(n int64) { env.layer = n + 1 }

// Each returns the values that an expression has in the layers, nil inside of another such list.
func (env *Env) Each(e *Expr) []any {
	n := env.count("n_layers")
	if env.layer != 0 || n > maxLayers {
		return nil
	}
	defer env.SetLayer(-1)
	list := make([]any, 0, n)
	for i := range n {
		env.SetLayer(i)
		list = append(list, e.eval(env))
	}
	return list
}

// count returns a fact of the whole model that is a whole number, the largest if there are several.
func (env *Env) count(name string) (largest int64) {
	defer func(layer int64) { env.layer = layer }(env.layer)
	env.layer = 0
	for _, v := range asList(env.list(&Expr{Name: name, eval: func(env *Env) any { return env.Facts(name) }})) {
		n, _ := v.(int64)
		largest = max(largest, n)
	}
	return largest
}

// rows returns the rows of a matrix of the first layer, 0 if it is missing.
func (env *Env) rows(module string) int64 {
	if env.Source == nil {
		return 0
	}
	if shape := env.Source.Shape("layers.0." + module + ".weight"); len(shape) == 2 {
		return shape[0]
	}
	return 0
}

func orNil(n int64) any {
	if n > 0 {
		return n
	}
	return nil
}

// HeadSize returns the size of a head of q and k, 0 if it is unknown.
func (env *Env) HeadSize() int64 {
	if n := env.count("head_dim"); n > 0 {
		return n
	}
	heads, dim := env.count("n_heads"), env.count("dim")
	if heads <= 0 || dim%heads != 0 {
		return 0
	}
	return dim / heads
}

// keyHeadRows returns the number of heads of k and v by the rows of k, 0 if it is unknown or the
// number of q's heads.
func (env *Env) keyHeadRows() int64 {
	k, size := env.rows("attention.k"), env.HeadSize()
	if k == 0 || size == 0 || k%size != 0 || k/size == env.count("n_heads") {
		return 0
	}
	return k / size
}

// headFunctions compute sizes of heads that a config.json does not contain, by the tensors.
var headFunctions map[string]func(env *Env, args []*Expr) any

func init() { // they are functions of expressions, whose evaluation needs them
	headFunctions = map[string]func(env *Env, args []*Expr) any{
		"head_size": func(env *Env, _ []*Expr) any { return orNil(env.HeadSize()) },
		// The size of a head by the rows of q, else the argument, which is the class's default.
		// The size that llama.cpp assumes has no value.
		"head_rows": func(env *Env, args []*Expr) any {
			usual, _ := first(env, args).(int64)
			heads, size := env.count("n_heads"), usual
			if q := env.rows("attention.q"); q > 0 && heads > 0 && q%heads == 0 {
				size = q / heads
			}
			if usual == 0 && heads > 0 && env.count("dim") == size*heads {
				return nil
			}
			return orNil(size)
		},
		"kv_rows": func(env *Env, _ []*Expr) any { return orNil(env.keyHeadRows()) },
		// The number of heads of k and v, without k's tensor the argument.
		"kv_heads_or": func(env *Env, args []*Expr) any {
			if n := env.keyHeadRows(); n > 0 {
				return n
			}
			if env.rows("attention.k") > 0 {
				return env.Facts("n_heads")
			}
			return first(env, args)
		},
		// The number of heads of k and v that are stored in a tensor with q, without the tensor the argument.
		"fused_kv_heads": func(env *Env, args []*Expr) any {
			qkv, size, heads := env.rows("attention.qkv"), env.HeadSize(), env.count("n_heads")
			if qkv > 0 && size > 0 && qkv%size == 0 && (qkv/size-heads)%2 == 0 && qkv/size > heads {
				return (qkv/size - heads) / 2
			}
			return first(env, args)
		},
	}
	for name, f := range headFunctions {
		functions[name] = f
	}
	// The values in the layers.
	functions["each"] = func(env *Env, args []*Expr) any {
		if len(args) != 1 || env.layer != 0 {
			return nil
		}
		return env.Each(args[0])
	}
	// The first layer in which a condition holds, 0 for none.
	functions["first"] = func(env *Env, args []*Expr) any {
		if len(args) != 1 {
			return nil
		}
		for i, v := range env.Each(args[0]) {
			if v == true {
				return int64(i)
			}
		}
		return int64(0)
	}
	// Fields of config.json that must all exist, added.
	functions["sum"] = func(env *Env, args []*Expr) any {
		total := int64(0)
		for _, arg := range args {
			if env.Source == nil {
				return nil
			}
			v := env.Source.Field(arg.Name)
			n, ok := v.(int64)
			if x, isReal := v.(float64); isReal && x == math.Trunc(x) && math.Abs(x) < math.MaxInt32 { // 64.0
				n, ok = int64(x), true
			}
			if !ok || n < 0 || n > FactOf("dim").Most {
				env.Source.Refuse("%s is needed, and it is missing or not a size", arg.Name)
				return nil
			}
			total += n
		}
		return total
	}
}

// first returns the value of the only argument, nil without one.
func first(env *Env, args []*Expr) any {
	if len(args) == 0 {
		return nil
	}
	return args[0].eval(env)
}
