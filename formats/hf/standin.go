package hf

import (
	"path"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/foreign"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/source"
)

// standIn returns a better error than the parser's, if there is one: the file may
// be something else.
func standIn(m source.File, err error) error {
	head := make([]byte, min(64, m.Size()))
	if tensorfs.ReadFull(m, head, 0) != nil || safetensors.Match(head, m.Size()) {
		return err
	}
	if problem, advice := foreign.File(path.Base(m.Path()), m); problem != "" {
		return &tensorfs.FormatError{File: m.Path(), Offset: -1, Problem: problem, Advice: advice}
	}
	return err
}
