package views

import (
	"encoding/binary"
	"math"
	"sync"
)

// scratch holds source blocks that must be rearranged before they are decoded.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// float32At returns element i of a run of F32.
func float32At(b []byte, i int64, bigEndian bool) float32 {
	if bigEndian {
		return math.Float32frombits(binary.BigEndian.Uint32(b[4*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}
