package kernel

// Encoder turns numbers into whole blocks of a stored type.
type Encoder struct {
	Name   string                // ggml's name of the type
	Elems  int                   // elements per block
	Bytes  int                   // stored bytes per block
	In     int                   // bytes of the numbers of a block
	Encode func(dst, src []byte) // len(src) = n*In, len(dst) = n*Bytes, any n >= 0, no overlap
}

// encoderTypes is the table of types that numbers can be turned into, with the plain Go encoder.
var encoderTypes = []Encoder{
	{Name: "BF16", Elems: 1, In: 4, Bytes: 2, Encode: toBF16},
	{Name: "Q4_0", Elems: 32, In: 128, Bytes: 18, Encode: toQ4_0},
	{Name: "Q8_0", Elems: 32, In: 128, Bytes: 34, Encode: toQ8_0},
}

// LookupEncoder returns the fastest encoder of this machine for a stored type from F32.
func LookupEncoder(name string) (Encoder, bool) { return LookupEncoderFrom(name, "F32") }

// LookupEncoderFrom returns the encoder of this machine for a stored type from another, if it has one that is faster
// than decoding to F32 first.
func LookupEncoderFrom(name, from string) (Encoder, bool) {
	e, ok := encoders[encoderKey{name, from}]
	return e, ok
}

// encoderKey names the types that an encoder makes and takes.
type encoderKey struct{ to, from string }

// encoders holds what LookupEncoderFrom returns.
var encoders = func() map[encoderKey]Encoder {
	table := map[encoderKey]Encoder{}
	for _, e := range encoderTypes {
		for _, from := range []string{"F32", "F16", "BF16"} {
			key := encoderKey{e.Name, from}
			encode := goEncoders[key]
			if accelerated != nil && accelerated.encoders[key] != nil {
				encode = accelerated.encoders[key]
			}
			if encode == nil {
				continue
			}
			e := e
			e.In = e.Elems * typeOf(from).Bytes
			e.Encode = func(dst, src []byte) {
				checkBlocks(e.Name, len(dst), len(src), e.Bytes, e.In)
				encode(dst, src)
			}
			table[key] = e
		}
	}
	return table
}()

// goEncoders is the plain Go implementation.
var goEncoders = func() map[encoderKey]func(dst, src []byte) {
	t := map[encoderKey]func(dst, src []byte){}
	for _, e := range encoderTypes {
		t[encoderKey{e.Name, "F32"}] = e.Encode
	}
	return t
}()
