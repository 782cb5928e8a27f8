package hf

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/foreign"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// stems are how the names of a model's files begin: in directories of transformers and
// MLX, and in the folders of a diffusers pipeline. The first stem that a file has counts.
var stems = []string{"model", "diffusion_pytorch_model"}

const (
	suffix = ".safetensors"
	// indexSuffix, after a stem, names the file that maps tensors to files.
	indexSuffix = suffix + ".index.json"
)

// stem returns the stem of a directory's files.
func (d *folder) stem() string {
	for _, s := range stems {
		for _, e := range d.entries {
			if name := e.Name(); strings.HasPrefix(name, s) && (strings.HasSuffix(name, suffix) || name == s+indexSuffix) {
				return s
			}
		}
	}
	if name := d.adapter(); name != "" {
		return strings.TrimSuffix(name, suffix)
	}
	return stems[0]
}

// adapter is the file with the weights of the directory's adapter, "" without one.
func (d *folder) adapter() string {
	for _, name := range []string{adapter.WeightsName, adapter.MLXWeightsName} {
		if d.isAdapter(name) {
			return name
		}
	}
	return ""
}

// isAdapter reports whether a file has the weights of an adapter.
func (d *folder) isAdapter(name string) bool {
	return adapter.IsWeights(name) && d.has(adapter.ConfigName) && d.has(name)
}

// maxFiles bounds the files of a model. The largest have some hundred.
const maxFiles = 1 << 14

// index is the content of an index.
type index struct {
	name      string // of the file
	path      string
	weightMap jsonobj.Object // tensor to file name, checked
	files     []string       // the file names, sorted
	metadata  jsonobj.Object
}

// readIndex reads and checks the index of that name. It opens none of the files.
func readIndex(d *folder, name string) (*index, error) {
	top, err := readObject(d, name)
	if err != nil {
		return nil, err
	}
	path := d.location(name)
	fail := func(tensor, problem string, args ...any) error {
		return &tensorfs.FormatError{File: path, Tensor: tensor, Offset: -1, Problem: fmt.Sprintf(problem, args...)}
	}
	x := &index{name: name, path: path, weightMap: top.Object("weight_map")}
	if top.Raw("weight_map").Kind() != '{' {
		return nil, fail("", "it has no object \"weight_map\"")
	}
	if m := top.Raw("metadata"); m.Kind() == '{' {
		// A separate text, because it lives as long as the model.
		if x.metadata, err = jsonobj.Parse([]byte(m.String())); err != nil {
			return nil, fail("", "\"metadata\": %v", err)
		}
	}
	seen := make(map[string]bool)
	for tensor, value := range x.weightMap.All() {
		if value.Kind() != '"' {
			return nil, fail(tensor, "its place %s is not a file name", tensorfs.Quote(value.String()))
		}
		file := value.Text()
		switch {
		case seen[file]:
			continue
		case !tensorfs.ValidName(file):
			return nil, fail(tensor, "its place %s is not a plain file name of this directory", tensorfs.Quote(file))
		case len(x.files) == maxFiles:
			return nil, fail(tensor, "its place is one of more than %d files, which no model has", maxFiles)
		}
		seen[file] = true
		x.files = append(x.files, strings.Clone(file)) // which keeps the text of the index from staying in memory
	}
	slices.Sort(x.files)
	return x, nil
}

// fileSet is the set of files with a directory's weights.
type fileSet struct {
	weights  []string // names in the directory, sorted
	index    *index   // that names them; nil without one
	warnings []string
}

// choose applies the rules of doc.go to a directory.
func choose(d *folder) (*fileSet, error) {
	stem := d.stem()
	single, indexName := stem+suffix, stem+indexSuffix
	hasSingle, err := d.exists(single)
	if err != nil {
		return nil, err
	}
	if !d.has(indexName) {
		if hasSingle {
			return &fileSet{weights: []string{single}}, nil
		}
		return allShards(d, stem)
	}
	x, err := readIndex(d, indexName)
	if err != nil {
		return nil, err
	}
	set := &fileSet{weights: x.files, index: x}
	for _, name := range set.weights {
		ok, err := d.exists(name)
		switch {
		case err != nil && !hasSingle:
			return nil, err
		case ok && err == nil:
		case hasSingle:
			return &fileSet{weights: []string{single}, warnings: []string{
				fmt.Sprintf("%s names %s, which is missing: the index is stale, and %s is the model", indexName, tensorfs.Quote(name), single)}}, nil
		default:
			return nil, &tensorfs.FormatError{File: x.path, Offset: -1, Problem: fmt.Sprintf("the file %s that it names is missing", tensorfs.Quote(name)),
				Advice: "fetch the missing file, or the model again", Kind: tensorfs.ErrMissing}
		}
	}
	if len(set.weights) == 0 {
		return nil, &tensorfs.FormatError{File: x.path, Offset: -1, Problem: "its weight_map names no file"}
	}
	if hasSingle && !slices.Contains(set.weights, single) {
		set.warnings = append(set.warnings, fmt.Sprintf("%s is left out: %s names other files", single, indexName))
	}
	return set, nil
}

// allShards returns the set of a directory without an index.
func allShards(d *folder, stem string) (*fileSet, error) {
	set := &fileSet{}
	var others []string
	for _, e := range d.entries { // sorted by name
		name := e.Name()
		switch ok, _ := path.Match(stem+"*"+suffix, name); {
		case ok:
			set.weights = append(set.weights, name)
		case path.Ext(name) == suffix:
			others = append(others, name)
		}
	}
	if len(set.weights) == 0 {
		return nil, noWeights(d, others)
	}
	if name := missing(set.weights, stem); name != "" {
		return nil, &tensorfs.FormatError{File: d.location(name), Offset: -1, Problem: "the other files say that it belongs to the model, but it is missing",
			Advice: "fetch the missing file, or the model again", Kind: tensorfs.ErrMissing}
	}
	return set, nil
}

// missing returns the first name that a series STEM-00001-of-NNNNN lacks, "" if it is complete.
func missing(names []string, stem string) string {
	have := make(map[string]bool)
	for _, n := range names {
		have[n] = true
	}
	checked := make(map[int]bool)
	for _, n := range names {
		var i, count int
		if _, err := fmt.Sscanf(n, stem+"-%05d-of-%05d"+suffix, &i, &count); err != nil || checked[count] {
			continue
		}
		checked[count] = true
		for i = 1; i <= count; i++ {
			if want := fmt.Sprintf(stem+"-%05d-of-%05d"+suffix, i, count); !have[want] {
				return want
			}
		}
	}
	return ""
}

// noWeights describes what a directory contains instead of weights.
func noWeights(d *folder, others []string) error {
	e := &tensorfs.FormatError{File: d.location("."), Offset: -1, Kind: tensorfs.ErrUnsupported,
		Problem: "the directory has no model.safetensors, no model.safetensors.index.json and no model*.safetensors",
		Advice:  "name a directory with a model in safetensors files"}
	if len(others) > 0 {
		e.Advice = fmt.Sprintf("name the file itself, such as %s", tensorfs.Printable(d.location(others[0])))
		return e
	}
	names := make([]string, len(d.entries))
	for i, entry := range d.entries {
		names[i] = entry.Name()
	}
	if problem, advice := foreign.Directory("", names); problem != "" {
		e.Problem, e.Advice = problem, advice
	}
	return e
}
