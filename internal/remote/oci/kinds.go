package oci

import (
	"fmt"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// layerType says what a layer of a media type is.
type layerType struct {
	stem, ext string // of the file, where no annotation gives its path; "" where one must
	tar       bool   // its members are the files
	extra     bool   // a model can do without it
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
}

// images are the configs of containers, which people confuse with models.
var images = []string{"application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"}

// file is a file of an artifact, or an archive of some.
type file struct {
	Name   string // "" of an archive
	Digest string
	Size   int64        // of the layer
	Part   *remote.Part `json:",omitempty"`
}

// files returns which files an artifact has, and its archives, in the order of its
// layers.
func (m *manifest) files() ([]file, error) {
	var list []file
	numbered := map[layerType][]int{} // of list, without names yet
	for i, l := range m.layers {
		base, packing, packed := strings.Cut(l.MediaType, "+")
		k, ok := kinds[base]
		switch {
		case !ok || packed && k.extra:
			continue
		case packed:
			return nil, fmt.Errorf("its layer %d is compressed (%s), so that parts of it cannot be read", i+1, tensorfs.Printable(packing))
		case k.tar:
			list = append(list, file{Digest: l.Digest, Size: l.Size})
			continue
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
		list = append(list, file{Name: l.path, Digest: l.Digest, Size: l.Size})
	}
	for k, at := range numbered {
		for i, x := range at {
			list[x].Name = k.stem + k.ext
			if len(at) > 1 { // the shards of one model, in order
				list[x].Name = fmt.Sprintf("%s-%05d-of-%05d%s", k.stem, i+1, len(at), k.ext)
			}
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	return m.plain()
}

// plain returns the files of an artifact that says nothing of models: layers with
// titles, as ORAS pushes files.
func (m *manifest) plain() ([]file, error) {
	for _, image := range images {
		if m.kind == image {
			return nil, fmt.Errorf("it is a container, not a model")
		}
	}
	var list []file
	for _, l := range m.layers {
		if l.title == "" || strings.Contains(l.MediaType, "gzip") || strings.Contains(l.MediaType, "zstd") {
			continue
		}
		list = append(list, file{Name: l.title, Digest: l.Digest, Size: l.Size})
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
