package kernel

// Encoder turns F32 numbers into whole blocks of a stored type.
type Encoder struct {
	Name   string                // ggml's name of the type
	Elems  int                   // elements per block
	Bytes  int                   // stored bytes per block
	Encode func(dst, src []byte) // len(src) = 4*n*Elems, len(dst) = n*Bytes, any n >= 0, no overlap
}

// encoderTypes is the table of types that numbers can be turned into, with the plain Go encoder.
var encoderTypes = []Encoder{
	{Name: "BF16", Elems: 1, Bytes: 2, Encode: toBF16},
	{Name: "Q4_0", Elems: 32, Bytes: 18, Encode: toQ4_0},
	{Name: "Q8_0", Elems: 32, Bytes: 34, Encode: toQ8_0},
}

// LookupEncoder returns the fastest encoder of this machine for a stored type.
func LookupEncoder(name string) (Encoder, bool) {
	e, ok := encoders[name]
	return e, ok
}

// encoders holds what LookupEncoder returns.
var encoders = func() map[string]Encoder {
	table := make(map[string]Encoder, len(encoderTypes))
	for _, e := range encoderTypes {
		encode := e.Encode
		if accelerated != nil && accelerated.encoders[e.Name] != nil {
			encode = accelerated.encoders[e.Name]
		}
		e.Encode = func(dst, src []byte) {
			checkBlocks(e.Name, len(dst), len(src), e.Bytes, 4*e.Elems)
			encode(dst, src)
		}
		table[e.Name] = e
	}
	return table
}()
