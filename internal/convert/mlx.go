package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs/internal/near"
)

// MLX selects how the weights in mlx/ are quantised, in the terms of mlx_lm.convert.
type MLX struct {
	Bits, Group int    // of all modules that nothing else is said of
	Mode        string // affine, mxfp4, mxfp8, nvfp4
	CPU         bool   // by the rules of MLX on a CPU
	Requantise  bool   // what is quantised already is quantised again

	Recipe    *Recipe // selects the bits of the modules, nil means the same for all
	GroupSaid bool    // the group size was asked for
	request   string
}

// Recipe gives some modules more bits than others.
type Recipe struct {
	Name      string
	Low, High int
}

// Recipes are mlx_lm.convert's recipes.
var Recipes = []Recipe{{"mixed_2_6", 2, 6}, {"mixed_3_4", 3, 4}, {"mixed_3_6", 3, 6}, {"mixed_4_6", 4, 6}}

// MLXModes are the modes of MLX with the bits and group sizes that they have, the usual one first.
var MLXModes = []struct {
	Name   string
	Bits   []int
	Groups []int
}{
	{"affine", []int{4, 2, 3, 5, 6, 8}, []int{64, 32, 128}},
	{"mxfp4", []int{4}, []int{32}},
	{"mxfp8", []int{8}, []int{32}},
	{"nvfp4", []int{4}, []int{16}},
}

// MLXDevices are whose rules there are.
var MLXDevices = []string{"gpu", "cpu"}

// MLXAsked are the values of flags, zero where a flag was not given.
type MLXAsked struct {
	Bits, Group          int
	Mode, Recipe, Device string
}

// Options returns the options that the flags select, nil without flags. Errors name the
// flag and what would work.
func (a MLXAsked) Options() (*MLX, error) {
	if a.Bits == 0 && a.Mode == "" && a.Recipe == "" {
		if a.Group != 0 || a.Device != "" {
			return nil, errors.New("--mlx-group and --mlx-device say how --mlx-bits is meant; give that flag too, such as --mlx-bits 4")
		}
		return nil, nil
	}
	o := &MLX{Mode: "affine", CPU: a.Device == "cpu", GroupSaid: a.Group != 0}
	if a.Mode != "" {
		o.Mode = a.Mode
	}
	if a.Device != "" && !slices.Contains(MLXDevices, a.Device) {
		return nil, fmt.Errorf("--mlx-device %q: want %s", a.Device, near.Either(MLXDevices))
	}
	var modes []string
	found := false
	for _, m := range MLXModes {
		modes = append(modes, m.Name)
		if m.Name != o.Mode {
			continue
		}
		found, o.Bits, o.Group = true, m.Bits[0], m.Groups[0]
		for _, c := range []struct {
			flag  string
			value int
			to    *int
			can   []int
		}{{"bits", a.Bits, &o.Bits, m.Bits}, {"group", a.Group, &o.Group, m.Groups}} {
			switch {
			case c.value == 0:
			case !slices.Contains(c.can, c.value):
				return nil, fmt.Errorf("--mlx-%s %d: MLX's %s has %s", c.flag, c.value, m.Name, numbers(c.can))
			default:
				*c.to = c.value
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("--mlx-mode %q: want %s", a.Mode, near.Either(modes))
	}
	if a.Recipe != "" {
		switch i := slices.IndexFunc(Recipes, func(r Recipe) bool { return r.Name == a.Recipe }); {
		case i < 0:
			return nil, fmt.Errorf("--mlx-recipe %q: want %s", a.Recipe, near.Either(RecipeNames()))
		case o.Mode != "affine":
			return nil, fmt.Errorf("--mlx-recipe %s has the mode affine, and --mlx-mode is %s; leave one of them out", a.Recipe, o.Mode)
		case a.Bits != 0:
			return nil, fmt.Errorf("--mlx-recipe %s chooses the bits; leave --mlx-bits out", a.Recipe)
		default:
			o.Recipe = &Recipes[i]
		}
	}
	o.request = a.String()
	return o, nil
}

// RecipeNames are the names of the recipes.
func RecipeNames() (names []string) {
	for _, r := range Recipes {
		names = append(names, r.Name)
	}
	return names
}

// numbers lists whole numbers for a message.
func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range slices.Sorted(slices.Values(list)) {
		words[i] = fmt.Sprint(n)
	}
	return near.Either(words)
}

// String is what was asked for, as the flags.
func (a MLXAsked) String() string {
	var words []string
	for _, f := range []struct{ name, value string }{{"mode", a.Mode}, {"bits", numberOrEmpty(a.Bits)}, {"group", numberOrEmpty(a.Group)}, {"recipe", a.Recipe}, {"device", a.Device}} {
		if f.value != "" {
			words = append(words, "--mlx-"+f.name+" "+f.value)
		}
	}
	return strings.Join(words, " ")
}

func numberOrEmpty(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// String is what was asked for, as the flags.
func (o *MLX) String() string { return o.request }
