//go:build !amd64 || purego

package kernel

func nativeMoments(*Moments, []byte) int { return 0 }

func nativeDistances(_ *Distances, _, _ []byte) int { return 0 }
