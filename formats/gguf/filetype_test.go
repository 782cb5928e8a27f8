package gguf

import (
	"testing"

	"github.com/tensorfs/tensorfs"
)

func TestFileType(t *testing.T) {
	for _, test := range []struct {
		number uint64
		has    tensorfs.DType
		name   string
		fits   bool
	}{
		{0, tensorfs.F32, "F32", true},
		{15, tensorfs.Q4_K, "Q4_K_M", true},
		{15, tensorfs.Q5_0, "Q4_K_M", false}, // rows that are not multiples of 256 have another type
		{15 + guessed, tensorfs.Q4_K, "Q4_K_M", true},
		{22, tensorfs.IQ3_XXS, "IQ3_XS", true},
		{22, tensorfs.IQ3_S, "IQ3_XS", true},
		{38, tensorfs.MXFP4, "MXFP4_MOE", true},
		{38, tensorfs.TL1, "TL1", true},
		{40, tensorfs.I2_S, "I2_S", true},
		{40, tensorfs.Q1_0, "Q1_0", true},
		{40, tensorfs.F16, "Q1_0", false},
		{4, tensorfs.F16, "", false}, // of a time before GGUF
		{1 << 63, tensorfs.F16, "", false},
	} {
		name, fits := FileType(test.number, func(d tensorfs.DType) bool { return d == test.has })
		if name != test.name || fits != test.fits {
			t.Errorf("%d of %s: %q %v", test.number, test.has, name, fits)
		}
	}
}
