package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/views/tree"
)

// withAdapters is the name of a model with applied adapters.
func withAdapters(shown string, m *tensorfs.Model) string {
	for _, a := range m.Adapters {
		shown += "+" + a.String()
	}
	return shown
}

// errManyAdapted is about adapters for more than one model.
var errManyAdapted = cli.UsageError{Err: errors.New("--lora is for one model, the adapter's base, and this is a library; mount only the base with --lora")}

// openPlain is open without the adapters.
func (f *modelFlags) openPlain(path string) (*tree.Tree, error) {
	adapters, checked := f.LoRA, f.checked
	f.LoRA, f.checked = nil, nil
	defer func() { f.LoRA, f.checked = adapters, checked }()
	return f.open(path)
}

// appliedLoRA is an adapter that is applied to a model.
type appliedLoRA struct {
	Source  string  `json:"source"`
	Scale   float64 `json:"scale"`
	Tensors int     `json:"tensors"` // that it changes
}

// adapterInfo is an adapter's description of itself.
type adapterInfo struct {
	Kind    string   `json:"kind"` // lora, rslora or dora
	Rank    int      `json:"rank"`
	Alpha   float64  `json:"alpha"`
	Base    string   `json:"base"`
	Targets []string `json:"targets"`
	Problem string   `json:"problem,omitempty"` // why it cannot be applied
}

// describeAdapters lists the adapters applied to a model, or describes a model that is an
// adapter itself.
func (info *modelInfo) describeAdapters(m *tensorfs.Model) {
	for _, a := range m.Adapters {
		applied := appliedLoRA{Source: a.Source, Scale: a.Scale}
		for i := range m.Tensors {
			if c := m.Tensors[i].Change; c != nil && slices.Contains(c.By, a) {
				applied.Tensors++
			}
		}
		info.LoRA = append(info.LoRA, applied)
	}
	if !adapter.Is(m) {
		return
	}
	a, err := adapter.Of(m)
	if err != nil {
		info.Adapter = &adapterInfo{Targets: []string{}, Problem: tensorfs.OneLine(err.Error())}
		return
	}
	info.Adapter = &adapterInfo{Kind: a.Kind, Rank: a.Rank, Alpha: a.Alpha, Base: a.Base, Targets: append([]string{}, a.Targets...)}
}

// adapters prints the applied ones, or the model if it is one.
func (s *infoScreen) adapters() {
	for _, a := range s.info.LoRA {
		s.row("lora", 2, "%s", s.shown(fmt.Sprintf("%s: %s changed", tensorfs.Adapter{Source: a.Source, Scale: a.Scale}, cli.Plural(a.Tensors, "tensor"))))
	}
	a := s.info.Adapter
	switch {
	case a == nil:
		return
	case a.Problem != "":
		s.row("adapter", 3, "cannot be applied: %s", tensorfs.Printable(a.Problem))
		return
	}
	text := fmt.Sprintf("%s of rank %d", a.Kind, a.Rank)
	if a.Alpha != 0 { // which a GGUF file need not say
		text += fmt.Sprintf(", alpha %v", a.Alpha)
	}
	s.row("adapter", 1, "%s", text)
	if a.Base != "" {
		s.line("base", a.Base)
	}
	const most = 12 // of a GGUF adapter they are tensors
	targets := strings.Join(a.Targets[:min(len(a.Targets), most)], ", ")
	if n := len(a.Targets) - most; n > 0 {
		targets += fmt.Sprintf(" and %d more", n)
	}
	s.row("targets", 3, "%s", tensorfs.Printable(targets))
}
