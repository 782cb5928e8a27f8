package safetensors

import "github.com/tensorfs/tensorfs"

// dtypes is the complete list of the format's types, case-sensitive.
var dtypes = map[string]tensorfs.DType{
	"BOOL":        tensorfs.Bool,
	"F4":          tensorfs.F4,
	"F6_E2M3":     tensorfs.F6_E2M3,
	"F6_E3M2":     tensorfs.F6_E3M2,
	"U8":          tensorfs.U8,
	"I8":          tensorfs.I8,
	"F8_E5M2":     tensorfs.F8_E5M2,
	"F8_E4M3":     tensorfs.F8_E4M3,
	"F8_E8M0":     tensorfs.F8_E8M0,
	"F8_E4M3FNUZ": tensorfs.F8_E4M3FNUZ,
	"F8_E5M2FNUZ": tensorfs.F8_E5M2FNUZ,
	"I16":         tensorfs.I16,
	"U16":         tensorfs.U16,
	"F16":         tensorfs.F16,
	"BF16":        tensorfs.BF16,
	"I32":         tensorfs.I32,
	"U32":         tensorfs.U32,
	"F32":         tensorfs.F32,
	"C64":         tensorfs.C64,
	"F64":         tensorfs.F64,
	"I64":         tensorfs.I64,
	"U64":         tensorfs.U64,
}
