package kernel

// ScaledF8 decodes F8_E4M3 codes of one block of a checkpoint with FP8 scales: code * scale in F32, rounded once.
// len(dst) = 2*len(src).
func ScaledF8(dst, src []byte, scale float32) {
	checkBlocks("F8_E4M3", len(dst), len(src), 2, 1)
	scaledE4M3(dst, src, scale)
}

// ScaledF8E5M2 is ScaledF8 for F8_E5M2 codes.
func ScaledF8E5M2(dst, src []byte, scale float32) {
	checkBlocks("F8_E5M2", len(dst), len(src), 2, 1)
	scaledE5M2(dst, src, scale)
}

var scaledE4M3, scaledE5M2 = fastScaled("F8_E4M3"), fastScaled("F8_E5M2")

func fastScaled(name string) scaledFunc {
	if accelerated != nil && accelerated.scaled[name] != nil {
		return accelerated.scaled[name]
	}
	return goScaled[name]
}
