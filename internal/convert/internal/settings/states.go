package settings

import (
	"math"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// stateMeanings are about layers of several kinds, some with states.
var stateMeanings = map[string]meaning{
	// After how many layers it holds again, the smallest number that fits.
	"period": {fromGGUF: func(c call) any {
		first, period := c.rhythm()
		if period == 0 && c.failed == nil {
			c.refuse("the layers that have %s are not every so many, after the first in layer %d", c.args[0], first)
		}
		return period
	}},
	// The layers in which a condition holds are the last of every so many, and all that are after the last so many.
	"end_groups": {fromGGUF: check(func(c call) {
		size, values := c.number(1), c.env.Each(c.args[0])
		n := int64(len(values))
		for i, v := range values {
			layer := int64(i)
			if want := size > 0 && ((layer+1)%size == 0 || layer >= n-n%size); (v == true) != want && c.failed == nil {
				c.refuse("the layers that have %s are not the last of every %d: layer %d differs", c.args[0], size, i)
			}
		}
	})},
	// Steps of states have no bounds, as llama.cpp has it.
	"unlimited": {toGGUF: check(func(c call) {
		list, ok := c.cfg.Value("time_step_limit").(tensorfs.Array)
		if !ok {
			return
		}
		i := 0
		for v := range list.Values() {
			// No F32 is beyond a bound such as 1e308.
			if x, ok := finite(v); ok && (i > 0 && x < math.MaxFloat32 || i == 0 && x > 0) {
				c.refuse("time_step_limit bounds steps by %v, and llama.cpp has no bounds", x)
			}
			i++
		}
	})},
	// How many texts a list of config.json has.
	"count": {toGGUF: func(c call) any {
		if list := c.cfg.Words(strings.TrimPrefix(c.args[0].Name, "config.")); len(list) > 0 {
			return int64(len(list))
		}
		return nil
	}},
	// The numbers, from 1, of the layers in which a condition holds.
	"numbers": {fromGGUF: func(c call) any {
		list := []any{}
		for i, v := range c.env.Each(c.args[0]) {
			if v == true {
				list = append(list, int64(i)+1)
			}
		}
		return list
	}},
	// A list of texts, one after the other.
	"letters": {fromGGUF: func(c call) any {
		var b strings.Builder
		for _, v := range c.list(0) {
			text, _ := v.(string)
			b.WriteString(text)
		}
		return b.String()
	}},
}

// rhythm returns the first layer in which the argument holds, and after how many layers it
// does again; 0 for none, and for layers without such an order.
func (c call) rhythm() (first, period int64) {
	values := c.env.Each(c.args[0])
	n := int64(len(values))
	for first < n && values[first] != true {
		first++
	}
	if first == n {
		return 0, n + 1 // in no layer
	}
	for period = 1; period <= n; period++ {
		fits := first < period
		for i, v := range values {
			fits = fits && (v == true) == (int64(i)%period == first)
		}
		if fits {
			return first, period
		}
	}
	return first, 0
}
