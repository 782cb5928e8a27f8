package kernel

import (
	"fmt"
	"sync"
)

// Split takes blocks of one of ggml's types apart into codes, scales and biases, as MLX stores groups: the inverse of
// [Repack], for more types. The numbers stay the same:
//
//	Q4_0, Q5_0, Q8_0   d * (q - z)   is   code*scale + bias   with scale d and bias -z*d
//	Q4_1, Q5_1         d * q + m     is   code*scale + bias   with scale d and bias m
//	MXFP4, NVFP4       the same codes and scales in another order
//
// A bias beyond the halves, 2^16 and above, becomes infinity.
type Split struct {
	Name   string // ggml's name of the type
	Mode   string // as in [LookupGroup]
	Bits   int    // per code
	Group  int    // elements per scale
	Scale  string // dtype of the scales and biases
	Biased bool   // whether there are biases
	Elems  int    // elements per block
	Bytes  int    // stored bytes per block

	// Each writes its stream of n blocks: len(src) = n*Bytes, any n >= 0; len(dst) is n times Elems*Bits/8 for Codes
	// and n times Elems/Group numbers for Scales and Biases. Biases is nil unless Biased.
	Codes, Scales, Biases func(dst, src []byte)
}

// LookupSplit returns the splitting of a stored type. It is false where MLX has no such codes in such groups.
func LookupSplit(name string) (Split, bool) {
	s, ok := splits()[name]
	return s, ok
}

// splits holds what LookupSplit returns.
var splits = sync.OnceValue(func() map[string]Split {
	table := make(map[string]Split, len(goSplits))
	for _, s := range goSplits {
		d := typeOf(s.Name)
		s.Elems, s.Bytes = d.Elems, d.Bytes
		scale := scaleBytes(s.Scale)
		if fast := accelerated(); fast != nil && fast.splits[s.Name] != nil {
			s.Codes = fast.splits[s.Name]
		}
		s.Codes = s.checked(s.Elems*s.Bits/8, s.Codes)
		s.Scales = s.checked(s.Elems/s.Group*scale, s.Scales)
		if s.Biased = s.Biases != nil; s.Biased {
			s.Biases = s.checked(s.Elems/s.Group*scale, s.Biases)
		}
		table[s.Name] = s
	}
	return table
})

// checked checks the lengths that callers pass, for blocks that become so many bytes.
func (s Split) checked(to int, split func(dst, src []byte)) func(dst, src []byte) {
	return func(dst, src []byte) {
		if n := len(src) / s.Bytes; len(src) != n*s.Bytes || len(dst) != n*to {
			panic(fmt.Sprintf("kernel: %s: %d bytes into %d", s.Name, len(src), len(dst)))
		}
		split(dst, src)
	}
}
