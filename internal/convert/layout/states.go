package layout

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/views/arrange"
)

// negativeExp makes what GGUF has of A_log of state spaces; the return is arrange.LogOfNegative.
func negativeExp(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return arrange.NegativeExp(t)
}

func exponential(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return arrange.Exp(t)
}

// ofNumbers is a move that computes from a tensor's numbers in F32.
func ofNumbers(compute func(*tensorfs.Tensor) (*tensorfs.Tensor, error)) func(*Walk, *part, *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	return func(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
		t, err := w.Numbers(w.name(p), t, tensorfs.F32)
		if err != nil {
			return nil, err
		}
		return compute(t)
	}
}

// centred takes the mean from what corrects the choice of experts, which changes no choice.
func centred(_ *Walk, _ *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	t, err := plain(t)
	if err != nil {
		return nil, err
	}
	return arrange.Centred(t)
}

// factors are expressions of numbers of config.json, without 1 and without numbers that it lacks; NAME.N
// is a number of a list.
func (w *Walk) factors(texts []string) ([]float32, error) {
	var all []float32
	var problem error
	number := func(name string) any {
		name, index, inList := strings.Cut(name, ".")
		switch v := w.facts("number." + name).(type) {
		case float64:
			return v
		case []float64:
			i, err := strconv.Atoi(index)
			if !inList || err != nil || i >= len(v) {
				problem = fmt.Errorf("config.json has %d numbers of %s", len(v), name)
				return nil
			}
			return v[i]
		}
		return nil
	}
	for _, text := range texts {
		e, err := architectures.ParseExpr(text)
		if err != nil {
			return nil, err
		}
		if v, ok := e.Eval(number).(float64); ok {
			all = append(all, float32(v))
		}
	}
	return slices.DeleteFunc(all, func(x float32) bool { return x == 1 }), problem
}

// times multiplies by fields of config.json.
func times(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	by, err := w.factors(p.args)
	if err != nil || len(by) == 0 {
		return t, err
	}
	if t, err = plain(t); err != nil {
		return nil, err
	}
	return arrange.Multiply(t, by...)
}

// rescaled multiplies a norm by the root of the ratio of two sizes.
func rescaled(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	by, err := w.rootOfRatio(p.args)
	if err != nil {
		return nil, err
	}
	return arrange.Scale(t, by)
}

// unscaled divides it by that root.
func unscaled(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	by, err := w.rootOfRatio(p.args)
	if err != nil {
		return nil, err
	}
	if t, err = w.Numbers(w.name(p), t, tensorfs.F32); err != nil {
		return nil, err
	}
	return arrange.Unscale(t, by)
}

// rootOfRatio is the root of one size divided by another.
func (w *Walk) rootOfRatio(sizes []string) (float32, error) {
	if err := w.Sizes.Need(sizes...); err != nil {
		return 0, err
	}
	return float32(math.Sqrt(float64(w.Sizes.Len(sizes[0])) / float64(w.Sizes.Len(sizes[1])))), nil
}

// halved divides by two for each so many layers before.
func halved(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	every, _ := w.facts("config." + p.args[0]).(int64)
	if every < 1 || w.layer < every {
		return t, nil
	}
	t, err := plain(t)
	if err != nil {
		return nil, err
	}
	return arrange.Multiply(t, float32(math.Ldexp(1, -int(w.layer/every))))
}

// timesStates multiplies the rows that make z, x, B, C and dt of states, each by a number
// of a list besides.
func timesStates(w *Walk, p *part, t *tensorfs.Tensor) (*tensorfs.Tensor, error) {
	inner, states, shape := w.Sizes.Len("inner"), w.Sizes.Len("ssm_groups")*w.Sizes.Len("state"), t.Numbers()
	rows := []int64{inner, inner, states, states, w.Sizes.Len("ssm_heads")}
	sum, first := int64(0), int64(0)
	for _, n := range rows {
		sum += n
	}
	if len(shape) != 2 || shape[0] != sum || slices.Min(rows) < 1 {
		return nil, fmt.Errorf("shape %v of %s does not divide into %v rows", shape, tensorfs.Quote(t.Source), rows)
	}
	t, err := plain(t)
	if err != nil {
		return nil, err
	}
	list := make([]*tensorfs.Tensor, len(rows))
	for i, n := range rows {
		by, err := w.factors([]string{p.args[0], p.args[1] + "." + strconv.Itoa(i)})
		if err != nil {
			return nil, err
		}
		if list[i], err = arrange.Slice(t, 0, first, n); err != nil {
			return nil, err
		}
		if list[i], err = arrange.Multiply(list[i], by...); err != nil {
			return nil, err
		}
		first += n
	}
	return arrange.Join(0, list...)
}
