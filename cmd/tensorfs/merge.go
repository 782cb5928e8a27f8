package main

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// mergeInfo is what a merge is made of.
type mergeInfo struct {
	Method string   `json:"method"`
	Models []string `json:"models"` // as the recipe calls them
}

// merge prints what the model is made of, if it is a merge.
func (s *infoScreen) merge() {
	if m := s.info.Merge; m != nil {
		s.row("merge", 2, "%s", tensorfs.Printable(fmt.Sprintf("%s of %s", m.Method, strings.Join(m.Models, ", "))))
	}
}
