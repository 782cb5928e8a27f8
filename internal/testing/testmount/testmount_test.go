package testmount

import "testing"

func TestMayAdminister(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nCapEff:\t000001ffffffffff\n": true,
		"CapEff:\t00000000a80425fb\n":           false, // what Docker leaves to root
		"CapEff:\t0000000000200000\n":           true,
		"Name:\tx\n":                            true,
	} {
		if got := mayAdminister([]byte(status)); got != want {
			t.Errorf("%q: %v, want %v", status, got, want)
		}
	}
}
