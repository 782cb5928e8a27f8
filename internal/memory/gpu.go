package memory

// GPU is how a model divides where a device has less memory than it takes: whole layers, the
// last ones first on the device, as -ngl counts them.
type GPU struct {
	Layers  int   `json:"layers"`    // of the model's and its output, as many as fit
	Of      int   `json:"of"`        // all of them
	Bytes   int64 `json:"bytes"`     // on the device: weights, cache, states and buffers
	Left    int64 `json:"left"`      // of what was given, less what is kept free
	Longest int64 `json:"longest"`   // tokens of the longest context if all fits, else 0
	Free    int64 `json:"kept_free"` // as llama.cpp leaves it for drivers
}

// Free is what llama.cpp's own fitting leaves on each device.
const Free = 1 << 30

// Divide computes how many layers of a model fit into so many bytes of a device. It takes a
// processor's buffers for the device's; it was not measured on a device.
func Divide(h *Header, o Options, bytes int64) (*GPU, error) {
	at := func(context int64) (*GPU, error) {
		o := o
		if context > 0 {
			o.Context = context
		}
		return divide(h, o, bytes)
	}
	g, err := at(0)
	if err != nil || g.Layers < g.Of {
		return g, err
	}
	// The cache grows with each step, so the longest context is found by halving.
	low, high := int64(1), int64(maxCount/padding-1)
	for low < high {
		middle := (low + high + 1) / 2
		if d, err := at(middle * padding); err == nil && d.Layers == d.Of {
			low = middle
		} else {
			high = middle - 1
		}
	}
	g.Longest = low * padding
	return g, nil
}

func divide(h *Header, o Options, bytes int64) (*GPU, error) {
	n, err := Of(h, o)
	if err != nil {
		return nil, err
	}
	m, err := modelOf(h)
	if err != nil {
		return nil, err
	}
	c := &checked{}
	r, s := m.stateOf(c)
	units := make([]int64, m.layers+1) // the last is the output
	for i := range h.Tensors {
		t := &h.Tensors[i]
		switch layer := layerOf(t.Name); {
		case layer >= 0 && layer < m.layers:
			units[layer] = c.add(units[layer], t.Bytes)
		case t.Name == output || t.Name == "output_norm.weight" || t.Name == "output_norm.bias" || t.Name == "output.bias":
			units[m.layers] = c.add(units[m.layers], t.Bytes)
		}
	}
	if t := m.tied(); t != nil {
		units[m.layers] = c.add(units[m.layers], t.Bytes)
	}
	for i, kv := range n.KV.Layers {
		units[i] = c.add(units[i], kv.K, kv.V)
		if m.hasState(i) {
			units[i] = c.add(units[i], c.mul(4, max(o.Parallel, 1), c.add(r, s)))
		}
	}
	g := &GPU{Of: len(units), Free: Free, Bytes: n.Compute, Left: bytes - Free - n.Compute}
	for i := len(units) - 1; i >= 0 && units[i] <= g.Left; i-- {
		g.Layers++
		g.Left -= units[i]
		g.Bytes = c.add(g.Bytes, units[i])
	}
	if g.Layers == 0 {
		g.Bytes, g.Left = 0, max(bytes-Free, 0)
	}
	return g, nil
}
