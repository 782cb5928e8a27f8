package packing

import (
	"encoding/binary"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// order is a module's tensor with the group of each column.
type order struct {
	t             *tensorfs.Tensor
	group, groups int64
	none          bool // -1 everywhere means that the module has no order

	mu     sync.Mutex
	loaded bool
	at     []int32 // nil if the columns' groups are one after the other
}

// load returns the groups of all columns, nil if these are one after the other.
func (o *order) load() ([]int32, error) {
	if o == nil {
		return nil, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded {
		return o.at, tensorfs.Check(o.t.Data)
	}
	at, sorted, absent := make([]int32, o.t.Shape[0]), true, 0
	var wrongAt error
	err := withBytes(o.t, 0, o.t.Data.Size(), func(src []byte) {
		for k := range at {
			at[k] = int32(binary.LittleEndian.Uint32(src[4*k:]))
		}
	})
	if err != nil {
		return nil, err
	}
	for k, g := range at {
		sorted = sorted && int64(g) == int64(k)/o.group
		if g == -1 {
			absent++
		}
		if wrongAt == nil && (g < 0 || int64(g) >= o.groups) {
			wrongAt = wrong(o.t, "puts column %d into group %d, and there are %d", k, g, o.groups)
		}
	}
	switch {
	case o.none && absent == len(at):
		sorted = int64(len(at)) <= o.group*o.groups
		if !sorted {
			return nil, wrong(o.t, "names no groups, and %d groups of %d are not %d columns", o.groups, o.group, len(at))
		}
	case wrongAt != nil:
		return nil, wrongAt
	}
	if !sorted {
		o.at = at
	}
	o.loaded = true
	return o.at, nil
}
