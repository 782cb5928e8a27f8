package preset

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// Mix has the types of the weights of another file.
type Mix struct {
	File     string                    // its name, for messages
	FileType uint32                    // its general.file_type
	Types    map[string]tensorfs.DType // by canonical names
	names    map[string]string         // in the file, by canonical names
}

// MixOf returns the types of a file's weights, for which presets choose types. Each tensor has its canonical
// name.
func MixOf(file string, fileType uint32, tensors []Tensor) (*Mix, error) {
	x := &Mix{File: file, FileType: fileType, Types: map[string]tensorfs.DType{}, names: map[string]string{}}
	for _, t := range tensors {
		if Quantisable(t.Name, t.Shape) && t.Type.Kind() != tensorfs.KindInteger {
			x.Types[t.Canonical], x.names[t.Canonical] = t.Type, t.Name
		}
	}
	if len(x.Types) == 0 {
		return nil, errors.New("it has no weights")
	}
	return x, nil
}

// isMade reports whether weights can be quantised to a type here.
func isMade(to tensorfs.DType) bool {
	return slices.ContainsFunc(All, func(p Preset) bool { return p.Type == to })
}

// Preset returns the preset for weights that the file does not have: the one that the file names,
// or else the first one whose type most of its weights have.
func (x *Mix) Preset() Preset {
	for _, p := range All {
		if p.FileType == x.FileType {
			return p
		}
	}
	counts := map[tensorfs.DType]int{}
	for _, t := range x.Types {
		counts[t]++
	}
	most := All[slices.IndexFunc(All, func(p Preset) bool { return p.Name == "Q8_0" })]
	for _, p := range All {
		if counts[p.Type] > counts[most.Type] {
			most = p
		}
	}
	most.FileType = x.FileType
	return most
}

// matches reports whether a rule is for a tensor.
func matches(rules []Rule, name string) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.Pattern.MatchString(name) })
}

// label finds the types in a file's name, such as UD-Q4_K_XL.
var label = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[-.])((?:UD-)?(?:I?Q[1-8]|TQ[12]|MXFP4|BF16|F16|F32)[A-Z0-9_]*)(?:-0\d+-of-\d+)?\.gguf$`)
})

// Label names the types as the file's name does, or else as the preset for other weights.
func (x *Mix) Label() string {
	if m := label().FindStringSubmatch(x.File); m != nil {
		return strings.ToUpper(m[1])
	}
	return x.Preset().Name
}

// Digest tells mixes apart.
func (x *Mix) Digest() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(x.Types)) {
		fmt.Fprintf(h, "%q %v\n", name, x.Types[name])
	}
	return fmt.Sprintf("%d %x", x.FileType, h.Sum(nil)[:8])
}

// CheckMade returns an error if the file has types that are not made here, unless a rule gives the
// weights another type.
func (x *Mix) CheckMade(rules []Rule) error {
	var names, types []string
	for canonical, to := range x.Types {
		name := x.names[canonical]
		if isMade(to) || matches(rules, name) {
			continue
		}
		names = append(names, name)
		if !slices.Contains(types, to.String()) {
			types = append(types, to.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.SortFunc(names, Compare)
	slices.Sort(types)
	example := strings.TrimSuffix(names[0], ".weight")
	if layerOf(example) >= 0 {
		example = example[strings.LastIndexByte(example, '.')+1:]
	}
	verb := "has"
	if len(names) > 1 {
		verb = "have"
	}
	return fmt.Errorf("%d of its weights %s types that are not made here (%s), the first is %s; choose another file, or give such weights a type with --tensor-type, such as --tensor-type %s=q3_k",
		len(names), verb, strings.Join(types, ", "), tensorfs.Printable(names[0]), example)
}

// Wanted returns the type that most weights like a tensor are to have.
func (o *Options) Wanted(t Tensor) tensorfs.DType {
	if o.From != nil {
		if to, ok := o.From.Types[t.Canonical]; ok {
			return to
		}
	}
	return o.Type
}

// Differences returns what is to be said about weights that only one of the file and a model has, and
// about weights that cannot have the file's type. types are what the model's tensors got.
func (x *Mix) Differences(model []Tensor, types []tensorfs.DType, rules []Rule, others string) (notes []string) {
	var only, misfits []string
	has, found := map[string]bool{}, 0
	for i, t := range model {
		has[t.Canonical] = true
		if !Quantisable(t.Name, t.Shape) || t.Type.Kind() == tensorfs.KindInteger {
			continue
		}
		switch to, ok := x.Types[t.Canonical]; {
		case !ok:
			only = append(only, t.Name)
		case fitting(to, t.Shape) != to && types[i] == fitting(to, t.Shape) && !matches(rules, t.Name):
			misfits = append(misfits, fmt.Sprintf("%s (%s for %s)", t.Name, types[i], to))
			found++
		default:
			found++
		}
	}
	var missing []string
	for canonical, name := range x.names {
		if !has[canonical] {
			missing = append(missing, name)
		}
	}
	file := tensorfs.Printable(x.File)
	notes = append(notes, fmt.Sprintf("types of %s: %d of its %d weights are here", file, found, len(x.Types)))
	for _, what := range []struct {
		about string
		names []string
	}{
		{"only " + file + " has", missing},
		{"only this model has, with the types of " + others + ",", only},
		{"rows do not fit the type of " + file + ":", misfits},
	} {
		if len(what.names) == 0 {
			continue
		}
		slices.SortFunc(what.names, Compare)
		const most = 8
		text := strings.Join(what.names[:min(most, len(what.names))], ", ")
		if n := len(what.names) - most; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		notes = append(notes, what.about+" "+tensorfs.Printable(text))
	}
	return notes
}
