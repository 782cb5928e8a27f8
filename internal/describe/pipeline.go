package describe

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/images"
	"github.com/tensorfs/tensorfs/formats/library"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/conceal"
	"github.com/tensorfs/tensorfs/internal/rescue"
	"github.com/tensorfs/tensorfs/views/tree"
)

// Pipeline describes a pipeline of diffusers.
type Pipeline struct {
	Name     string         `json:"name"`
	Model    string         `json:"model"` // as it was named
	Path     string         `json:"path"`
	Format   string         `json:"format"`
	Class    string         `json:"pipeline"`
	Parts    []PipelinePart `json:"parts"`
	Warnings []string       `json:"warnings"`
}

// PipelinePart describes a part: one with weights has a Model or an Error.
type PipelinePart struct {
	images.Part
	Missing bool            `json:"missing,omitempty"` // its directory is not there
	Model   json.RawMessage `json:"model,omitempty"`
	Error   string          `json:"error,omitempty"`

	Info *Info `json:"-"` // the same as Model; nil without one
}

// PipelineOf describes a pipeline by the user's name for it. open opens its parts, one after another;
// an error of usage ends that, and any other is of the part.
func PipelineOf(p *library.Pipeline, named string, open func(*library.Model) (*tree.Tree, error)) (*Pipeline, error) {
	info := &Pipeline{Name: filepath.Base(p.Name), Model: conceal.Name(named), Path: p.Name, Format: "diffusers", Class: p.Class, Warnings: append([]string{}, p.Now().Warnings...)}
	if Stored().MatchString(named) {
		info.Name = named
	}
	for _, m := range p.Now().Models {
		part := PipelinePart{Part: images.Part{Name: m.Name}}
		if x := p.Part(m.Name); x != nil {
			part.Part = *x
		}
		if err := part.describe(m, open); cli.IsA[cli.UsageError](err) {
			return nil, err
		} else if err != nil {
			part.Error = tensorfs.OneLine(err.Error())
		}
		info.Parts = append(info.Parts, part)
	}
	for _, x := range p.Parts {
		if p.Model(x.Name) == nil {
			info.Parts = append(info.Parts, PipelinePart{Part: x, Missing: !p.HasDir(x.Name)})
		}
	}
	slices.SortStableFunc(info.Parts, func(a, b PipelinePart) int { return strings.Compare(a.Name, b.Name) })
	return info, nil
}

// describe opens a part and describes it.
func (p *PipelinePart) describe(m *library.Model, open func(*library.Model) (*tree.Tree, error)) (err error) {
	defer rescue.To(&err, m.Path())
	t, err := open(m)
	if err != nil {
		return err
	}
	defer t.Model.Close()
	p.Info = Tree(t, m.Call)
	p.Model, err = json.Marshal(p.Info) // now, while the model is open
	return err
}

// WholeModels names the directories of whole models that a part has, "-" if it has none.
func (p *PipelinePart) WholeModels() string {
	var names []string
	for _, w := range p.Info.Whole {
		if w.Files.Reason == "" {
			names = append(names, w.Name+"/")
		}
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}
