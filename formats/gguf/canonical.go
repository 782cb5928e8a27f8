package gguf

import (
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/names"
)

// Name gives the tensors of one model their canonical names, all at once. arch
// is what [File.Architecture] says. It returns what a user should know of those
// that could not have theirs.
func Name(ts []tensorfs.Tensor, arch string) (warnings []string) {
	src := make([]names.Source, len(ts))
	for i := range ts {
		src[i] = names.Source{Name: ts[i].Source, Shape: ts[i].Shape}
	}
	for i, r := range names.Map(names.GGUF, arch, src) {
		ts[i].Name = r.Name
		if r.Reason != "" {
			warnings = append(warnings, "tensor "+r.Reason)
		}
	}
	return warnings
}

// Config returns the config of a model of f's metadata and the named tensors ts.
func (f *File) Config(ts []tensorfs.Tensor) []tensorfs.Field {
	get := func(key string) (any, bool) {
		v := f.Value(key)
		return v, v != nil
	}
	shape := func(name string) ([]int64, bool) {
		for i := range ts { // asked for a handful of names
			if ts[i].Name == name {
				return ts[i].Shape, true
			}
		}
		return nil, false
	}
	return config.FromGGUF(get, shape, layers(ts))
}

// layers returns how many layers the names of tensors count.
func layers(ts []tensorfs.Tensor) int {
	n := 0
	for i := range ts {
		rest, ok := strings.CutPrefix(ts[i].Name, "layers.")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ".")
		if i, err := strconv.ParseUint(number, 10, 20); err == nil { // package names ends at 999999
			n = max(n, int(i)+1)
		}
	}
	return n
}
