//go:build !amd64 || purego

package kernel

func nativeLowRank(_ []byte, _, _ []float32, _, _, _, _ int, _ float32) int { return 0 }

func nativeSquares(*[4]float64, []byte) int { return 0 }

func nativeMultiplyDouble([]byte, float64) int { return 0 }
