package gguf

import "github.com/tensorfs/tensorfs"

// guessed is added to a general.file_type that llama.cpp derived from the tensors.
const guessed = 1024

// fileTypes names the values of general.file_type as llama-quantize does, with the
// type that such a file has tensors of. BitNet's programs gave three numbers another
// meaning before llama.cpp used them: there the tensors decide.
var fileTypes = []struct {
	number uint64
	name   string
	has    tensorfs.DType
}{
	{0, "F32", tensorfs.F32},
	{1, "F16", tensorfs.F16},
	{2, "Q4_0", tensorfs.Q4_0},
	{3, "Q4_1", tensorfs.Q4_1},
	{7, "Q8_0", tensorfs.Q8_0},
	{8, "Q5_0", tensorfs.Q5_0},
	{9, "Q5_1", tensorfs.Q5_1},
	{10, "Q2_K", tensorfs.Q2_K},
	{11, "Q3_K_S", tensorfs.Q3_K},
	{12, "Q3_K_M", tensorfs.Q3_K},
	{13, "Q3_K_L", tensorfs.Q3_K},
	{14, "Q4_K_S", tensorfs.Q4_K},
	{15, "Q4_K_M", tensorfs.Q4_K},
	{16, "Q5_K_S", tensorfs.Q5_K},
	{17, "Q5_K_M", tensorfs.Q5_K},
	{18, "Q6_K", tensorfs.Q6_K},
	{19, "IQ2_XXS", tensorfs.IQ2_XXS},
	{20, "IQ2_XS", tensorfs.IQ2_XS},
	{21, "Q2_K_S", tensorfs.Q2_K},
	{22, "IQ3_XS", tensorfs.IQ3_S},
	{22, "IQ3_XS", tensorfs.IQ3_XXS},
	{23, "IQ3_XXS", tensorfs.IQ3_XXS},
	{24, "IQ1_S", tensorfs.IQ1_S},
	{25, "IQ4_NL", tensorfs.IQ4_NL},
	{26, "IQ3_S", tensorfs.IQ3_S},
	{27, "IQ3_M", tensorfs.IQ3_S},
	{28, "IQ2_S", tensorfs.IQ2_XS},
	{29, "IQ2_M", tensorfs.IQ2_S},
	{30, "IQ4_XS", tensorfs.IQ4_XS},
	{31, "IQ1_M", tensorfs.IQ1_M},
	{32, "BF16", tensorfs.BF16},
	{36, "TQ1_0", tensorfs.TQ1_0},
	{37, "TQ2_0", tensorfs.TQ2_0},
	{38, "MXFP4_MOE", tensorfs.MXFP4},
	{38, "TL1", tensorfs.TL1},
	{39, "NVFP4", tensorfs.NVFP4},
	{39, "TL2", tensorfs.TL2},
	{40, "Q1_0", tensorfs.Q1_0},
	{40, "I2_S", tensorfs.I2_S},
	{41, "Q2_0", tensorfs.Q2_0},
}

// FileType names a value of general.file_type ("Q4_K_M"), "" if it is unknown. has tells
// which types the file's tensors have. fits reports whether the type that such a file
// mainly uses is among them: the key is only a hint.
func FileType(number uint64, has func(tensorfs.DType) bool) (name string, fits bool) {
	for _, f := range fileTypes {
		switch {
		case f.number != number&^guessed:
		case has(f.has):
			return f.name, true
		case name == "":
			name = f.name
		}
	}
	return name, false
}
