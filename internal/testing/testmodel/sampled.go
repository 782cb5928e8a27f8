package testmodel

import (
	"hash/fnv"
	"path/filepath"
	"strings"
	"testing"
)

// Sampled reports whether a test in which no architecture matters reads a model of testdata: the
// short form reads one of eight among the toys of architectures, which differ in little else, and
// every other model.
func Sampled(path string) bool {
	_, toy, isToy := strings.Cut(filepath.ToSlash(path), "architectures/")
	if !isToy || !testing.Short() {
		return true
	}
	toy, _, _ = strings.Cut(toy, "/")
	h := fnv.New32a()
	h.Write([]byte(strings.TrimSuffix(toy, filepath.Ext(toy))))
	return h.Sum32()%8 == 0
}
