package oci

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// flatten returns the files of an artifact: links are replaced by the files that they lead
// to, and a container's layers are merged into what they leave of its folder models. The
// readers of manifests and archives checked the names, since the work is done for each part of
// a name.
func flatten(list []file, image bool) ([]file, error) {
	if image {
		return models(list)
	}
	var files []file
	byName := map[string]file{}
	for _, f := range list {
		if f.Kind == "" && !f.Beside {
			files = append(files, f)
			byName[f.Name] = f
		}
	}
	for _, f := range list {
		if f.Kind != symlink && f.Kind != hardLink || f.Beside {
			continue
		}
		if _, ok := byName[f.Name]; ok {
			return nil, fmt.Errorf("%s is there twice", tensorfs.Quote(f.Name))
		}
		if f.Kind == symlink && path.IsAbs(f.Link) {
			return nil, leads(f)
		}
		byName[f.Name] = f
	}
	files, err := withLinks(files, byName)
	if err != nil {
		return nil, err
	}
	return withBeside(files, list), nil
}

// withBeside adds the files beside a model that are no other model and have names of their own.
func withBeside(files, list []file) []file {
	names, folders := map[string]bool{}, map[string]bool{}
	note := func(name string) {
		names[name] = true
		for dir := path.Dir(name); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, f := range files {
		note(f.Name)
	}
	free := func(name string) bool {
		if names[name] || folders[name] {
			return false
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if names[dir] {
				return false
			}
		}
		return true
	}
	for _, f := range list {
		ext := path.Ext(f.Name)
		if f.Beside && f.Kind == "" && ext != ".gguf" && ext != ".safetensors" && free(f.Name) {
			files = append(files, f)
			note(f.Name)
		}
	}
	return files
}

// models returns what the layers of a container leave of its folder models.
func models(list []file) ([]file, error) {
	o := overlay{byName: map[string]file{}, folders: map[string]bool{}}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Digest == list[0].Digest && list[n].Layer == list[0].Layer {
			n++
		}
		if err := o.put(list[:n]); err != nil {
			return nil, err
		}
		list = list[n:]
	}
	if f, ok := o.byName[modelsFolder]; ok {
		if f.Kind == symlink {
			return nil, fmt.Errorf("its folder %s is a link to %s", modelsFolder, tensorfs.Quote(f.Link))
		}
		return nil, fmt.Errorf("its %s is not a folder", modelsFolder)
	}
	var files []file
	for _, name := range slices.Sorted(maps.Keys(o.byName)) {
		if f := o.byName[name]; f.Kind == "" {
			files = append(files, f)
		}
	}
	files, err := withLinks(files, o.byName)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("it is a container without files in a folder %s, not a model", modelsFolder)
	}
	for i := range files {
		files[i].Name = strings.TrimPrefix(files[i].Name, modelsFolder+"/")
	}
	return files, err
}

// overlay is what layers of a container make, one after the other.
type overlay struct {
	byName  map[string]file // files and links
	folders map[string]bool // that were there at some time
}

// put adds a layer. What it removes is of the layers below, wherever in it that is said.
func (o *overlay) put(layer []file) error {
	for _, f := range layer {
		switch f.Kind {
		case gone:
			delete(o.byName, f.Name)
			o.removeBelow(f.Name)
		case emptied:
			o.removeBelow(f.Name)
		}
	}
	for _, f := range layer {
		switch f.Kind {
		case gone, emptied:
			continue
		case folder:
			delete(o.byName, f.Name)
			o.folders[f.Name] = true
			continue
		case hardLink: // its file is there already, and may be removed later
			target := path.Clean("/" + f.Link)[1:]
			to, ok := o.byName[target]
			if !ok {
				return leads(f)
			}
			to.Name = f.Name
			f = to
		}
		if o.folders[f.Name] {
			o.removeBelow(f.Name)
		}
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			delete(o.byName, dir)
			o.folders[dir] = true
		}
		o.byName[f.Name] = f
	}
	return nil
}

// removeBelow removes what is in a folder.
func (o *overlay) removeBelow(name string) {
	maps.DeleteFunc(o.byName, func(n string, _ file) bool { return name == "." || strings.HasPrefix(n, name+"/") })
}

// leads is the error of a link that leads to nothing that the artifact has.
func leads(f file) error {
	return fmt.Errorf("%s is a link to %s, which it does not hold", tensorfs.Quote(f.Name), tensorfs.Quote(f.Link))
}

// maxLinks is how many links one leads through.
const maxLinks = 16

// withLinks adds the files that links among byName lead to. Links to folders are left out, and
// GGUF files under another such name, which would be a second model.
func withLinks(files []file, byName map[string]file) ([]file, error) {
	folders := map[string]bool{".": true}
	for name := range byName {
		for dir := path.Dir(name); !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		f := byName[name]
		if f.Kind != symlink && f.Kind != hardLink {
			continue
		}
		to := f
		for range maxLinks {
			if to.Kind == "" {
				break
			}
			at := target(to)
			if folders[at] {
				break
			}
			next, ok := byName[at]
			if !ok {
				return nil, leads(f)
			}
			to = next
		}
		switch at := target(to); {
		case to.Kind == "" && path.Ext(name) == ".gguf" && path.Ext(to.Name) == ".gguf":
		case to.Kind == "":
			to.Name = name
			files = append(files, to)
		case !folders[at]:
			return nil, leads(f)
		}
	}
	return files, nil
}

// target returns the name that a link leads to, from the top. What leads out is "..", or begins with it.
func target(f file) string {
	if f.Kind == hardLink || strings.HasPrefix(f.Link, "/") {
		return path.Clean("/" + f.Link)[1:]
	}
	return path.Join(path.Dir(f.Name), f.Link)
}
