package cache

import (
	"container/list"
	"sync"
)

// memoryLimit bounds the cells that a Store keeps in memory because they cannot be
// on its disk.
const memoryLimit = 256 << 20

// memory keeps the cells that were used last.
type memory struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	cells map[memoryKey]*list.Element
	order list.List // of *memoryCell, the last used first
}

type memoryKey struct {
	e *Entry
	i int64
}

type memoryCell struct {
	memoryKey
	b []byte // never written to once it is here
}

func newMemory(limit int64) *memory {
	return &memory{limit: limit, cells: map[memoryKey]*list.Element{}}
}

// get returns the bytes of a cell, nil if they are not in memory.
func (m *memory) get(e *Entry, i int64) []byte {
	if e.inMemory.Load() == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	el := m.cells[memoryKey{e, i}]
	if el == nil {
		return nil
	}
	m.order.MoveToFront(el)
	return el.Value.(*memoryCell).b
}

// has reports whether get would return bytes. It does not count as a use.
func (m *memory) has(e *Entry, i int64) bool {
	if e.inMemory.Load() == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cells[memoryKey{e, i}] != nil
}

// put copies the bytes of a cell, and drops others for them.
func (m *memory) put(e *Entry, i int64, b []byte) {
	c := &memoryCell{memoryKey{e, i}, append([]byte(nil), b...)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.gone { // its last user closed it concurrently
		return
	}
	if el := m.cells[c.memoryKey]; el != nil {
		m.remove(el)
	}
	m.cells[c.memoryKey] = m.order.PushFront(c)
	m.bytes += int64(len(b))
	e.inMemory.Add(1)
	for m.bytes > m.limit {
		m.remove(m.order.Back())
	}
}

func (m *memory) remove(el *list.Element) {
	c := m.order.Remove(el).(*memoryCell)
	delete(m.cells, c.memoryKey)
	m.bytes -= int64(len(c.b))
	c.e.inMemory.Add(-1)
}

// drop drops all cells of an entry; gone marks that it accepts no more.
func (m *memory) drop(e *Entry, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.gone = e.gone || gone
	if e.inMemory.Load() == 0 {
		return
	}
	for el := m.order.Front(); el != nil; {
		next := el.Next()
		if el.Value.(*memoryCell).e == e {
			m.remove(el)
		}
		el = next
	}
}
