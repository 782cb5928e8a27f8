package merged

import (
	"bytes"
	"fmt"
	"path"
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
	return nil
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
