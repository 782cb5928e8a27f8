package remote

import (
	"fmt"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
)

// later reports whether a file is one of a split model, and not the first.
func later(name string) bool {
	_, number, count, ok := gguf.Shard(name)
	return ok && 1 < number && number <= count
}

// beside are GGUF files that come with models and are not models themselves.
var beside = []string{"mmproj", "imatrix"}

// Choose returns the model among the files of a listing: "." for a directory of
// safetensors, else the only GGUF file, or the first shard of a split one. Several are an
// error that names them.
func (l *Listing) Choose() (string, error) {
	var models, others []string
	for i := range l.items {
		name := l.items[i].Name
		base := strings.ToLower(path.Base(name))
		switch {
		case path.Ext(name) == ".safetensors" && path.Dir(name) == ".":
			return ".", nil
		case path.Ext(base) != ".gguf" || later(name):
		case strings.HasPrefix(base, beside[0]) || strings.HasPrefix(base, beside[1]):
			others = append(others, name)
		default:
			models = append(models, name)
		}
	}
	if len(models) == 0 {
		models = others
	}
	switch len(models) {
	case 0:
		return ".", nil // the parsers say what is missing
	case 1:
		return models[0], nil
	}
	const most = 8
	text := ""
	for i, m := range models[:min(len(models), most)] {
		if i > 0 {
			text += ", "
		}
		text += tensorfs.Printable(m)
	}
	if len(models) > most {
		text += ", ..."
	}
	return "", tensorfs.Unsupported(l.Name, fmt.Sprintf("it holds %d models: %s", len(models), text), "name one of them")
}
