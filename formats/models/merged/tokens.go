package merged

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// isTokenizer reports whether a file belongs to a tokenizer.
func isTokenizer(name string) bool {
	for _, prefix := range []string{"tokenizer", "vocab", "merges.txt", "special_tokens_map", "added_tokens", "chat_template"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return path.Ext(name) == ".model" || path.Ext(name) == ".jinja"
}

// sameTokens returns an error if the recipe chooses a tokenizer, for which mergekit puts the
// rows of embeddings into its order, and a model has other tokens.
func (x *merge) sameTokens() error {
	if !x.recipe.Tokens {
		return nil
	}
	chosen := max(x.recipe.Tokenizer, 0)
	if x.recipe.Tokenizer < 0 {
		chosen = x.recipe.Reference()
	}
	want, err := x.inputs[chosen].tokens()
	if err != nil {
		return fmt.Errorf("tokenizer_source: %s: %w", tensorfs.Printable(x.recipe.Models[chosen]), err)
	}
	for i := range x.inputs {
		have, err := x.inputs[i].tokens()
		if err != nil {
			return fmt.Errorf("tokenizer_source: %s: %w", tensorfs.Printable(x.recipe.Models[i]), err)
		}
		if !bytes.Equal(have, want) {
			return fmt.Errorf("tokenizer_source: %s has other tokens than %s, and vocabularies are not joined; leave it out if the rows of the embeddings mean the same all the same",
				tensorfs.Printable(x.recipe.Models[i]), tensorfs.Printable(x.recipe.Models[chosen]))
		}
	}
	return x.countRows(&x.inputs[chosen], x.recipe.Models[chosen])
}

// countRows sets how many rows the embedding and the head have in a merge that chooses a
// tokenizer: mergekit writes one for each token, without rows of padding.
func (x *merge) countRows(chosen *input, name string) error {
	n, err := chosen.countTokens()
	if err != nil {
		return fmt.Errorf("tokenizer_source: %s: %w", tensorfs.Printable(name), err)
	}
	if n == 0 {
		x.differs = append(x.differs, "mergekit writes a row of the embeddings for each token, and without a tokenizer.json the tokens are not counted: the merge has the models' rows")
		return nil
	}
	for i := range x.inputs {
		for _, t := range x.inputs[i].tensors {
			if !isVocabulary(t) || t.Shape[0] == n {
				continue
			}
			if t.Shape[0] < n {
				return fmt.Errorf("tokenizer_source: %s has %d tokens, and %s of %s has %d rows; leave it out", tensorfs.Printable(name), n, tensorfs.Printable(t.Source), tensorfs.Printable(x.recipe.Models[i]), t.Shape[0])
			}
			x.rows = n
		}
	}
	if x.rows > 0 {
		x.set = append(x.set, field{rowsKey, strconv.FormatInt(n, 10)})
		x.notes = append(x.notes, fmt.Sprintf("the embeddings have one row for each of the %d tokens, without the models' rows of padding: mergekit drops these if a recipe chooses a tokenizer", n))
	}
	return nil
}

// isVocabulary reports whether a tensor has a row for each token.
func isVocabulary(t *tensorfs.Tensor) bool {
	return (t.Name == embeddingName || t.Name == headName) && len(t.Shape) == 2 && t.Shape[0] > 0
}

// cut returns a tensor without rows that pad.
func (x *merge) cut(t *tensorfs.Tensor) *tensorfs.Tensor {
	if x.rows == 0 || !isVocabulary(t) || t.Shape[0] <= x.rows {
		return t
	}
	part := *t
	part.Shape = []int64{x.rows, t.Shape[1]}
	part.Data = tensorfs.Section(t.Data, 0, t.Data.Size()/t.Shape[0]*x.rows)
	return &part
}

// maxToken bounds the number of a token.
const maxToken = 1 << 24

// countTokens returns how many tokens tokenizer.json has, 0 without the file. Their numbers
// have to be consecutive from 0.
func (in *input) countTokens() (int64, error) {
	d, err := in.model.File("tokenizer.json")
	if err != nil {
		return 0, nil
	}
	text, err := source.ReadAll(d, "tokenizer.json", maxTokens)
	if err != nil {
		return 0, err
	}
	o, err := jsonobj.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("tokenizer.json: %w", err)
	}
	var seen []bool
	count, at := int64(0), 0
	add := func(id int, ok bool) {
		for ok && id >= len(seen) && id >= 0 && id < maxToken {
			seen = append(seen, false)
		}
		if ok && id >= 0 && id < len(seen) && !seen[id] {
			seen[id], count = true, count+1
		}
	}
	vocabulary := o.Object("model").Raw("vocab")
	for _, id := range vocabulary.Members() {
		add(id.Int())
	}
	for range vocabulary.Elements() { // of Unigram
		add(at, true)
		at++
	}
	for token := range o.Raw("added_tokens").Elements() {
		for key, id := range token.Members() {
			if key == "id" {
				add(id.Int())
			}
		}
	}
	if count != int64(len(seen)) {
		return 0, fmt.Errorf("the numbers of its %d tokens have gaps, which mergekit does not take; leave tokenizer_source out", count)
	}
	return count, nil
}

// maxTokens bounds a tokenizer.json.
const maxTokens = 256 << 20

// tokens is what tells a vocabulary from another one.
func (in *input) tokens() ([]byte, error) {
	for _, name := range []string{"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"} {
		d, err := in.model.File(name)
		if err != nil {
			continue
		}
		text, err := source.ReadAll(d, name, maxTokens)
		if err != nil {
			return nil, err
		}
		if name != "tokenizer.json" {
			return text, nil
		}
		o, err := jsonobj.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return []byte(o.Object("model").Raw("vocab").String() + o.Raw("added_tokens").String()), nil
	}
	return nil, fmt.Errorf("it has no tokenizer")
}
