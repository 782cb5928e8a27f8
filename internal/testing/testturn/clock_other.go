//go:build !linux

package testturn

import "time"

var begin = time.Now()

func now() time.Duration { return time.Since(begin) }
