package convert

import (
	"fmt"
	"hash/maphash"
	"math/bits"

	"github.com/tensorfs/tensorfs"
)

var tokenSeed = maphash.MakeSeed()

// repeatedToken returns the note that llama.cpp does not load a file because a token is in its
// vocabulary twice, "" if none is. A vocabulary has hundreds of thousands of tokens, so their
// hashes are compared, and the tokens only if two hashes are equal.
func repeatedToken(list tensorfs.Array) string {
	slots := make([]uint32, 2<<bits.Len(uint(max(list.Len(), 1)-1))) // half of them stay free, which are 0
	mask := uint64(len(slots) - 1)
	for v := range list.Values() {
		token, _ := v.(string)
		hash := maphash.String(tokenSeed, token)
		at, rest := hash&mask, uint32(hash>>32)|1
		for slots[at] != 0 && slots[at] != rest {
			at = (at + 1) & mask
		}
		if slots[at] == rest {
			return comparedTokens(list)
		}
		slots[at] = rest
	}
	return ""
}

func comparedTokens(list tensorfs.Array) string {
	ids := make(map[string]int, list.Len())
	for v := range list.Values() {
		token, _ := v.(string)
		if id, twice := ids[token]; twice {
			return fmt.Sprintf(NotLoaded+"the tokens %d and %d are both %s", id, len(ids), tensorfs.Quote(token))
		}
		ids[token] = len(ids)
	}
	return ""
}
