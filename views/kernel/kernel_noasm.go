//go:build purego || !(amd64 || arm64)

package kernel

// native returns nil: without assembly every decoder is plain Go.
func native() *implementation { return nil }

func nativeSingle() *implementation { return nil }
