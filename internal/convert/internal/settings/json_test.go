package settings

import "testing"

// TestDecimal holds that the digits of numbers equal Python's.
func TestDecimal(t *testing.T) {
	for x, want := range map[float32]string{1e-5: "1e-05", 1e-6: "1e-06", 500000: "500000.0", 1e7: "10000000.0", 999999.44: "999999.44", 0.1: "0.1", 0: "0.0", 1e16: "1e+16", 1.19: "1.19", 0.0001: "0.0001"} {
		if got := decimal(float64(x), 32); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
	if got := decimal(1.0/3, 64); got != "0.3333333333333333" {
		t.Error(got)
	}
}

// TestConfigPart holds that the library, which rounds down, rotates as many numbers as the file
// states.
func TestConfigPart(t *testing.T) {
	for head := int64(2); head <= 512; head++ {
		for turned := int64(2); turned < head; turned += 2 {
			part := turningPart(head, turned).(float64)
			if got := int64(float64(head) * part); got != turned {
				t.Fatalf("%d of %d: %v gives %d", turned, head, part, got)
			}
		}
	}
}
