//go:build !linux

package source

// writes is empty on this system: only times detect a change.
var writes writeQueue

type (
	writeQueue struct{}
	watch      struct{}
)

func (writeQueue) add(int) (*watch, uint64)      { return nil, 0 }
func (writeQueue) remove(*watch)                 {}
func (writeQueue) written(*watch, uint64) string { return "" }
func (writeQueue) unwatched() string             { return "" }
