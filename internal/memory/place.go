package memory

import "slices"

// node is a tensor of a graph: an input, the result of an operation, or a view of another.
type node struct {
	op      string
	bytes   int64
	sources []int // earlier nodes, without weights and cache tensors
	view    int   // the node whose bytes it shows, -1 for bytes of its own
	input   bool
	output  bool // it is kept to the end
}

// space is memory as ggml's allocator keeps it: free blocks in the order of their offsets.
// The last one has no end.
type space struct {
	c    *checked
	free []block
	peak int64
}

type block struct{ offset, bytes int64 }

// take returns where so many bytes are: in the smallest block that has room for them, of equals
// the later, and at the end if none has.
func (s *space) take(bytes int64) int64 {
	at := len(s.free) - 1
	for i, b := range s.free[:at] {
		if b.bytes >= bytes && (at == len(s.free)-1 || b.bytes <= s.free[at].bytes) {
			at = i
		}
	}
	b := &s.free[at]
	offset := b.offset
	b.offset = s.c.add(b.offset, bytes)
	if at < len(s.free)-1 {
		if b.bytes -= bytes; b.bytes == 0 {
			s.free = slices.Delete(s.free, at, at+1)
		}
	}
	s.peak = max(s.peak, s.c.add(offset, bytes))
	return offset
}

// give makes them free again, and one with their neighbours.
func (s *space) give(offset, bytes int64) {
	i, _ := slices.BinarySearchFunc(s.free, offset, func(b block, o int64) int {
		if b.offset < o {
			return -1
		}
		return 1
	})
	s.free = slices.Insert(s.free, i, block{offset, bytes})
	if i+1 < len(s.free) && offset+bytes == s.free[i+1].offset {
		if i+1 < len(s.free)-1 {
			s.free[i].bytes += s.free[i+1].bytes
		}
		s.free = slices.Delete(s.free, i+1, i+2)
	}
	if i > 0 && s.free[i-1].offset+s.free[i-1].bytes == offset {
		if i < len(s.free)-1 {
			s.free[i-1].bytes += s.free[i].bytes
		}
		s.free = slices.Delete(s.free, i, i+1)
	}
}

// place returns how many bytes a graph takes at most: each tensor has a place from its
// operation until its last use. unused are the bytes of the input of embeddings, which
// exists beside the input of tokens.
func place(c *checked, graph []node, unused int64) int64 {
	s := &space{c: c, free: []block{{}}}
	type state struct {
		offset      int64
		on          bool
		kids, views int
	}
	at := make([]state, len(graph))
	seen := make([]bool, len(graph))
	first := true
	for _, n := range graph {
		for _, i := range n.sources {
			if graph[i].input && !seen[i] {
				seen[i] = true
				at[i].offset, at[i].on = s.take(c.pad(graph[i].bytes, alignment)), true
				if first {
					s.take(c.pad(unused, alignment))
					first = false
				}
			}
			at[i].kids++
		}
		if n.view >= 0 {
			at[n.view].views++
		}
	}
	for id, n := range graph {
		if n.input {
			continue
		}
		if n.view < 0 && n.op != use {
			took := false
			for _, i := range n.sources {
				if graphs().inPlace[n.op] && graph[i].view < 0 && at[i].on && !graph[i].output && graph[i].bytes == n.bytes && at[i].kids == 1 && at[i].views == 0 {
					at[id].offset, at[i].on, took = at[i].offset, false, true
					break
				}
			}
			if !took {
				at[id].offset = s.take(c.pad(n.bytes, alignment))
			}
			at[id].on = true
		}
		for _, i := range n.sources {
			at[i].kids--
			if at[i].kids > 0 || at[i].views > 0 {
				continue
			}
			if root := graph[i].view; root >= 0 {
				if at[root].views--; at[root].views > 0 || at[root].kids > 0 {
					continue
				}
				i = root
			}
			if at[i].on && !graph[i].output {
				s.give(at[i].offset, c.pad(graph[i].bytes, alignment))
				at[i].on = false
			}
		}
	}
	return s.peak
}
