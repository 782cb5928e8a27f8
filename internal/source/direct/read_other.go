//go:build !linux

package direct

import "errors"

// supported is false: other systems read as they do.
const supported = false

func allocate(int) ([]byte, error)          { return nil, errors.ErrUnsupported }
func aligned(memory []byte) []byte          { return memory }
func release([]byte)                        {}
func reopen(int) (int, error)               { return 0, errors.ErrUnsupported }
func shut(int)                              {}
func pread(int, []byte, int64) (int, error) { return 0, errors.ErrUnsupported }
