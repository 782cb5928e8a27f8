package metal

import (
	"errors"
	"fmt"
	"sync"
)

// shared holds values that are made when first asked for, given to everybody who
// asks, and dropped when the last holder lets go. Making one never keeps others
// waiting.
type shared[K comparable, V any] struct {
	mu     sync.Mutex
	slots  map[K]*slot[K, V]
	closed bool
	drop   func(V) error
}

// slot is one value and its holders.
type slot[K comparable, V any] struct {
	of   *shared[K, V]
	key  K
	refs int // guarded by of.mu
	once sync.Once
	val  V
	err  error
}

// acquire returns the slot of key, held once more. make is called for the first
// holder; all who wait for the same value share its error, and nobody holds it.
func (s *shared[K, V]) acquire(key K, make func() (V, error)) (*slot[K, V], error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	c := s.slots[key]
	if c == nil {
		if s.slots == nil {
			s.slots = map[K]*slot[K, V]{}
		}
		c = &slot[K, V]{of: s, key: key}
		s.slots[key] = c
	}
	c.refs++
	s.mu.Unlock()

	c.once.Do(func() {
		c.err = errors.New("making it panicked")
		c.val, c.err = make()
	})
	if c.err == nil {
		return c, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.refs--
	if s.slots[key] == c {
		delete(s.slots, key)
	}
	return nil, c.err
}

// hold adds a holder to a slot that may have none left.
func (c *slot[K, V]) hold() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.refs == 0 {
		return errReleased
	}
	c.refs++
	return nil
}

// release ends one holder's use; the last one's drops the value.
func (c *slot[K, V]) release() error {
	c.of.mu.Lock()
	if c.refs == 0 {
		c.of.mu.Unlock()
		return errReleased
	}
	c.refs--
	last := c.refs == 0
	if last {
		delete(c.of.slots, c.key)
	}
	c.of.mu.Unlock()
	if !last {
		return nil
	}
	return c.of.drop(c.val)
}

var errReleased = errors.New("it was released before")

// close makes every later acquire fail. While values are held it fails itself
// and returns their keys.
func (s *shared[K, V]) close() (held []K, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	for k := range s.slots {
		held = append(held, k)
	}
	if held != nil {
		return held, fmt.Errorf("%d in use", len(held))
	}
	s.closed = true
	return nil, nil
}
