package lora

import (
	"slices"
	"sync"
)

// maxKept bounds the bytes of decoded matrices that are kept for all tensors of a model. A
// larger one is kept on its own.
const maxKept = 64 << 20

// kept are decoded matrices, the most recently used first.
type kept struct {
	mu    sync.Mutex
	list  []*decoded
	bytes int64
}

// decoded are the matrices of a pair.
type decoded struct {
	pair *pair

	mu          sync.Mutex // held while they are decoded
	left, right []float32
	ready       bool
}

// get returns the matrices of a pair. Who holds them may go on to use them when they are
// not kept any more.
func (k *kept) get(p *pair) (left, right []float32, err error) {
	d := k.entryOf(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ready {
		return d.left, d.right, nil
	}
	if d.left, d.right, err = p.decode(); err != nil {
		k.drop(d)
		return nil, nil, err
	}
	d.ready = true
	return d.left, d.right, nil
}

// entryOf returns the place of a pair, at the front of the list.
func (k *kept) entryOf(p *pair) *decoded {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.list, func(d *decoded) bool { return d.pair == p }); i >= 0 {
		d := k.list[i]
		copy(k.list[1:i+1], k.list[:i])
		k.list[0] = d
		return d
	}
	d := &decoded{pair: p}
	k.list = slices.Insert(k.list, 0, d)
	k.bytes += p.bytes()
	for k.bytes > maxKept && len(k.list) > 1 {
		last := k.list[len(k.list)-1]
		k.list = k.list[:len(k.list)-1]
		k.bytes -= last.pair.bytes()
	}
	return d
}

// drop forgets what could not be decoded.
func (k *kept) drop(d *decoded) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.list, d); i >= 0 {
		k.list = slices.Delete(k.list, i, i+1)
		k.bytes -= d.pair.bytes()
	}
}
