package adapter

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

const tokensKey = "trainable_token_indices"

// maxToken bounds the number of a token.
const maxToken = 1 << 31

// readTokens reads trainable_token_indices: a list for the embedding, or one for each module.
func (c *config) readTokens() error {
	v := c.Raw(tokensKey)
	c.tokens = map[string][]int64{}
	switch v.Kind() {
	case '[':
		return c.addTokens("", v)
	case '{':
		for module, list := range v.Members() {
			if err := c.addTokens(module, list); err != nil {
				return err
			}
		}
	default:
		if isSet(v) {
			return c.refuse(tokensKey, tensorfs.Quote(v.String())+" is not a list of tokens")
		}
	}
	return nil
}

func (c *config) addTokens(module string, v jsonobj.Raw) error {
	var list []int64
	for e := range v.Elements() {
		n, ok := e.Int()
		if !ok || n < 0 || n >= maxToken {
			return c.refuse(tokensKey, tensorfs.Quote(e.String())+" is not the number of a token")
		}
		list = append(list, int64(n))
	}
	if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) != len(list) {
		return c.refuse(tokensKey, "it names a token twice")
	}
	c.tokens[module] = list
	return nil
}

// completeTokens checks the rows of tokens that a module has, and sets which tokens they
// are.
func (c *config) completeTokens(x *Module) error {
	if x.A != nil || x.Weight != nil {
		return wrong(c.m, x.Tokens.Source, "there are rows of tokens and another change of the same module")
	}
	longest := -1
	for module, list := range c.tokens {
		if (module == "" || x.Name == module || strings.HasSuffix(x.Name, "."+module)) && len(module) > longest {
			x.Indices, longest = list, len(module)
		}
	}
	if longest < 0 {
		return wrong(c.m, x.Tokens.Source, "%q names no tokens of %s", tokensKey, tensorfs.Quote(x.Name))
	}
	if err := matrix(c.m, x.Tokens, 2); err != nil {
		return err
	}
	if x.Tokens.Shape[0] != int64(len(x.Indices)) {
		return wrong(c.m, x.Tokens.Source, "shape %v, where %s names %d tokens", x.Tokens.Shape, ConfigName, len(x.Indices))
	}
	return nil
}
