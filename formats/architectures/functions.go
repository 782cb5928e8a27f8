package architectures

import (
	"math"
	"slices"
)

// functions are the functions that all expressions have. The package that evaluates an expression
// may add others: see Env.
var functions = map[string]func(env *Env, args []*Expr) any{
	// The largest of numbers and of lists of numbers.
	"max": func(env *Env, args []*Expr) any {
		var best any
		for _, e := range args {
			for _, v := range asList(env.list(e)) {
				n, ok := v.(int64)
				if m, _ := best.(int64); ok && (best == nil || n > m) {
					best = n
				}
			}
		}
		return best
	},
	// The number at a place of a list, the first at 0.
	"item": func(env *Env, args []*Expr) any {
		if len(args) != 2 {
			return nil
		}
		list, n := asList(env.list(args[0])), args[1].eval(env)
		if n, ok := n.(int64); ok && n >= 0 && n < int64(len(list)) {
			return list[n]
		}
		return nil
	},
	"length": func(env *Env, args []*Expr) any {
		if len(args) != 1 {
			return nil
		}
		return int64(len(asList(env.list(args[0]))))
	},
	// The square root of a number.
	"root": func(env *Env, args []*Expr) any {
		if x, ok := numbers(env, args, 1); ok && x[0] > 0 {
			return math.Sqrt(x[0])
		}
		return nil
	},
	// A number to the power of another.
	"power": func(env *Env, args []*Expr) any {
		if x, ok := numbers(env, args, 2); ok {
			return math.Pow(x[0], x[1])
		}
		return nil
	},
}

// HasFunction reports whether all expressions have a function of that name.
func HasFunction(name string) bool { return functions[name] != nil }

// numbers returns the values of n arguments that are numbers.
func numbers(env *Env, args []*Expr, n int) (list []float64, ok bool) {
	if len(args) != n {
		return nil, false
	}
	for _, e := range args {
		x, ok := toFloat(e.eval(env))
		if !ok {
			return nil, false
		}
		list = append(list, x)
	}
	return list, true
}

// list returns the value of an argument that may be a list.
func (env *Env) list(e *Expr) any {
	if env.List != nil {
		return env.List(e)
	}
	return e.eval(env)
}

// asList returns a list, or the only value as one, or nothing.
func asList(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return slices.Clip(v)
	}
	return []any{v}
}
