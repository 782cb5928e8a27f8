package memory

import (
	"fmt"

	"github.com/tensorfs/tensorfs"
)

// cache adds up keys, values and states.
func (n *Need) cache(c *checked, m *model, s *resolved) error {
	row := func(t tensorfs.DType, elements int64, flag string) (int64, error) {
		size, ok := t.Size([]int64{elements})
		if !ok {
			block, _ := t.Block()
			return 0, fmt.Errorf("%s %s: a row of the cache has %d elements, which are no whole blocks of %d: llama.cpp refuses that", flag, t, elements, block)
		}
		return size, nil
	}
	n.KV.Layers = make([]LayerKV, m.layers)
	r, state := m.stateOf(c)
	for i := range m.layers {
		if m.hasState(i) {
			n.State.R = c.add(n.State.R, c.mul(4, s.sequences, r))
			n.State.S = c.add(n.State.S, c.mul(4, s.sequences, state))
		}
		if !m.isCached(i) {
			continue
		}
		cells, key, value, pairs := s.cells, m.key, m.value, m.pairs[i]
		if m.hasWindow(i) {
			cells, key, value = s.cellsSWA, m.keyWindow, m.valueWindow
		}
		if m.mla {
			pairs = 1
		}
		cells = c.mul(cells, s.streams)
		k, err := row(s.typeK, c.mul(pairs, key), "--cache-type-k")
		if err != nil {
			return err
		}
		if m.indexed[i] {
			more, err := row(s.typeK, m.indexer, "--cache-type-k")
			if err != nil {
				return err
			}
			k = c.add(k, more)
		}
		layer := &n.KV.Layers[i]
		layer.K = c.mul(cells, k)
		if !m.mla {
			v, err := row(s.typeV, c.mul(pairs, value), "--cache-type-v")
			if err != nil {
				return err
			}
			layer.V = c.mul(cells, v)
		}
		n.KV.K, n.KV.V = c.add(n.KV.K, layer.K), c.add(n.KV.V, layer.V)
	}
	return nil
}

// stateOf returns how many numbers a layer keeps of a sequence: of its convolution, and of what
// it goes on with. Which kind of layer it is, its keys say.
func (m *model) stateOf(c *checked) (r, s int64) {
	switch heads := largest(m.heads); {
	case m.short > 0:
		return c.mul(m.width, m.short-1), 0
	case m.kda > 0:
		return c.mul(3, max(m.conv-1, 0), heads, m.kda), c.mul(m.kda, m.kda, heads)
	case m.wkv > 0:
		return c.mul(m.shift, m.width), c.mul(m.width, m.wkv)
	}
	return c.mul(max(m.conv-1, 0), c.add(m.inner, c.mul(2, m.groups, m.state))), c.mul(m.state, m.inner)
}
