package kernel

import "sync"

// Encoder turns numbers into whole blocks of a stored type.
type Encoder struct {
	Name   string                // ggml's name of the type
	Elems  int                   // elements per block
	Bytes  int                   // stored bytes per block
	In     int                   // bytes of the numbers of a block
	Encode func(dst, src []byte) // len(src) = n*In, len(dst) = n*Bytes, any n >= 0, no overlap; nil if ggml makes the type only by an importance matrix

	// Weigh encodes whole rows of F32 by an importance matrix: how much the number in each
	// column of a row counts, which has len(importance) columns, a multiple of Elems. It is
	// nil if ggml ignores the matrix; Encode is the same then.
	Weigh func(dst, src []byte, importance []float32)
}

// encoderTypes is the table of types that numbers can be turned into, with the plain Go encoder.
var encoderTypes = []Encoder{
	{Name: "BF16", Elems: 1, In: 4, Bytes: 2, Encode: toBF16},
	{Name: "Q4_0", Elems: 32, In: 128, Bytes: 18, Encode: toQ4_0, Weigh: rowsOf(32, 18, importantQ4_0)},
	{Name: "Q8_0", Elems: 32, In: 128, Bytes: 34, Encode: toQ8_0},
	weighed("Q4_1", 32, 20, toQ4_1),
	weighed("Q5_0", 32, 22, toQ5_0),
	weighed("Q5_1", 32, 24, toQ5_1),
	weighed("Q2_K", 256, 84, superQ2_K.encode),
	weighed("Q3_K", 256, 110, superQ3_K.encode),
	weighed("Q4_K", 256, 144, superQ4_K.encode),
	weighed("Q5_K", 256, 176, superQ5_K.encode),
	weighed("Q6_K", 256, 210, superQ6_K.encode),
	weighedOnly("IQ1_S", 256, 50, toIQ1_S),
	weighed("IQ1_M", 256, 56, toIQ1_M),
	weighedOnly("IQ2_XXS", 256, 66, latticeIQ2_XXS.encode),
	weighedOnly("IQ2_XS", 256, 74, latticeIQ2_XS.encode),
	weighed("IQ2_S", 256, 82, latticeIQ2_S.encode),
	weighed("IQ3_XXS", 256, 98, latticeIQ3_XXS.encode),
	weighed("IQ3_S", 256, 110, latticeIQ3_S.encode),
	weighed("IQ4_NL", 32, 18, toIQ4_NL),
	weighed("IQ4_XS", 256, 136, toIQ4_XS),
	unweighed("MXFP4", 32, 17, toMXFP4),
	unweighed("TQ1_0", 256, 54, toTQ1_0),
	unweighed("TQ2_0", 256, 66, toTQ2_0),
}

// blockEncoder makes one block of numbers, whose columns have an importance unless that is nil. sigma is the mean square
// of all numbers of the row, for the types that want it; without an importance it is 0.
type blockEncoder func(dst []byte, x, importance []float32, sigma float32)

// unweighed is the row of a type for which an importance changes nothing.
func unweighed(name string, elems, bytes int, block blockEncoder) Encoder {
	rows := rowsOf(elems, bytes, block)
	return Encoder{Name: name, Elems: elems, In: 4 * elems, Bytes: bytes, Encode: func(dst, src []byte) { rows(dst, src, nil) }}
}

// weighed is the row of a type whose blocks differ with an importance.
func weighed(name string, elems, bytes int, block blockEncoder) Encoder {
	e := unweighed(name, elems, bytes, block)
	e.Weigh = rowsOf(elems, bytes, block)
	return e
}

// weighedOnly is the row of a type that there is only with an importance.
func weighedOnly(name string, elems, bytes int, block blockEncoder) Encoder {
	e := weighed(name, elems, bytes, block)
	e.Encode = nil
	return e
}

// numbersOfBlocks are the numbers of blocks that are being encoded: a call by a value would put them on the heap each time.
var numbersOfBlocks = sync.Pool{New: func() any { return new([256]float32) }}

// rowsOf encodes blocks, and with an importance whole rows.
func rowsOf(elems, bytes int, block blockEncoder) func(dst, src []byte, importance []float32) {
	return func(dst, src []byte, importance []float32) {
		numbers := numbersOfBlocks.Get().(*[256]float32)
		defer numbersOfBlocks.Put(numbers)
		x := numbers[:elems]
		for len(src) > 0 {
			row, sigma := src[:4*elems], float32(0)
			if importance != nil {
				row = src[:4*len(importance)]
				for i := 0; i < len(row); i += 4 {
					v := numberF32(row[i:])
					sigma += float32(v * v)
				}
				sigma /= float32(len(importance))
			}
			src = src[len(row):]
			for of := importance; len(row) > 0; row = row[4*elems:] {
				for i := range x {
					x[i] = numberF32(row[4*i:])
				}
				block(dst[:bytes:bytes], x, of[:min(elems, len(of))], sigma)
				dst = dst[bytes:]
				of = of[min(elems, len(of)):]
			}
		}
	}
}

// LookupEncoder returns the fastest encoder of this machine for a stored type from F32.
func LookupEncoder(name string) (Encoder, bool) { return LookupEncoderFrom(name, "F32") }

// LookupEncoderFrom returns the encoder of this machine for a stored type from another, if it has one that is faster
// than decoding to F32 first.
func LookupEncoderFrom(name, from string) (Encoder, bool) {
	e, ok := encoders()[encoderKey{name, from}]
	return e, ok
}

// encoderKey names the types that an encoder makes and takes.
type encoderKey struct{ to, from string }

// encoders holds what LookupEncoderFrom returns.
var encoders = sync.OnceValue(func() map[encoderKey]Encoder {
	table := map[encoderKey]Encoder{}
	for _, e := range encoderTypes {
		for _, from := range []string{"F32", "F16", "BF16"} {
			key := encoderKey{e.Name, from}
			encode := goEncoders()[key]
			if from == "F32" && e.Encode == nil {
				table[key] = e
				continue
			}
			if fast := accelerated(); fast != nil && fast.encoders[key] != nil {
				encode = fast.encoders[key]
			}
			if encode == nil {
				continue
			}
			e := e
			e.In = e.Elems * typeOf(from).Bytes
			if fast := accelerated(); fast != nil && fast.weighers[e.Name] != nil {
				e.Weigh = fast.weighers[e.Name]
			}
			e.Encode = func(dst, src []byte) {
				checkBlocks(e.Name, len(dst), len(src), e.Bytes, e.In)
				encode(dst, src)
			}
			table[key] = e
		}
	}
	return table
})

// goEncoders is the plain Go implementation.
var goEncoders = sync.OnceValue(func() map[encoderKey]func(dst, src []byte) {
	t := map[encoderKey]func(dst, src []byte){}
	for _, e := range encoderTypes {
		if e.Encode != nil {
			t[encoderKey{e.Name, "F32"}] = e.Encode
		}
	}
	return t
})
