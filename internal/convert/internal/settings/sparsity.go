package settings

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
)

// sparsityMeanings are about the part of activations that layers of Gemma 3n leave out.
var sparsityMeanings = map[string]meaning{
	// By how many standard deviations more than the mean an activation has to be, for each layer.
	"sparsity_scale": {toGGUF: func(c call) any {
		var list []any
		for _, part := range c.cfg.Numbers("activation_sparsity_pattern") {
			if part < 0 || part >= 1 {
				c.refuse("activation_sparsity_pattern has %v, not a part of what there is", part)
				return nil
			}
			list = append(list, float64(normalQuantile(float32(part))))
		}
		if n := int64(len(list)); n > 0 && n != c.count("n_layers") {
			c.refuse("activation_sparsity_pattern has %d numbers for %d layers", n, c.count("n_layers"))
		}
		if list == nil {
			return nil
		}
		return list
	}},
	// The parts that these are of.
	"sparsity": {fromGGUF: func(c call) any {
		var parts []any
		list, _ := c.raw("activation_sparsity").([]any)
		for i, v := range list {
			part, ok := partBelow(float32(double(v)))
			if !ok {
				c.refuse("%s has %v for layer %d, which is not the deviation of a share of zeros", c.full("activation_sparsity"), v, i)
				return nil
			}
			parts = append(parts, part)
		}
		return parts
	}},
}

// scalarMeanings are about parameters of activations, which are tensors of one number.
var scalarMeanings = map[string]meaning{
	// A module's, for each layer.
	"scalars": {toGGUF: func(c call) any {
		var list []any
		if !c.eachLayer(layout.Scalar, func(_ string, x float32) error { list = append(list, float64(x)); return nil }) {
			return nil
		}
		return list
	}},
	// The only number of a module outside of the layers.
	"scalar": {toGGUF: func(c call) any {
		name, _ := c.arg(0).(string)
		t := c.tensor(name)
		if t == nil {
			return nil
		}
		x, err := layout.Scalar(t)
		if err != nil {
			c.fail(err)
		}
		return float64(x)
	}},
	// The number that fills a module in each layer.
	"filled": {fromGGUF: func(c call) any {
		var all any
		same := func(name string, x float32) error {
			if all != nil && all != x {
				return fmt.Errorf("%s differs from layer to layer, and config.json has one number", name)
			}
			all = x
			return nil
		}
		if !c.eachLayer(layout.Filled, same) {
			return nil
		}
		return all
	}},
}

// eachLayer reads the number of a module's tensor in each layer, and refuses what read or take refuses.
func (c call) eachLayer(read func(*tensorfs.Tensor) (float32, error), take func(name string, x float32) error) bool {
	for i := range c.count("n_layers") {
		name := layerPrefix(i) + c.args[0].Name + ".weight"
		t := c.tensor(name)
		if t == nil {
			c.refuse("the tensor %s is missing", name)
			return false
		}
		x, err := read(t)
		if err == nil {
			err = take(name, x)
		}
		if err != nil {
			c.refuse("%v", err)
			return false
		}
	}
	return true
}

// normalQuantile is the number below which a part of what is distributed normally is. PyTorch
// computes it in F32: its inverse of the error function is the double's, rounded once, of all
// parts in thousandths.
func normalQuantile(part float32) float32 {
	y := float32(2*part) - 1
	return float32(math.Erfinv(float64(y))) * float32(math.Sqrt2)
}

// doubleQuantile is normalQuantile as Ollama's converter computes it: in doubles to the end.
func doubleQuantile(part float32) float32 {
	return float32(math.Erfinv(2*float64(part)-1) * math.Sqrt2)
}

// partBelow is the shortest decimal whose normalQuantile or doubleQuantile is a number.
func partBelow(x float32) (float64, bool) {
	if math.IsInf(float64(x), -1) {
		return 0, true
	}
	exact := math.Erfc(-float64(x)/math.Sqrt2) / 2
	for digits := 1; digits < 10; digits++ {
		part, err := strconv.ParseFloat(strconv.FormatFloat(exact, 'f', digits, 64), 64)
		if err == nil && part >= 0 && part < 1 && (normalQuantile(float32(part)) == x || doubleQuantile(float32(part)) == x) {
			return part, true
		}
	}
	return 0, false
}
