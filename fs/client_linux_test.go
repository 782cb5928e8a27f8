package fs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// clients are what a client process can do with a mount.
var clients = map[string]func(args []string) error{
	"readall": clientReadAll,
}

// clientReadAll compares every file with what it should hold.
func clientReadAll(args []string) error {
	mnt := args[0]
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	for _, dir := range []string{"raw", "f16", "joined"} {
		for _, p := range parts(size) {
			path := dir + "/" + p.name
			got, err := os.ReadFile(filepath.Join(mnt, path))
			if err != nil {
				return err
			}
			n := p.n
			if dir == "f16" {
				n *= 2
			}
			w := make([]byte, n)
			if err := want(w, path, size, 0); err != nil {
				return err
			}
			if !bytes.Equal(got, w) {
				return fmt.Errorf("%s: %d wrong bytes", path, len(got))
			}
		}
	}
	return nil
}
