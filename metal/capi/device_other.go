//go:build !darwin

package main

import (
	"fmt"

	"github.com/tensorfs/tensorfs/metal"
)

func metalDevice(uintptr) (metal.Device, error) {
	return nil, fmt.Errorf("%w: Metal is there on macOS only; ask for TENSORFS_DEVICE_HOST", metal.ErrNoDevice)
}
