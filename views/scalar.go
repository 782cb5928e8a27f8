package views

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/x448/float16"
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

// scaleReaders read element i of a run of scales, by their dtype.
var scaleReaders = map[tensorfs.DType]func(b []byte, i int64) float32{
	tensorfs.F32: func(b []byte, i int64) float32 { return float32At(b, i, false) },
	tensorfs.BF16: func(b []byte, i int64) float32 {
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
	},
	tensorfs.F16: func(b []byte, i int64) float32 {
		return float16.Frombits(binary.LittleEndian.Uint16(b[2*i:])).Float32()
	},
}
