package nfs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// A handle is all that a client has of a file:
//
//	0   8 bytes   number of the node
//	8  16 bytes   first half of HMAC-SHA256 of these 8 bytes
const (
	numberBytes = 8
	macBytes    = 16
	handleBytes = numberBytes + macBytes
)

// keyBytes is the length of Options.Key.
const keyBytes = 32

// handles makes and checks handles.
type handles struct{ pool sync.Pool }

// derive returns a key for one purpose.
func derive(key []byte, purpose string, facts ...uint64) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(purpose))
	m.Write([]byte{0})
	for _, f := range facts {
		m.Write(binary.BigEndian.AppendUint64(nil, f))
	}
	return m.Sum(nil)
}

func newHandles(key []byte) *handles {
	return &handles{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

// put appends the handle of a node.
func (h *handles) put(dst []byte, number uint64) []byte {
	m := h.pool.Get().(hash.Hash)
	defer h.pool.Put(m)
	m.Reset()
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, number)
	m.Write(dst[start:])
	var sum [sha256.Size]byte
	return append(dst, m.Sum(sum[:0])[:macBytes]...)
}

// number returns the node of a handle, false if the handle is not ours.
func (h *handles) number(handle []byte) (uint64, bool) {
	if len(handle) != handleBytes {
		return 0, false
	}
	number := binary.BigEndian.Uint64(handle)
	var want [handleBytes]byte
	return number, hmac.Equal(h.put(want[:0], number), handle)
}
