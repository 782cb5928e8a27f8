package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// The readers of manifests and of archives refuse a name that no file of a model can have. What follows is done for each part of a name: for 100,000 folders that takes minutes.
func TestHostileNames(t *testing.T) {
	const layers = `{"config":{"mediaType":%q},"layers":[{"mediaType":%q,"digest":"sha256:%064d","size":1,"annotations":{%q:%q}}]}`
	deep := strings.Repeat("a/", 100_000) + "m.gguf"
	for name, want := range map[string]string{
		deep:             "is longer than 4096 bytes",
		"../m.gguf":      `"../m.gguf" is not the name of a file in a model`,
		"/etc/m.gguf":    `"/etc/m.gguf" is not the name of a file in a model`,
		"a//m.gguf":      `"a//m.gguf" is not the name of a file in a model`,
		`a\m.gguf`:       `"a\\m.gguf" is not the name of a file in a model`,
		"a\x00m":         `"a\x00m" is not the name of a file in a model`,
		nested(65):       "has more than 64 parts",
		".":              `"." is not the name of a file in a model`,
		"m.gguf/../../x": `"m.gguf/../../x" is not the name of a file in a model`,
	} {
		for _, text := range []string{
			fmt.Sprintf(layers, modelPack, "application/vnd.cncf.model.weight.v1.raw", 0, pathKey, name),
			fmt.Sprintf(layers, modelPack, "application/vnd.cncf.model.doc.v1.raw", 0, pathKey, name),
			fmt.Sprintf(layers, "application/vnd.oci.empty.v1+json", "application/octet-stream", 0, titleKey, name),
		} {
			m, err := readManifest([]byte(strings.ReplaceAll(text, `\x00`, `\u0000`)))
			if err == nil {
				_, err = m.files()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a manifest: %v, want %s", err, want)
			}
		}
		if len(name) > 1<<20 || strings.Contains(name, "\x00") {
			continue // package tar neither reads nor writes such a name
		}
		b := archive(t, tar.FormatPAX, map[string][]byte{name: nil}, "")
		err := inPlace(bytes.NewReader(b), int64(len(b)), false).walk(func(member, io.Reader) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an archive: %v, want %s", err, want)
		}
	}
}

func nested(n int) string { return strings.Repeat("a/", n-1) + "m.gguf" }
