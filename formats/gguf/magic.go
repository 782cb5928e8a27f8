package gguf

import (
	"fmt"
	"path"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/foreign"
	"github.com/tensorfs/tensorfs/internal/source"
)

const magic = "GGUF"

// older holds the magics of the formats before GGUF.
var older = map[string]string{
	"lmgg": "it is a GGML file, from before GGUF",
	"fmgg": "it is a GGMF file, from before GGUF",
	"tjgg": "it is a GGJT file, from before GGUF",
	"algg": "it is a GGLA adapter, from before GGUF",
	"ggml": "it is a big-endian GGML file, from before GGUF",
	"ggmf": "it is a big-endian GGMF file, from before GGUF",
	"ggjt": "it is a big-endian GGJT file, from before GGUF",
	"ggla": "it is a big-endian GGLA adapter, from before GGUF",
}

// broken holds magics that no program writes.
var broken = map[string]string{
	"FUGG": "its magic is FUGG, GGUF with its bytes swapped",
	"gguf": "its magic is gguf in lower case",
}

// Match reports whether a file that begins with head is for this package: GGUF,
// or something similar enough that [OpenFS] can say what it is.
func Match(head []byte) bool {
	if len(head) < len(magic) {
		return false
	}
	m := string(head[:len(magic)])
	return m == magic || older[m] != "" || broken[m] != ""
}

// checkMagic returns an error unless head, the first bytes of m, is the magic.
func checkMagic(m source.File, head []byte) error {
	if string(head) == magic {
		return nil
	}
	e := &tensorfs.FormatError{File: m.Path(), Offset: 0}
	switch {
	case older[string(head)] != "":
		e.Problem, e.Advice, e.Kind = older[string(head)], "convert it to GGUF", tensorfs.ErrUnsupported
	case broken[string(head)] != "":
		e.Problem = broken[string(head)]
	case len(head) < len(magic):
		e.Problem = fmt.Sprintf("it has %d bytes, too few for a GGUF file", len(head))
	default:
		if problem, advice := foreign.File(path.Base(m.Path()), m); problem != "" { // as a shard may be
			e.Problem, e.Advice, e.Offset = problem, advice, -1
			break
		}
		e.Problem, e.Advice = fmt.Sprintf("it begins with the bytes % x, not with %s: it is not a GGUF file", head, magic), "name a GGUF file"
	}
	return e
}
