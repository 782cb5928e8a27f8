package hub_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/pick"
)

func TestParseName(t *testing.T) {
	for _, x := range []struct {
		name string
		want hub.Name
		text string // "" for the name itself
	}{
		{"gpt2", hub.Name{Repository: "gpt2"}, ""},
		{"org/name", hub.Name{Repository: "org/name"}, ""},
		{"//org/name", hub.Name{Repository: "org/name"}, "org/name"},
		{"org/name/", hub.Name{Repository: "org/name"}, "org/name"},
		{"org/Name.x-GGUF:Q4_K_M", hub.Name{Repository: "org/Name.x-GGUF", Select: pick.Select{Word: "Q4_K_M"}}, ""},
		{"gpt2:Q8_0", hub.Name{Repository: "gpt2", Select: pick.Select{Word: "Q8_0"}}, ""},
		{"gpt2:a.gguf", hub.Name{Repository: "gpt2", Select: pick.Select{Path: "a.gguf"}}, ""},
		{"org/name:a.gguf", hub.Name{Repository: "org/name", Select: pick.Select{Path: "a.gguf"}}, "org/name/a.gguf"},
		{"org/name:a/b", hub.Name{Repository: "org/name", Select: pick.Select{Path: "a/b"}}, "org/name/a/b"},
		{"org/name/unet", hub.Name{Repository: "org/name", Select: pick.Select{Path: "unet"}}, ""},
		{"org/name/unet/", hub.Name{Repository: "org/name", Select: pick.Select{Path: "unet"}}, "org/name/unet"},
		{"org/name:unet/", hub.Name{Repository: "org/name", Select: pick.Select{Path: "unet"}}, "org/name/unet"},
		{"org/name/a@b:c.gguf", hub.Name{Repository: "org/name", Select: pick.Select{Path: "a@b:c.gguf"}}, ""},
		{"org/name@v1.0", hub.Name{Repository: "org/name", Revision: "v1.0"}, ""},
		{"org/name@refs/pr/1", hub.Name{Repository: "org/name", Revision: "refs/pr/1"}, ""},
		{"org/name@refs%2Fpr%2f1", hub.Name{Repository: "org/name", Revision: "refs/pr/1"}, "org/name@refs/pr/1"},
		{"org/name@main:Q8_0", hub.Name{Repository: "org/name", Revision: "main", Select: pick.Select{Word: "Q8_0"}}, ""},
		{"org/name@main:x/a.gguf", hub.Name{Repository: "org/name", Revision: "main", Select: pick.Select{Path: "x/a.gguf"}}, ""},
		{"org/name@main:unet/", hub.Name{Repository: "org/name", Revision: "main", Select: pick.Select{Path: "unet"}}, ""},
		{"gpt2:unet/", hub.Name{Repository: "gpt2", Select: pick.Select{Path: "unet"}}, ""},
		{"org/name:a:b", hub.Name{Repository: "org/name", Select: pick.Select{Word: "a:b"}}, ""},
	} {
		n, err := hub.ParseName(x.name)
		text := x.text
		if text == "" {
			text = x.name
		}
		if err != nil || n != x.want || n.String() != "hf:"+text {
			t.Errorf("%s: %+v, %s, %v; want %+v, %s", x.name, n, n, err, x.want, text)
		}
	}
	for _, name := range []string{"", "/", "//", "///x", "org/", "/name", "../x", "org/..", "a--b", "org/a--b", "org/name@", "org/name:", "org/name@main:", "org/name@../x", "org/name@a//b",
		"org/name//x", "org/name/../x", "org/name/x/..", "org/name:../x.gguf", "org/name:/x", "org/name:/", "o\x1brg/name", "org/name:a\n", "org/name/a\x00", "@", ":", "datasets/org/name", "spaces/x", strings.Repeat("x", 300), "org/name:" + strings.Repeat("x", 300)} {
		n, err := hub.ParseName(name)
		if err == nil || !errors.Is(err, tensorfs.ErrFormat) || strings.ContainsAny(err.Error(), "\n\x1b\x00") {
			t.Errorf("%q: %+v, %v", name, n, err)
		}
	}
}

// FuzzParseName holds that the parts of a name lead nowhere but down, and that a
// name is its text.
func FuzzParseName(f *testing.F) {
	for _, s := range []string{"gpt2", "//org/name@refs/pr/1:Q4_K_M", "org/name/a/b.gguf", "org/name@main:unet/", "org/name:a.gguf", "..", "a@b:c/..", "%2F@%2F"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := hub.ParseName(s)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Fatalf("%q", err)
			}
			return
		}
		for _, path := range []string{n.Repository, n.Revision, n.Select.Path} {
			for part := range strings.SplitSeq(path, "/") {
				if path != "" && !tensorfs.ValidName(part) {
					t.Fatalf("%q: %+v", s, n)
				}
			}
		}
		if n.Repository == "" || strings.Count(n.Repository, "/") > 1 || n.Select.Path != "" && n.Select.Word != "" {
			t.Fatalf("%q: %+v", s, n)
		}
		if again, err := hub.ParseName(strings.TrimPrefix(n.String(), hub.Prefix)); err != nil || again != n {
			t.Fatalf("%q: %+v as %s is %+v, %v", s, n, n, again, err)
		}
	})
}
