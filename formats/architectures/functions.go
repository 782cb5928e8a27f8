package architectures

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
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
	// How many values of a list come before the first that equals another value, if all values after it do too.
	"until": func(env *Env, args []*Expr) any {
		if len(args) != 2 {
			return nil
		}
		list, value := asList(env.list(args[0])), args[1].eval(env)
		n := 0
		for n < len(list) && !reflect.DeepEqual(list[n], value) {
			n++
		}
		if n == len(list) || slices.ContainsFunc(list[n:], func(v any) bool { return !reflect.DeepEqual(v, value) }) {
			return nil
		}
		return int64(n)
	},
	// A list with other values: each argument after it that is found in the list is replaced by the next one.
	"replace": func(env *Env, args []*Expr) any {
		if len(args) == 0 || len(args)%2 == 0 {
			return nil
		}
		var all []any
		for _, v := range asList(env.list(args[0])) {
			i := 1
			for i < len(args) && !reflect.DeepEqual(args[i].eval(env), v) {
				i += 2
			}
			if i >= len(args) {
				return nil
			}
			all = append(all, args[i+1].eval(env))
		}
		return orNilList(all)
	},
	// The texts of a list as one; with a text to put between them, numbers too, and without what is missing.
	"join": func(env *Env, args []*Expr) any {
		if len(args) == 0 || len(args) > 2 {
			return nil
		}
		between := ""
		if len(args) == 2 {
			between, _ = args[1].eval(env).(string)
		}
		var texts []string
		for _, v := range asList(env.list(args[0])) {
			switch v := v.(type) {
			case string:
				texts = append(texts, v)
			case int64:
				texts = append(texts, strconv.FormatInt(v, 10))
			case nil:
			}
			if _, ok := v.(string); !ok && len(args) == 1 {
				return nil
			}
		}
		if texts == nil {
			return nil
		}
		return strings.Join(texts, between)
	},
	// For each word of layer_types whether the layer has a window.
	"windows": func(env *Env, args []*Expr) any {
		if len(args) != 1 {
			return nil
		}
		var all []any
		for _, kind := range asList(env.list(args[0])) {
			window, ok := IsWindow(kind)
			if !ok {
				return nil
			}
			all = append(all, window)
		}
		return orNilList(all)
	},
	// The same of so many layers, if one of every so many has full attention, the last of them.
	"windows_every": func(env *Env, args []*Expr) any {
		if len(args) != 2 {
			return nil
		}
		period, _ := args[0].eval(env).(int64)
		layers, _ := args[1].eval(env).(int64)
		if period < 1 || layers < 0 || layers > maxLayers {
			return nil
		}
		var all []any
		for _, window := range Windows(int(layers), period, false) {
			all = append(all, window)
		}
		return orNilList(all)
	},
	// That period of a list of windows.
	"window_period": func(env *Env, args []*Expr) any {
		if len(args) != 1 {
			return nil
		}
		var list []bool
		for _, v := range asList(env.list(args[0])) {
			list = append(list, v == true)
		}
		if list == nil {
			return nil
		}
		return orNil(WindowPeriod(list, false))
	},
	// A number without its fraction.
	"floor": func(env *Env, args []*Expr) any {
		if x, ok := numbers(env, args, 1); ok && math.Abs(x[0]) <= math.MaxInt32 {
			return int64(math.Floor(x[0]))
		}
		return nil
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

func orNilList(list []any) any {
	if list == nil {
		return nil
	}
	return list
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
