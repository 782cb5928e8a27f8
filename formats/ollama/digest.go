package ollama

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// digest is the 64 lower-case hexadecimal digits of a SHA-256.
type digest string

// parseDigest accepts exactly sha256:HEX or sha256-HEX. Upper-case digits are
// lowered, as blobs are stored under lower-case names.
func parseDigest(s string) (digest, error) {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if !ok {
		hex, ok = strings.CutPrefix(s, "sha256-")
	}
	if !ok || len(hex) != 64 {
		return "", fmt.Errorf("digest %s is not sha256: and 64 hexadecimal digits", tensorfs.Quote(s))
	}
	hex = strings.ToLower(hex) // keeps the length: what is longer in lower case is not a digit either
	for i := range len(hex) {
		if c := hex[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", fmt.Errorf("digest %s is not sha256: and 64 hexadecimal digits", tensorfs.Quote(s))
		}
	}
	return digest(hex), nil
}

func (d digest) String() string { return "sha256:" + string(d) }

// file is the name of the digest's file below blobs.
func (d digest) file() string { return "sha256-" + string(d) }
