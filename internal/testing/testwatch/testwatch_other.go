//go:build !linux

package testwatch

import "testing"

// Need does nothing: nothing watches files here, and no test depends on it.
func Need(testing.TB) {}
