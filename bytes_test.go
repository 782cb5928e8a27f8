package tensorfs_test

import (
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/datatest"
)

func TestBytes(t *testing.T) {
	for n := range 20 {
		b := datatest.Random(uint64(n), n)
		datatest.Check(t, tensorfs.Bytes(b), b)
	}
	datatest.Check(t, tensorfs.Bytes(nil), nil)
	if tensorfs.Extents(tensorfs.Bytes("x")) != nil {
		t.Error("bytes in memory are in a file")
	}
}
