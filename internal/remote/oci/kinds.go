package oci

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// layerType describes the layers of a media type.
type layerType struct {
	stem, ext string // of the file, if no annotation gives its path; "" if one must
	tar       bool   // its members are the files
	extra     bool   // a model can do without it
	beside    bool   // it has what no other layer has: scripts, and also tokenizers and templates
}

// kinds are the layers that are files of models, by media type, without what follows
// a plus sign. Others are passed over.
var kinds = map[string]layerType{
	// Docker's model runner.
	"application/vnd.docker.ai.gguf.v3":             {stem: "model", ext: ".gguf"},
	"application/vnd.docker.ai.safetensors":         {stem: "model", ext: ".safetensors"},
	"application/vnd.docker.ai.mmproj":              {stem: "model", ext: ".mmproj", extra: true},
	"application/vnd.docker.ai.chat.template.jinja": {stem: "template", ext: ".jinja", extra: true},
	"application/vnd.docker.ai.license":             {stem: "LICENSE", extra: true},
	"application/vnd.docker.ai.model.file":          {},
	"application/vnd.docker.ai.vllm.config.tar":     {tar: true},
	"application/vnd.docker.ai.dir.tar":             {tar: true},
	// ModelPack.
	"application/vnd.cncf.model.weight.v1.raw":         {},
	"application/vnd.cncf.model.weight.config.v1.raw":  {},
	"application/vnd.cncf.model.doc.v1.raw":            {extra: true},
	"application/vnd.cncf.model.weight.v1.tar":         {tar: true},
	"application/vnd.cncf.model.weight.config.v1.tar":  {tar: true},
	"application/vnd.cncf.model.doc.v1.tar":            {tar: true, extra: true},
	"application/vnd.cncf.model.weight.v1.gguf":        {stem: "model", ext: ".gguf"}, // as Docker wrote them
	"application/vnd.cncf.model.weight.v1.safetensors": {stem: "model", ext: ".safetensors"},
	// KitOps.
	"application/vnd.kitops.modelkit.model.v1.tar":     {tar: true},
	"application/vnd.kitops.modelkit.modelpart.v1.tar": {tar: true},
	"application/vnd.kitops.modelkit.code.v1.tar":      {tar: true, beside: true},
	"application/vnd.cncf.model.code.v1.tar":           {tar: true, beside: true}, // the same in its other format
}

// images are the configs of containers. A container with a folder models is a model, as
// KServe mounts them.
var images = map[string]bool{
	"application/vnd.oci.image.config.v1+json":       true,
	"application/vnd.docker.container.image.v1+json": true,
}

// imageLayers are the layers of containers, without what follows a plus sign or .tar.
var imageLayers = map[string]bool{
	"application/vnd.oci.image.layer.v1.tar":                  true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar": true,
	"application/vnd.docker.image.rootfs.diff.tar":            true,
	"application/vnd.docker.image.rootfs.foreign.diff.tar":    true,
}

// file is a file of an artifact, or an archive of some.
type file struct {
	Name   string       // "" of an archive
	Digest string       // of the layer
	Size   int64        // of the layer
	Part   *remote.Part `json:",omitempty"` // of the layer, or of what it unpacks to
	// Unpacked marks a Part that can only be read from the cache.
	Unpacked bool `json:",omitempty"`
	// What else a member of an archive is than a file.
	Kind kind   `json:",omitempty"`
	Link string `json:",omitempty"` // where it leads
	// Beside marks a file that is used only if the model's own layers have nothing of its
	// name.
	Beside bool `json:",omitempty"`
	// Of an archive.
	Layer   int    `json:",omitempty"` // its number, from 1 on
	Packing string `json:",omitempty"` // how it is compressed, "" if it is not
	Content string `json:",omitempty"` // its digest when it is unpacked, "" if unknown
}

// split takes a layer's media type apart: what it is, and how it is compressed.
func (l *layer) split() (base, packing string) {
	base, packing, _ = strings.Cut(l.MediaType, "+")
	if stem, ext, ok := strings.Cut(base, ".tar."); ok && packing == "" {
		return stem + ".tar", ext
	}
	return base, packing
}

// isImage reports whether the artifact is a container: it has a container's layers. They
// may have titles, like a modelcar's layers.
func (m *manifest) isImage() bool {
	return images[m.kind] && slices.ContainsFunc(m.layers, func(l layer) bool {
		base, _ := l.split()
		return imageLayers[base] && !l.unpack
	})
}

// archive is a layer whose members are files. The layer is the i-th.
func (m *manifest) archive(i int, packing string) (file, error) {
	l := &m.layers[i]
	if packing != "" && !unpacks(packing) {
		return file{}, fmt.Errorf("its layer %d is compressed (%s), which tensorfs does not unpack", i+1, tensorfs.Printable(packing))
	}
	return file{Digest: l.Digest, Size: l.Size, Layer: i + 1, Packing: packing, Content: l.content}, nil
}

// file returns the file that a layer is, by the name that the manifest gives it, "" if it is named later.
func (l *layer) file(name string) (file, error) {
	if problem := remote.CheckName(name); problem != "" && name != "" {
		return file{}, fmt.Errorf("%s %s", tensorfs.Quote(name), problem)
	}
	return file{Name: name, Digest: l.Digest, Size: l.Size}, nil
}

// files returns which files an artifact has, and its archives, in the order of its
// layers.
func (m *manifest) files() ([]file, error) {
	if m.isImage() {
		return m.imageFiles()
	}
	var list []file
	numbered := map[layerType][]int{} // of list, without names yet
	for i, l := range m.layers {
		base, packing := l.split()
		k, ok := kinds[base]
		switch {
		case !ok || packing != "" && k.extra:
			continue
		case k.tar:
			x, err := m.archive(i, packing)
			if err != nil && !k.beside {
				return nil, err
			}
			x.Beside = k.beside
			if err == nil {
				list = append(list, x)
			}
			continue
		case packing != "":
			return nil, fmt.Errorf("its layer %d is a compressed file (%s), which tensorfs does not unpack", i+1, tensorfs.Printable(packing))
		}
		switch {
		case l.path != "":
		case k.stem != "":
			numbered[k] = append(numbered[k], len(list))
		case k.extra:
			continue
		default:
			return nil, fmt.Errorf("its layer %d (%s) has no name", i+1, tensorfs.Printable(l.MediaType))
		}
		x, err := l.file(l.path)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	for k, at := range numbered {
		for i, x := range at {
			list[x].Name = k.stem + k.ext
			if len(at) > 1 { // the shards of one model, in order
				list[x].Name = fmt.Sprintf("%s-%05d-of-%05d%s", k.stem, i+1, len(at), k.ext)
			}
		}
	}
	if slices.ContainsFunc(list, func(x file) bool { return !x.Beside }) {
		return withoutPacked(list), nil
	}
	return m.plain()
}

// withoutPacked leaves out what is beside a model and compressed, unless the model is, too.
func withoutPacked(list []file) []file {
	packed := func(beside bool) func(x file) bool {
		return func(x file) bool { return x.Packing != "" && x.Beside == beside }
	}
	if slices.ContainsFunc(list, packed(false)) {
		return list
	}
	return slices.DeleteFunc(list, packed(true))
}

// imageFiles returns the layers of a container.
func (m *manifest) imageFiles() (list []file, err error) {
	for i, l := range m.layers {
		base, packing := l.split()
		if !imageLayers[base] {
			continue
		}
		x, err := m.archive(i, packing)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// plain returns the files of an artifact that is not declared as a model: layers with
// titles, as ORAS pushes files, and folders as archives.
func (m *manifest) plain() (list []file, err error) {
	for i, l := range m.layers {
		_, packing := l.split()
		switch {
		case l.unpack:
			if !unpacks(packing) { // ORAS compresses by gzip, whatever the media type is
				packing = ""
			}
			x, err := m.archive(i, packing)
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		case l.title == "" || strings.Contains(l.MediaType, "gzip") || strings.Contains(l.MediaType, "zstd"):
		default:
			x, err := l.file(l.title)
			if err != nil {
				return nil, err
			}
			list = append(list, x)
		}
	}
	if len(list) == 0 && images[m.kind] {
		return nil, errors.New("it is a container, not a model")
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("it is not an artifact with a model that tensorfs knows, but %s", tensorfs.Quote(m.kind))
	}
	return list, nil
}

// inFolder returns the files below the only directory with safetensors, and that
// directory, where the model is not at the top: archives have their paths from where
// they were made.
func inFolder(list []file) ([]file, string) {
	folder := ""
	for _, f := range list {
		dir := path.Dir(f.Name)
		switch {
		case path.Ext(f.Name) == ".gguf":
			return list, ""
		case path.Ext(f.Name) != ".safetensors" || dir == folder:
		case dir == "." || folder != "":
			return list, ""
		default:
			folder = dir
		}
	}
	if folder == "" {
		return list, ""
	}
	var below []file
	for _, f := range list {
		if rel, ok := strings.CutPrefix(f.Name, folder+"/"); ok {
			f.Name = rel
			below = append(below, f)
		}
	}
	return below, folder
}
