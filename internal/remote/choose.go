package remote

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// shard is the name of one file of a split GGUF model.
var shard = regexp.MustCompile(`(?s)^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// Shard returns which file of how many of a split GGUF model a file is, from 1 on,
// as its name says. ok is false where it says nothing of the kind.
func Shard(name string) (stem string, i, n int, ok bool) {
	m := shard.FindStringSubmatch(name)
	if m == nil {
		return "", 0, 0, false
	}
	i, _ = strconv.Atoi(m[2])
	n, _ = strconv.Atoi(m[3])
	return m[1], i, n, 1 <= i && i <= n
}

// ShardName returns the name of a file of a split model: STEM-00001-of-00003.gguf.
func ShardName(stem string, i, n int, ext string) string {
	return fmt.Sprintf("%s-%05d-of-%05d%s", stem, i, n, ext)
}

// later reports whether a file is one of a split model, and not the first.
func later(name string) bool {
	_, i, _, ok := Shard(name)
	return ok && i > 1
}

// beside are GGUF files that come with models and are none themselves.
var beside = []string{"mmproj", "imatrix"}

// Choose returns which file of a listing is the model: "." where it is a directory
// of safetensors, else the one GGUF file, or the first of one that is split. Several
// are an error that names them.
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
