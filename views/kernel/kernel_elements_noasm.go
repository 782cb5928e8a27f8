//go:build !amd64 || purego

package kernel

func nativeAdd(_, _ []byte) int { return 0 }

func nativeSubtract(_, _ []byte) int { return 0 }

func nativeMultiply([]byte, float32) int { return 0 }

func nativeDivide([]byte, float32) int { return 0 }

func nativeDivideEach(_, _ []byte) int { return 0 }

func nativeKeepLarger([]byte, int32) int { return 0 }

func nativeElect(_, _, _, _ []byte, _ float32) int { return 0 }

func nativeRoundF32([]byte) int { return 0 }

func nativeRoundF16([]byte) int { return 0 }

func nativeRoundBF16([]byte) int { return 0 }
