package pick

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// plainTypes are the types of projectors that hold the same numbers, exact types first.
var plainTypes = []string{"f32", "bf16", "f16"}

// Projector returns the file in a folder with the vision tower of its model, by name: the
// only GGUF file with mmproj in its name (Docker's model.mmproj is one), or the most exact
// of several that differ only in their type. It is "" without one; the error names the
// files if the choice is ambiguous.
func Projector(files []string) (string, error) {
	var found []string
	stems := map[string]bool{}
	best := len(plainTypes)
	name := ""
	for _, f := range files {
		base := strings.ToLower(path.Base(f))
		if ext := path.Ext(base); ext != ".mmproj" && (ext != ".gguf" || !strings.Contains(base, "mmproj")) {
			continue
		}
		found = append(found, f)
		stem, rank := strings.TrimSuffix(base, path.Ext(base)), -1
		for i, t := range plainTypes {
			words := strings.FieldsFunc(stem, func(r rune) bool { return strings.ContainsRune("-_.", r) })
			if at := slices.Index(words, t); at >= 0 {
				stem, rank = strings.Join(slices.Delete(words, at, at+1), "-"), i
				break
			}
		}
		stems[stem] = true
		if rank < 0 {
			stems[base] = true // of a type that is not known
		} else if rank < best {
			best, name = rank, f
		}
	}
	switch {
	case len(found) < 2:
		return strings.Join(found, ""), nil
	case len(stems) == 1:
		return name, nil
	}
	slices.Sort(found)
	return "", fmt.Errorf("there are %d vision towers: %s", len(found), strings.Join(found[:min(len(found), 8)], ", "))
}
