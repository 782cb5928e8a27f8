package hf_test

import (
	"github.com/tensorfs/tensorfs/formats/hf"
	"github.com/tensorfs/tensorfs/internal/source"
)

// match is hf.Match of a path.
func match(path string) bool {
	src, err := source.Dir(path, source.Inside)
	if err != nil {
		return false
	}
	defer src.Close()
	return hf.Match(src, ".")
}
