package architectures

import (
	"fmt"
	"slices"
	"strings"
)

// Traits of architectures; architectures.txt explains them.
const (
	WholeHeads    = "whole_heads"
	JoinedKV      = "joined_kv"
	After         = "after"
	Large         = "large"
	LargeIfShared = "large_if_shared"
	WideOutput    = "wide_output"
	WideIf        = "wide_if"
	Uncast        = "uncast"
	Released      = "released"
	Pools         = "pools"
	Silent        = "silent"
	Proportional  = "proportional"
	SpacesAfter   = "spaces_after"
)

var traits = []string{WholeHeads, JoinedKV, After, Large, LargeIfShared, WideOutput, WideIf, Uncast, Released, Pools, Silent, Proportional, SpacesAfter}

func isTrait(_ *Settings, x Item) error {
	if name, _, _ := strings.Cut(x.Text, "="); x.When != nil || !slices.Contains(traits, name) {
		return fmt.Errorf("there is no such trait, or it has a condition")
	}
	return nil
}

// Trait returns the value of a trait of an architecture, by GGUF's name, "" if the trait has none. It reads no
// whole block, as Said.
func Trait(gguf, trait string) (value string, ok bool) {
	for item := range itemsOf(gguf, "traits") {
		if name, value, _ := strings.Cut(item, "="); name == trait {
			return value, true
		}
	}
	return "", false
}

// HasTrait reports whether an architecture, by GGUF's name, has a trait.
func HasTrait(gguf, trait string) bool {
	_, ok := Trait(gguf, trait)
	return ok
}
