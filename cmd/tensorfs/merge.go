package main

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// merge prints the models of a merge, if the model is one.
func (s *infoScreen) merge() {
	if m := s.info.Merge; m != nil {
		s.row("merge", 2, "%s", tensorfs.Printable(fmt.Sprintf("%s of %s", m.Method, strings.Join(m.Models, ", "))))
	}
}
