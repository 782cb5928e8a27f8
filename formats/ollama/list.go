package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/near"
)

// A tag may be a list of manifests, one for each runner:
//
//	{"schemaVersion":2, "manifests":[{"digest":"sha256:..", "size":485, "runner":"llamacpp"}, ...]}
type listJSON struct {
	Layers    any         `json:"layers"`
	Manifests []*itemJSON `json:"manifests"`
}

type itemJSON struct {
	Digest string `json:"digest"`
	Size   *int64 `json:"size"`
	Runner string `json:"runner"`
}

// llamacpp is the runner that loads GGUF files.
const llamacpp = "llamacpp"

// Child is the manifest that a list of manifests has for llama.cpp.
type Child struct {
	Blob
	Note   string // for the user
	digest digest
}

// ChildOf returns the manifest for llama.cpp in a list of manifests, or the only one there is;
// nil if the text is not a list. path is for messages.
func ChildOf(path string, text []byte) (*Child, error) {
	var list listJSON
	if json.Unmarshal(text, &list) != nil || list.Layers != nil || list.Manifests == nil {
		return nil, nil // for parseManifest
	}
	fail := func(format string, args ...any) error {
		return tensorfs.Unsupported(path, "it is a list of manifests, "+fmt.Sprintf(format, args...), "name the tag of one of them: 'ollama list' shows what is here")
	}
	items := slices.DeleteFunc(list.Manifests, func(m *itemJSON) bool { return m == nil })
	var runners []string
	at := -1
	for i, m := range items {
		if m.Runner == llamacpp && at < 0 {
			at = i
		}
		if m.Runner != "" && !slices.Contains(runners, m.Runner) {
			runners = append(runners, m.Runner)
		}
	}
	if at < 0 && len(items) == 1 {
		at = 0
	}
	switch {
	case len(items) == 0:
		return nil, fail("and it is empty")
	case at < 0 && len(runners) == 0:
		return nil, fail("and none of its %d items is marked for llama.cpp", len(items))
	case at < 0:
		return nil, fail("for the runners %s, and none is for llama.cpp", near.List(runners))
	}
	m := items[at]
	d, err := parseDigest(m.Digest)
	switch {
	case err != nil:
		return nil, fail("and the one for llama.cpp: %v", err)
	case m.Size == nil || *m.Size < 0 || *m.Size > maxManifest:
		return nil, fail("and the one for llama.cpp has no valid size")
	}
	c := &Child{Blob: Blob{d.name(), d.String(), *m.Size}, digest: d, Note: "its tag is a list of manifests; its only one is shown"}
	if m.Runner != "" {
		c.Note = "its tag is a list of manifests; the one for the runner " + tensorfs.Quote(m.Runner) + " is shown"
	}
	return c, nil
}

// Check returns an error unless the text is the manifest that the list names.
func (c *Child) Check(path string, text []byte) error {
	sum := sha256.Sum256(text)
	if int64(len(text)) == c.Size && c.Digest == "sha256:"+hex.EncodeToString(sum[:]) {
		return nil
	}
	return &tensorfs.FormatError{File: path, Offset: -1, Problem: "the manifest " + strings.TrimPrefix(c.Digest, "sha256:") + " of its list does not match its digest in the list"}
}
