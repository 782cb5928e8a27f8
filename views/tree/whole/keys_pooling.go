package whole

import (
	"fmt"
	"path"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// poolings are the ways to make one vector of those of all tokens: what a
// config.json of sentence-transformers calls them, and GGUF's numbers.
var poolings = []struct {
	field, word string
	number      int64
}{
	{"pooling_mode_mean_tokens", "mean", 1},
	{"pooling_mode_cls_token", "cls", 2},
	{"pooling_mode_lasttoken", "lasttoken", 3},
	{"pooling_mode_max_tokens", "max", 0},
	{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", 0},
	{"pooling_mode_weightedmean_tokens", "weightedmean", 0},
}

// PoolingField is a field of a 1_Pooling/config.json.
type PoolingField struct {
	Name string
	Set  bool
}

// PoolingFields returns the fields that say what a pooling_type of GGUF says, one
// for each way to pool; nil for a number that is none of these.
func PoolingFields(number int64) []PoolingField {
	list := make([]PoolingField, len(poolings))
	known := false
	for i, p := range poolings {
		set := p.number == number && number != 0
		list[i] = PoolingField{p.field, set}
		known = known || set
	}
	if !known {
		return nil
	}
	return list
}

// poolingType returns how the model's vectors are pooled; nil for one that has no
// modules.json, or none for it.
func poolingType(d call) any {
	dir, err := poolingModule(d.m)
	if err == nil && dir == "" {
		return nil
	}
	name := path.Join(dir, "config.json")
	var s settings
	if err == nil {
		s, err = readSettings(d.m, name)
	}
	if err != nil {
		d.fail(err)
		return nil
	}
	numbers := []int64{}
	word := s.word("pooling_mode")
	for _, p := range poolings {
		if set, _ := s.flag(p.field); set || word == p.word {
			numbers = append(numbers, p.number)
		}
	}
	if err := s.err(); err != nil {
		d.fail(err)
		return nil
	}
	if len(numbers) != 1 || numbers[0] == 0 {
		d.fail(fmt.Errorf("%s: it does not pool by one of mean, first and last token, and a GGUF file has no other way", tensorfs.Printable(name)))
		return nil
	}
	return numbers[0]
}

// poolingModule returns the directory of the module that pools, "" without one.
func poolingModule(m *tensorfs.Model) (string, error) {
	const name = "modules.json"
	text, err := ReadText(m, name, maxText)
	if err != nil || text == nil {
		return "", err
	}
	// It is a list, and what parses it wants an object.
	o, err := jsonobj.Parse([]byte(`{"modules":` + string(text) + `}`))
	if err != nil {
		return "", &tensorfs.FormatError{File: name, Offset: -1, Problem: "it is not a list of modules in JSON"}
	}
	for e := range o.Raw("modules").Elements() {
		if strings.HasSuffix(e.Member("type").Text(), "Pooling") {
			dir := e.Member("path").Text()
			if !tensorfs.ValidName(dir) {
				return "", fmt.Errorf("%s: the directory %s of the module that pools is not a plain name", name, tensorfs.Quote(dir))
			}
			return dir, nil
		}
	}
	return "", nil
}
