package kernel

import "sync"

// implementation is one way to run the decoders. Plain Go covers everything; an accelerated one covers what it lists,
// and the rest falls back to plain Go. Functions get lengths that are already checked.
type implementation struct {
	name   string                           // "go", "avx2", "neon"
	types  map[string]func(dst, src []byte) // by stored type name
	groups map[groupKey]groupFunc           // an accelerated one is only called for groups of a multiple of 32 elements, and 16 for nvfp4
	scaled map[string]scaledFunc            // by the stored type name of the codes
	picks  pickFunc                         // I2S's; nil means plain Go

	singlePicks func(dst, src []byte, n int, f [4]uint32) // the same to F32
	exact       func(dtype string, b []byte) int          // see exactHalves; nil means plain Go
	encoders    map[encoderKey]func(dst, src []byte)
	weighers    map[string]func(dst, src []byte, importance []float32) // by stored type name; see Encoder.Weigh
	splits      map[string]func(dst, src []byte)                       // only of codes, by stored type name
	repacks     map[groupKey]repackFunc                                // an accelerated one is only called for groups of a multiple of 32 elements, and 16 for nvfp4
}

// groupKey names a grouped encoding up to its group size.
type groupKey struct {
	mode  string
	bits  int
	scale string // dtype of scales and biases
}

// groupFunc decodes groups of the given number of elements; see Group.Decode.
type groupFunc = func(dst, codes, scales, biases []byte, factor float32, group int)

// repackFunc repacks groups of the given number of elements; see Repack.Repack.
type repackFunc = func(dst, codes, scales, biases []byte, group int) (exact int)

// scaledFunc decodes 8-bit floats times a scale, any number of them; see Decoder.Scaled.
type scaledFunc = func(dst, src []byte, scale float32)

// pickFunc decodes whole blocks of n bytes of 2-bit codes: bits 7-6 of the bytes choose the first n halves of a block
// from h, bits 5-4 the next n and so on.
type pickFunc = func(dst, src []byte, n int, h [4]uint16)

var (
	// accelerated returns this machine's implementation besides plain Go; may be nil. Like all tables of
	// functions it is made at its first use: a command that decodes nothing does not wait for it.
	accelerated = sync.OnceValue(native)
	// acceleratedSingle is the same for decoders to F32.
	acceleratedSingle = sync.OnceValue(nativeSingle)
)

// plain is the specification as an implementation, for tests that compare accelerated ones with it.
func plain(to Float) *implementation {
	p := &implementation{name: "go", types: map[string]func(dst, src []byte){}, groups: goSingles(), scaled: map[string]scaledFunc{}, singlePicks: pickSingles}
	if to == Half {
		p.weighers = map[string]func(dst, src []byte, importance []float32){}
		for _, e := range encoderTypes {
			if e.Weigh != nil {
				p.weighers[e.Name] = e.Weigh
			}
		}
		p.groups, p.picks, p.singlePicks, p.encoders, p.repacks = goGroups(), pickHalves, nil, goEncoders(), goRepacks()
		p.splits = map[string]func(dst, src []byte){}
		for _, s := range goSplits {
			p.splits[s.Name] = s.Codes
		}
	}
	for _, t := range decodersTo(to) {
		p.types[t.Name] = t.Decode
		if t.Scaled != nil {
			p.scaled[t.Name] = t.Scaled
		}
	}
	return p
}
