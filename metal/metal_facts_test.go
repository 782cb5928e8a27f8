package metal

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestLeftOf(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct{ recommended, allocated, want int64 }{
		{0, 0, 0},
		{0, gib, 0},
		{96 * gib, 0, 95 * gib},
		{96 * gib, 20*gib + 5, 75*gib - 5},
		{gib, 0, 1}, // and not 0, which would mean that it is not known
		{8 * gib, 9 * gib, 1},
		{math.MaxInt64, math.MaxInt64, 1},
	} {
		if got := leftOf(c.recommended, c.allocated); got != c.want {
			t.Errorf("%d recommended, %d allocated: %d, want %d", c.recommended, c.allocated, got, c.want)
		}
	}
}

func TestSysctlNumber(t *testing.T) {
	for _, c := range []struct {
		b    string
		want int64
	}{
		{"", 0},
		{"\x00", 0},
		{"\x00\x40\x00\x00", 16384},
		{"\x00\x10\x00\x00\x00\x00\x00\x00", 4096},
		{"\xff\xff\xff\xff\xff\xff\xff\xff", math.MaxInt64},
		{"\x00\x40\x00\x00\x00", 0},
	} {
		if got := sysctlNumber([]byte(c.b)); got != c.want {
			t.Errorf("%x: %d, want %d", c.b, got, c.want)
		}
	}
}

func TestNoSuchDevice(t *testing.T) {
	for _, c := range []struct {
		id   uint64
		seen []uint64
		want string
	}{
		{0, nil, "metal: no Metal device on this machine"},
		{7, nil, "ID 7 (this machine has none)"},
		{7, []uint64{4294968341, 2}, "ID 7 (this machine's have 4294968341, 2)"},
	} {
		if err := noSuchDevice(c.id, c.seen); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d of %d: %v", c.id, c.seen, err)
		}
	}
}
