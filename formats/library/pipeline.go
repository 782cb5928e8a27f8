package library

import (
	"path/filepath"
	"strings"

	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/pick"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Pipeline is a pipeline of diffusers. The models of its Library are the parts that have weights.
type Pipeline struct {
	*images.Pipeline
	*Library
}

// HasDir reports whether a part is there.
func (p *Pipeline) HasDir(part string) bool { return source.HasDir(filepath.Join(p.Name, part)) }

// Model returns the model of a part, nil if the part has no weights.
func (p *Pipeline) Model(part string) *Model {
	for _, m := range p.Now().Models {
		if m.Name == part {
			return m
		}
	}
	return nil
}

// At returns the model that a path in the pipeline's tree leads to, and the rest of the path. It returns
// nil if the path leads elsewhere.
func (p *Pipeline) At(path string) (*Model, string) {
	for _, m := range p.Now().Models {
		if rest, ok := strings.CutPrefix(path, m.Name); ok && (rest == "" || rest[0] == '/') {
			return m, strings.TrimPrefix(rest, "/")
		}
	}
	return nil, path
}

// OpenPipeline looks through the pipeline that a user names: a directory, or a repository in the local
// Hugging Face cache. It returns nil if the name is not a pipeline's, or none of its models is there.
func OpenPipeline(name string, o Options) *Pipeline {
	dir := name
	if rest, ok := strings.CutPrefix(name, hub.Prefix); ok {
		n, err := hub.ParseName(rest)
		if err != nil || n.Select != (pick.Select{}) {
			return nil
		}
		found, err := hub.Find(n, false)
		if err != nil {
			return nil
		}
		defer found.Close()
		dir = source.Of(found.FS()).Location(found.Dir)
	}
	const most = 1 << 20
	text, err := source.ReadRegular(filepath.Join(dir, images.PipelineFile), most)
	if err != nil {
		return nil
	}
	p, err := images.ParsePipeline(text)
	if err != nil {
		return nil
	}
	l, err := Open(dir, o)
	if err != nil || len(l.Now().Models) == 0 {
		return nil
	}
	return &Pipeline{p, l}
}
