package main

import "github.com/tensorfs/tensorfs/metal"

// metalDevice returns the GPU with an id<MTLDevice>; 0 means the system's default.
func metalDevice(handle uintptr) (metal.Device, error) {
	if handle == 0 {
		return metal.NewMetal()
	}
	return metal.NewMetalFrom(handle)
}
