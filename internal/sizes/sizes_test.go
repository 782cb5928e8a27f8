package sizes

import "testing"

func TestParse(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "7": 7, "4K": 4096, "8gb": 8 << 30, "1T": 1 << 40, "512M": 512 << 20, "8GiB": 8 << 30, "200g": 200 << 30, "24 GB": 24 << 30, "24 G": 24 << 30, "1.5T": 3 << 39, "0.5k": 512,
		"7.625 GiB": 61 << 27, "12B": 12, "12 B": 12, "4096T": 4 << 50,
	} {
		if n, ok := Parse(s); !ok || n != want {
			t.Errorf("%q: %d, %v, want %d", s, n, ok, want)
		}
	}
	for _, s := range []string{"", " ", "G", " G", ".5G", "1.G", "1.5", "1.2.3G", "-1", "-1G", "+1.-5G", "50%", "1e9", "1_000", "1,5G", "24  GB", "0x10", "9999999T", "99999999999T", "1X", "1 2G", "NaN", "-0.5G", "+1G", "-0", "1.5000G", " 24G", "24G "} {
		if n, ok := Parse(s); ok {
			t.Errorf("%q: %d", s, n)
		}
	}
}
