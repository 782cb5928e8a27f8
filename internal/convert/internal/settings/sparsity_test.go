package settings

import (
	"math"
	"testing"
)

// TestSparsity: the numbers equal torch.distributions' in PyTorch 2.14, and survive the way back.
func TestSparsity(t *testing.T) {
	for part, want := range map[float64]uint32{0.95: 0x3fd28a90, 0.5: 0, 0.9: 0x3fa409e1, 0.1: 0xbfa409e2, 0.99: 0x4014e2e4, 0.8: 0x3f57747e, 0.3: 0xbf063f1c, 0: 0xff800000} {
		got := normalQuantile(float32(part))
		if math.Float32bits(got) != want {
			t.Errorf("%v is %08x, want %08x", part, math.Float32bits(got), want)
		}
		if back, ok := partBelow(got); !ok || back != part {
			t.Errorf("%v comes back as %v, %v", part, back, ok)
		}
	}
	// Ollama's converter, of release 0.24.
	if back, ok := partBelow(math.Float32frombits(0x3fd28a8f)); !ok || back != 0.95 {
		t.Errorf("Ollama's number for 0.95 comes back as %v, %v", back, ok)
	}
	for _, x := range []float32{float32(math.NaN()), float32(math.Inf(1)), 1e9} {
		if part, ok := partBelow(x); ok {
			t.Errorf("%v is of %v", x, part)
		}
	}
}
