package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/views/tree"
)

// errManyAdapted is about adapters for more than one model.
var errManyAdapted = cli.UsageError{Err: errors.New("--lora is for one model, the adapter's base, and this is a library; mount only the base with --lora")}

// openPlain is open without the adapters.
func (f *modelFlags) openPlain(path string) (*tree.Tree, error) {
	adapters, checked := f.LoRA, f.checked
	f.LoRA, f.checked = nil, nil
	defer func() { f.LoRA, f.checked = adapters, checked }()
	return f.open(path)
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
