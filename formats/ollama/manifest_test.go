package ollama

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
)

const (
	hexA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hexB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestParseManifest(t *testing.T) {
	const tensor = `{"mediaType":"application/vnd.ollama.image.tensor","digest":"sha256:` + hexA + `","size":7,"name":"x.weight"}`
	x := layer{kind: kindTensor, digest: hexA, size: 7, name: "x.weight"}
	tests := []struct {
		name, text string
		want       manifest
	}{
		{"plain", `{"layers":[` + tensor + `]}`, manifest{layers: []layer{x}}},
		{"blanks and unknown fields", " {\n\t\"x\" : {\"layers\":1}, \"layers\" : [ " + tensor + " ] , \"y\":[[[]]]} \n", manifest{layers: []layer{x}}},
		{"identical layers", `{"layers":[` + tensor + `,` + tensor + `]}`, manifest{layers: []layer{x}}},
		{"config", `{"config":{"digest":"sha256-` + strings.ToUpper(hexB) + `","size":0},"layers":[` + tensor + `]}`,
			manifest{config: &layer{kind: kindConfig, digest: hexB}, layers: []layer{x}}},
		{"config without digest", `{"config":{"digest":"","size":0},"layers":[` + tensor + `]}`, manifest{layers: []layer{x}}},
		{"config null", `{"config":null,"layers":[` + tensor + `]}`, manifest{layers: []layer{x}}},
		{"unknown media types", `{"layers":[{"mediaType":"application/vnd.ollama.image.embed","digest":"?"},{"mediaType":"tensor"},{},` + tensor + `]}`, manifest{layers: []layer{x}}},
		{"name of a layer that has none", `{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:` + hexA + `","size":7,"name":"../x"}]}`,
			manifest{layers: []layer{{kind: kindModel, digest: hexA, size: 7}}}},
		{"old name", `{"layers":[{"mediaType":"application/vnd.ollama.image.prompt","digest":"sha256:` + hexA + `","size":7}]}`,
			manifest{layers: []layer{{kind: kindTemplate, digest: hexA, size: 7}}}},
		{"no layers", `{"layers":[]}`, manifest{}},
		{"layers null", `{"layers":null}`, manifest{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseManifest("m", []byte(tt.text))
			if err != nil || !reflect.DeepEqual(*got, tt.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestParseManifestRefuses(t *testing.T) {
	layer := func(fields string) string {
		return `{"layers":[{"mediaType":"application/vnd.ollama.image.tensor",` + fields + `}]}`
	}
	const digest, size, name = `"digest":"sha256:` + hexA + `"`, `"size":7`, `"name":"x.weight"`
	tests := []struct{ name, text, want string }{
		{"empty", "", "empty"},
		{"blank", " \n", "empty"},
		{"number", "5", "not an object"},
		{"array", "[]", "not an object"},
		{"null", "null", "not an object"},
		{"null after blanks", " \n null\n", "not an object"},
		{"another case", `{"Layers":[]}`, "no layers"},
		{"null and layers", `null{"layers":[]}`, "after top-level value"},
		{"config number", `{"config":5,"layers":[]}`, `"/config" of the manifest is not an object`},
		{"cut", `{"layers":[`, "ends in the middle"},
		{"cut in a string", `{"lay`, "ends in the middle"},
		{"byte order mark", "\xef\xbb\xbf{}", `invalid character '\ufeff'`},
		{"trailing value", `{"layers":[]}{}`, "after top-level value"},
		{"trailing text", `{"layers":[]}x`, "after top-level value"},
		{"no layers", `{}`, "no layers"},
		{"layers object", `{"layers":{}}`, "not an array"},
		{"list", `{"manifests":[]}`, "no layers"},
		{"layers twice", `{"layers":[],"layers":[]}`, "duplicate"},
		{"layers twice by escape", `{"layers":[],"l\u0061yers":[]}`, "duplicate"},
		{"digest twice", layer(digest + `,` + digest + `,` + size), "duplicate"},
		{"unknown twice", `{"x":{"a":1,"a":1},"layers":[]}`, "duplicate"},
		{"deep", `{"x":` + strings.Repeat("[", 100000), "not valid JSON"},
		{"deep in layers", `{"layers":` + strings.Repeat("[", 100000), `"/layers/0" of the manifest is not an object`},
		{"layer null", `{"layers":[null]}`, "layer 1 is not an object"},
		{"not UTF-8", `{"layers":[],"x":"` + "\xff" + `"}`, "not valid JSON"},
		{"no digest", layer(size + `,` + name), `layer 1 (tensor "x.weight"): digest ""`},
		{"digest number", layer(`"digest":1`), `"/layers/0/digest" of the manifest is not text`},
		{"no size", layer(digest + `,` + name), "sha256:" + hexA + ": it has no size"},
		{"size null", layer(digest + `,"size":null`), "it has no size"},
		{"size text", layer(digest + `,"size":"7"`), "not an integer"},
		{"size float", layer(digest + `,"size":7.0`), "not an integer"},
		{"size exponent", layer(digest + `,"size":7e0`), "not an integer"},
		{"size too large", layer(digest + `,"size":9223372036854775808`), "not an integer"},
		{"size negative", layer(digest + `,"size":-1`), "size is -1"},
		{"no name", layer(digest + `,` + size), "name is empty"},
		{"config digest", `{"config":{"digest":"sha256:x","size":1},"layers":[]}`, "the config: digest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := parseManifest("tiny:x", []byte(tt.text))
			if err == nil {
				t.Fatalf("accepted as %+v", m)
			}
			if !errors.Is(err, tensorfs.ErrFormat) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "tiny:x: ") || strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("error %q, want one line about %q", err, tt.want)
			}
		})
	}
}

func TestParseDigest(t *testing.T) {
	for in, want := range map[string]digest{
		"sha256:" + hexA: hexA, "sha256-" + hexA: hexA, "sha256:" + strings.ToUpper(hexA): hexA,
		"": "", "sha256:": "", hexA: "", "sha256:" + hexA[1:]: "", "sha256:" + hexA + "a": "", "sha256:" + hexA + "\n": "", "sha512:" + hexA: "",
		"sha256_" + hexA: "", "SHA256:" + hexA: "", "sha256:" + hexA[1:] + "g": "", "sha256:" + hexA[1:] + "/": "", " sha256:" + hexA: "",
		"sha256:" + hexA[2:] + "\u0130": "", "sha256:" + hexA[3:] + "\u212a": "",
	} {
		got, err := parseDigest(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("parseDigest(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestNameProblem(t *testing.T) {
	for _, name := range []string{"x", "x.weight", "text_encoder/x.weight", "a/b/c", "...", ".x", "x..y", "\u00e9\u4e2d", "~", `a\b`, strings.Repeat("x", 1000)} {
		if p := nameProblem(name); p != "" {
			t.Errorf("%q: %s", name, p)
		}
	}
	for _, name := range []string{"", "/", "/x", "x/", "a//b", ".", "..", "../x", "a/..", "a/./b", "a\x00b", "a\nb", "a\x7fb", "a\xffb", "\x1b[31m"} {
		if nameProblem(name) == "" {
			t.Errorf("%q passes", name)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"sha256:` + hexA + `","size":1},"layers":[{"mediaType":"application/vnd.ollama.image.tensor","digest":"sha256-` + hexB + `","size":2,"name":"a/b"}]}`))
	f.Add([]byte(`{"layers":[{}],"manifests":[]}`))
	f.Add([]byte(`{"layers":[{"size":1e300}]}{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest("m", text)
		if err != nil {
			if m != nil || !errors.Is(err, tensorfs.ErrFormat) || bytes.ContainsAny([]byte(err.Error()), "\n\x00\x1b") {
				t.Fatalf("%v, %q", m, err)
			}
			return
		}
		for _, l := range m.layers {
			if d, err := parseDigest(l.digest.String()); err != nil || d != l.digest || l.size < 0 || l.kind == kindUnknown {
				t.Fatalf("layer %+v", l)
			}
			if (l.kind == kindTensor || l.kind == kindJSON) != (nameProblem(l.name) == "") {
				t.Fatalf("layer %+v", l)
			}
		}
	})
}
