package safetensors

import "github.com/tensorfs/tensorfs"

// dtypes is the complete list of the format's types by name, case-sensitive.
var dtypes = func() map[string]tensorfs.DType {
	m := make(map[string]tensorfs.DType)
	for t := range tensorfs.DTypes() {
		if t.Safetensors() {
			m[t.String()] = t
		}
	}
	return m
}()
