package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
)

// pack compresses.
func pack(t testing.TB, packing string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if packing == "zstd" {
		var err error
		if w, err = zstd.NewWriter(&out); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// members is an archive of names and what they are: "-> TARGET" is a symbolic link, "=> TARGET"
// a hard link, "/" a folder, anything else the content of a file.
func members(t testing.TB, list ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(list); i += 2 {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: list[i], Mode: 0o644}
		text := list[i+1]
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			h.Typeflag, h.Linkname, text = tar.TypeSymlink, to, ""
		} else if to, ok := strings.CutPrefix(text, "=> "); ok {
			h.Typeflag, h.Linkname, text = tar.TypeLink, to, ""
		} else if text == "/" {
			h.Typeflag, text = tar.TypeDir, ""
		}
		h.Size = int64(len(text))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, text)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// folderOf is a tar archive of a model below a folder.
func folderOf(t testing.TB, m testremote.Model, folder string) []byte {
	return archive(t, tar.FormatPAX, m.Files, folder)
}

// compressed are the ways in which programs push archives. A way without a packing is read in
// place.
var compressed = []struct {
	name, packing string
	layers        func(t testing.TB, m testremote.Model) (artifactType, config string, layers []entry)
}{
	{"modelpack-gzip", "gzip", modelPackWith("gzip")},
	{"modelpack-zstd", "zstd", modelPackWith("zstd")},
	{"kitops-gzip", "gzip", kitOpsWith("gzip")},
	{"kitops-zstd", "zstd", kitOpsWith("zstd")},
	{"oras-folder", "gzip", func(t testing.TB, m testremote.Model) (string, string, []entry) {
		plain := folderOf(t, m, "tiny/")
		notes := map[string]string{titleKey: "tiny", unpackKey: "true", contentKey: digestOf(plain)}
		return "application/vnd.example", ociEmpty, []entry{{"application/vnd.oci.image.layer.v1.tar+gzip", pack(t, "gzip", plain), notes}}
	}},
	{"oras-folder-of-any-type", "gzip", func(t testing.TB, m testremote.Model) (string, string, []entry) {
		return "", "application/vnd.unknown.config.v1+json", []entry{{"application/vnd.example", pack(t, "gzip", folderOf(t, m, "tiny/")), map[string]string{titleKey: "tiny", unpackKey: "true"}}}
	}},
	{"oras-folder-plain", "", func(t testing.TB, m testremote.Model) (string, string, []entry) {
		return "", ociEmpty, []entry{{"application/vnd.oci.image.layer.v1.tar", folderOf(t, m, "tiny/"), map[string]string{titleKey: "tiny", unpackKey: "true"}}}
	}},
	{"tar-that-is-gzip", "gzip", func(t testing.TB, m testremote.Model) (string, string, []entry) {
		return packed, modelPack, []entry{{"application/vnd.cncf.model.weight.v1.tar", pack(t, "gzip", folderOf(t, m, "")), nil}}
	}},
	{"gzip-that-is-zstd", "gzip", func(t testing.TB, m testremote.Model) (string, string, []entry) {
		return packed, modelPack, []entry{{"application/vnd.cncf.model.weight.v1.tar+gzip", pack(t, "zstd", folderOf(t, m, "")), nil}}
	}},
	{"gzip-that-is-tar", "gzip", func(t testing.TB, m testremote.Model) (string, string, []entry) {
		return packed, modelPack, []entry{{"application/vnd.cncf.model.weight.v1.tar+gzip", folderOf(t, m, ""), nil}}
	}},
	{"image", "", imageWith("application/vnd.oci.image.layer.v1.tar", "")},
	{"image-gzip", "gzip", imageWith("application/vnd.oci.image.layer.v1.tar+gzip", "gzip")},
	{"image-zstd", "zstd", imageWith("application/vnd.oci.image.layer.v1.tar+zstd", "zstd")},
	{"image-with-titles", "", func(t testing.TB, m testremote.Model) (string, string, []entry) {
		var layers []entry
		for _, name := range sorted(m.Files) {
			layers = append(layers, entry{"application/vnd.oci.image.layer.v1.tar", members(t, "/models/"+name, string(m.Files[name])), map[string]string{titleKey: name}})
		}
		return "", ociImage, layers
	}},
	{"image-docker", "gzip", imageWith("application/vnd.docker.image.rootfs.diff.tar.gzip", "gzip")},
}

func modelPackWith(packing string) func(t testing.TB, m testremote.Model) (string, string, []entry) {
	return func(t testing.TB, m testremote.Model) (string, string, []entry) {
		var layers []entry
		for _, name := range sorted(m.Files) {
			layers = append(layers, entry{"application/vnd.cncf.model.weight.v1.tar+" + packing, pack(t, packing, archive(t, tar.FormatPAX, map[string][]byte{name: m.Files[name]}, "")), named(name)})
		}
		return packed, modelPack, layers
	}
}

func kitOpsWith(packing string) func(t testing.TB, m testremote.Model) (string, string, []entry) {
	return func(t testing.TB, m testremote.Model) (string, string, []entry) {
		return "", kitops, []entry{{"application/vnd.kitops.modelkit.model.v1.tar+" + packing, pack(t, packing, folderOf(t, m, "./")), nil}}
	}
}

// imageWith is a container: a base, and a layer for the model.
func imageWith(mediaType, packing string) func(t testing.TB, m testremote.Model) (string, string, []entry) {
	return func(t testing.TB, m testremote.Model) (string, string, []entry) {
		var layers []entry
		base := members(t, "bin/", "/", "bin/sh", "-> /bin/busybox", "bin/ash", "=> bin/busybox", "models/", "/", "models/old.gguf", "old")
		for _, b := range [][]byte{base, members(t, "models/.wh.old.gguf", ""), folderOf(t, m, "models/")} {
			if packing != "" {
				b = pack(t, packing, b)
			}
			layers = append(layers, entry{mediaType, b, nil})
		}
		return "", ociImage, layers
	}
}

// A layer that cannot be read in parts is refused, or unpacked into the cache if that is allowed,
// and opened from there later.
func TestUnpacked(t *testing.T) {
	environ(t, "")
	for _, m := range testremote.Models(t, testdata)[1:3] { // a split file and a directory
		near := m.Local(t)
		for _, way := range compressed {
			t.Run(way.name+"/"+m.Name, func(t *testing.T) {
				f := newFake(t)
				artifact, config, layers := way.layers(t, m)
				digest := push(t, f, "a/b", "latest", artifact, config, layers...)
				name, o := Scheme+f.host()+"/a/b", options(t)
				open := func(o Options) error {
					t.Helper()
					l, file, err := Open(t.Context(), name, o)
					if err != nil {
						return err
					}
					if !strings.HasPrefix(l.Name, name+"@"+digest) {
						t.Error(l.Name)
					}
					testremote.Same(t, l, file, near)
					return nil
				}
				err := open(o)
				if want := fmt.Sprintf("layer 1 is compressed (%s), so that parts of it cannot be read; use --download, or run 'tensorfs fetch', to unpack it into the cache", way.packing); way.packing != "" && (err == nil || !strings.HasSuffix(err.Error(), want) || !errors.Is(err, tensorfs.ErrUnsupported)) || way.packing == "" && err != nil {
					t.Fatalf("without --download: %v", err)
				}
				o.Download = true
				if err := open(o); err != nil {
					t.Fatal(err)
				}
				list, err := o.Store.List()
				if err != nil || slices.ContainsFunc(list, func(x cache.Info) bool { return way.packing != "" && strings.HasSuffix(x.Source, ".tar") }) {
					t.Errorf("%v: the layer is there as well: %v", err, list)
				}
				o.Download = false
				before := len(f.requests())
				if err := open(o); err != nil {
					t.Fatalf("from the cache: %v", err)
				}
				for _, r := range f.requests()[before:] {
					if way.packing != "" && strings.Contains(r, "/blobs/") {
						t.Errorf("from the cache: %s", r)
					}
				}
				o.Offline = "--offline"
				before = len(f.requests())
				if err := open(o); err != nil || len(f.requests()) != before {
					t.Errorf("offline: %v", err)
				}
			})
		}
	}
}

// What KitOps packs as code is beside the model: what the model itself has counts, and what
// cannot be read is passed over.
func TestBeside(t *testing.T) {
	environ(t, "")
	const model, code = "application/vnd.kitops.modelkit.model.v1.tar", "application/vnd.kitops.modelkit.code.v1.tar"
	m := testremote.Models(t, testdata)[2]
	weights := folderOf(t, m, "./")
	others := members(t, "config.json", "another", "tokenizer.model", "pieces", "x.gguf", "GGUF", "config.json/x", "y", "out", "-> /etc/passwd", "run.py", "print()")
	for name, tt := range map[string]struct {
		layers []entry
		want   string // files besides the model's
	}{
		"plain":         {[]entry{{code, others, nil}, {model, weights, nil}}, "run.py tokenizer.model"},
		"gzip":          {[]entry{{code + "+gzip", pack(t, "gzip", others), nil}, {model + "+gzip", pack(t, "gzip", weights), nil}}, "run.py tokenizer.model"},
		"gzip alone":    {[]entry{{code + "+gzip", pack(t, "gzip", others), nil}, {model, weights, nil}}, ""},
		"gzip, unnamed": {[]entry{{code, pack(t, "gzip", others), nil}, {model, weights, nil}}, ""},
		"lz4":           {[]entry{{code + "+lz4", []byte("x"), nil}, {model, weights, nil}}, ""},
		"damaged":       {[]entry{{code, others[:700], nil}, {model, weights, nil}}, ""},
		"damaged gzip":  {[]entry{{code + "+gzip", pack(t, "gzip", others)[:100], nil}, {model + "+gzip", pack(t, "gzip", weights), nil}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			push(t, f, "a/b", "latest", "", kitops, tt.layers...)
			o := options(t)
			o.Download = strings.Contains(name, "gzip")
			for range 2 {
				l, file, err := Open(t.Context(), Scheme+f.host()+"/a/b", o)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, x := range l.Items() {
					if _, ok := m.Files[x.Name]; !ok {
						got = append(got, x.Name)
					}
				}
				if got := strings.Join(got, " "); got != tt.want || file != "." {
					t.Errorf("%s, and not %s; %s", got, tt.want, file)
				}
				for name, want := range m.Files {
					if b, err := testremote.Read(l, name); err != nil || !bytes.Equal(b, want) {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
}

// A cache that lost some of what was unpacked gets it again, if that is allowed.
func TestUnpackedAgain(t *testing.T) {
	environ(t, "")
	f := newFake(t)
	m := testremote.Models(t, testdata)[0]
	artifact, config, layers := kitOpsWith("gzip")(t, m)
	push(t, f, "a/b", "latest", artifact, config, layers...)
	name, o := Scheme+f.host()+"/a/b", options(t)
	o.Download = true
	if _, _, err := Open(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Store.Prune(cache.PruneOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []Options{{Offline: "--offline"}, {}} {
		forbidden.Client, forbidden.Store = o.Client, o.Store
		if _, _, err := Open(t.Context(), name, forbidden); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", forbidden.Offline, err)
		}
	}
	l, file, err := Open(t.Context(), name, o)
	if err != nil {
		t.Fatal(err)
	}
	testremote.Same(t, l, file, m.Local(t))

	// A file that is lost while it is open gives an error that names the next step.
	if _, err := o.Store.Prune(cache.PruneOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := l.OpenFile(l.Items()[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := tensorfs.ReadFull(r, make([]byte, 1), 0); err == nil || !strings.Contains(err.Error(), "the cache has not all of it any more, and its layer is compressed; run 'tensorfs fetch'") {
		t.Error(err)
	}
}

// Archives that are made to do harm, or are damaged.
func TestUnpackedErrors(t *testing.T) {
	environ(t, "")
	const weight, layer = "application/vnd.cncf.model.weight.v1.tar+", "application/vnd.oci.image.layer.v1.tar+gzip"
	good := members(t, "m.gguf", "GGUF")
	bomb := make([]byte, 80<<20)
	copy(bomb, archive(t, tar.FormatPAX, map[string][]byte{"m.gguf": nil}, "")[:512])
	var claims bytes.Buffer
	tar.NewWriter(&claims).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "m.gguf", Size: 1 << 40})
	flip := func(b []byte, at int) []byte {
		b = slices.Clone(b)
		b[(at+len(b))%len(b)] ^= 0x55
		return b
	}
	big := members(t, "m.gguf", strings.Repeat("0123456789", 5000))
	for name, tt := range map[string]struct {
		config string
		layer  entry
		want   string
	}{
		"link out":           {modelPack, entry{weight + "gzip", pack(t, "gzip", members(t, "m.gguf", "-> ../../etc/passwd")), nil}, `"m.gguf" is a link to "../../etc/passwd", which it does not hold; `},
		"absolute link":      {modelPack, entry{weight + "gzip", pack(t, "gzip", members(t, "etc/passwd", "x", "m.gguf", "-> /etc/passwd")), nil}, `"m.gguf" is a link to "/etc/passwd", which it does not hold; `},
		"links in a circle":  {modelPack, entry{weight + "gzip", pack(t, "gzip", members(t, "a", "-> b", "b", "-> a")), nil}, `"a" is a link to "b", which it does not hold; `},
		"parent":             {modelPack, entry{weight + "zstd", pack(t, "zstd", members(t, "../m.gguf", "x")), nil}, `the archive holds a name that cannot be: "../m.gguf" is not the name of a file in a model; `},
		"absolute":           {modelPack, entry{weight + "zstd", pack(t, "zstd", members(t, "/etc/m.gguf", "x")), nil}, `the archive holds a name that cannot be: "/etc/m.gguf" is not`},
		"twice":              {modelPack, entry{weight + "gzip", pack(t, "gzip", members(t, "m.gguf", "x", "./m.gguf", "y")), nil}, `"m.gguf" is there twice; `},
		"file and folder":    {modelPack, entry{weight + "gzip", pack(t, "gzip", members(t, "m", "x", "m/m.gguf", "y")), nil}, `"m" is a file and also a directory; `},
		"bomb":               {modelPack, entry{weight + "gzip", pack(t, "gzip", bomb), nil}, "unpacks to more than the 67.1 MB that the cache may have; "},
		"bomb of zstd":       {modelPack, entry{weight + "zstd", pack(t, "zstd", bomb), nil}, "unpacks to more than the 67.1 MB that the cache may have; "},
		"claimed size":       {modelPack, entry{weight + "gzip", pack(t, "gzip", claims.Bytes()), nil}, "unpacks to more than the 67.1 MB that the cache may have; "},
		"cut":                {modelPack, entry{weight + "gzip", pack(t, "gzip", big)[:150], nil}, "the archive ends too early; "},
		"cut archive":        {modelPack, entry{weight + "gzip", pack(t, "gzip", big[:5000]), nil}, "the archive ends too early; "},
		"no archive":         {modelPack, entry{weight + "gzip", pack(t, "gzip", bytes.Repeat([]byte("no tar "), 1000)), nil}, "the archive is damaged near byte "},
		"checksum":           {modelPack, entry{weight + "gzip", flip(pack(t, "gzip", good), -6), nil}, "the archive is damaged: it cannot be unpacked; "},
		"checksum of zstd":   {modelPack, entry{weight + "zstd", flip(pack(t, "zstd", good), -2), nil}, "the archive is damaged: it cannot be unpacked; "},
		"garbage at the end": {modelPack, entry{weight + "gzip", append(pack(t, "gzip", good), "garbage at the end"...), nil}, "the archive is damaged: it cannot be unpacked; "},
		"window":             {modelPack, entry{weight + "zstd", []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0, 0}, nil}, "the archive takes more than 128 MiB of memory to unpack; "},
		"content": {ociEmpty, entry{"application/vnd.oci.image.layer.v1.tar+gzip", pack(t, "gzip", good), map[string]string{titleKey: "tiny", unpackKey: "true", contentKey: digestOf(big)}},
			"the archive unpacks to bytes that do not match the manifest's digest (sha256:"},
		"image without models": {ociImage, entry{layer, pack(t, "gzip", members(t, "bin/sh", "x", "models", "/")), nil}, "it is a container without files in a folder models, not a model; "},
		"image with a link":    {ociImage, entry{layer, pack(t, "gzip", members(t, "models", "-> data/models")), nil}, `its folder models is a link to "data/models"; `},
		"image with a file":    {ociImage, entry{layer, pack(t, "gzip", members(t, "models", "x")), nil}, `its models is not a folder; `},
		"image, link out":      {ociImage, entry{layer, pack(t, "gzip", members(t, "models/m.gguf", "-> /data/m.gguf")), nil}, `"models/m.gguf" is a link to "/data/m.gguf", which it does not hold; `},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			push(t, f, "a/b", "latest", "", tt.config, tt.layer)
			store, err := cache.Open(cache.Options{Dir: t.TempDir() + "/cache", Budget: 64 << 20, OnDisk: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			o := options(t)
			o.Store, o.Download = store, true
			_, _, err = Open(t.Context(), Scheme+f.host()+"/a/b", o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), Scheme) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Bytes that do not match the layer's digest are not unpacked.
func TestUnpackedDigest(t *testing.T) {
	environ(t, "")
	for _, size := range []int{1000, 20 << 20} {
		f := newFake(t)
		b := make([]byte, size) // not compressed much
		for i := range b {
			b[i] = byte(i * i >> 7 * 31)
		}
		right := pack(t, "gzip", members(t, "m.gguf", string(b)))
		push(t, f, "a/b", "latest", "", kitops, entry{"application/vnd.kitops.modelkit.model.v1.tar+gzip", right, nil})
		wrong := slices.Clone(right)
		wrong[4] ^= 1 // the time in the header of gzip
		f.set(func() { f.blobs[digestOf(right)] = wrong })
		o := options(t)
		o.Download = true
		if _, _, err := Open(t.Context(), Scheme+f.host()+"/a/b", o); !errors.Is(err, tensorfs.ErrChanged) {
			t.Errorf("%d bytes: %v", size, err)
		}
		list, err := o.Store.List()
		if err != nil || slices.ContainsFunc(list, func(x cache.Info) bool { return strings.HasSuffix(x.Source, ".gguf") }) {
			t.Errorf("%d bytes: %v: %v", size, err, list)
		}
	}
}

// What the layers of a container make of its folder models.
func TestOverlay(t *testing.T) {
	for name, tt := range map[string]struct {
		layers [][]string
		want   string // NAME=CONTENT, or an error
	}{
		"replaced":                 {[][]string{{"models/a", "1", "models/b", "1"}, {"./models/a", "2"}, {"/models/c", "3"}}, "a=2 b=1 c=3"},
		"removed":                  {[][]string{{"models/a", "1", "models/b", "1"}, {"models/.wh.a", ""}}, "b=1"},
		"removed and made again":   {[][]string{{"models/a", "1"}, {"models/a", "2", "models/.wh.a", ""}}, "a=2"},
		"folder removed":           {[][]string{{"models/a/x", "1", "models/ab", "1"}, {"models/.wh.a", ""}}, "ab=1"},
		"all removed":              {[][]string{{"models/a", "1"}, {".wh.models", ""}, {"models/b", "2"}}, "b=2"},
		"emptied":                  {[][]string{{"models/a/x", "1", "models/b", "1"}, {"models/a/y", "2", "models/a/.wh..wh..opq", ""}}, "a/y=2 b=1"},
		"root emptied":             {[][]string{{"models/a", "1"}, {".wh..wh..opq", "", "models/b", "2"}}, "b=2"},
		"odd marks":                {[][]string{{"models/a", "1"}, {"models/.wh...", "", "models/.wh..", "", "models/.wh.", "", "models/.wh..wh.plnk", ""}}, "a=1"},
		"outside":                  {[][]string{{"models/a", "1", "modelsx/b", "1", "models/../c", "1", "x/models/d", "1"}}, "a=1"},
		"named from above":         {[][]string{{"x/../models/a", "1"}}, "a=1"},
		"folder in place of file":  {[][]string{{"models/a", "1"}, {"models/a/", "/", "models/a/b", "2"}}, "a/b=2"},
		"file in place of folder":  {[][]string{{"models/a/b", "1"}, {"models/a", "2"}}, "a=2"},
		"twice in a layer":         {[][]string{{"models/a", "1", "models/a", "2"}}, "a=2"},
		"links":                    {[][]string{{"models/blobs/x", "1", "models/a", "-> blobs/x", "models/s/b", "-> ../a", "models/c", "=> models/blobs/x", "models/d", "-> /models/a"}}, "a=1 blobs/x=1 c=1 d=1 s/b=1"},
		"hard link to a lower one": {[][]string{{"models/a", "1"}, {"models/b", "=> models/a"}, {"models/a", "2"}}, "a=2 b=1"},
		"link to a model":          {[][]string{{"models/x/a.gguf", "1", "models/b.gguf", "-> x/a.gguf", "models/model.file", "-> x/a.gguf"}}, "model.file=1 x/a.gguf=1"},
		"link to a folder":         {[][]string{{"models/v1/a", "1", "models/now", "-> v1"}}, "v1/a=1"},
		"link to what is removed":  {[][]string{{"models/a", "1", "models/b", "-> a"}, {"models/.wh.a", ""}}, `"models/b" is a link to "a", which it does not hold`},
		"link out":                 {[][]string{{"x", "1", "models/b", "-> ../x"}}, `"models/b" is a link to "../x", which it does not hold`},
		"link above":               {[][]string{{"models/b", "-> ../../models/b"}}, `"models/b" is a link to "../../models/b", which it does not hold`},
	} {
		t.Run(name, func(t *testing.T) {
			var list []file
			var text bytes.Buffer
			contents := map[int64]string{}
			for i, layer := range tt.layers {
				b := members(t, layer...)
				err := inPlace(bytes.NewReader(b), int64(len(b)), true).walk(func(m member, body io.Reader) error {
					one := file{Digest: "x", Layer: i + 1}.member(m)
					if m.kind == "" {
						content, err := io.ReadAll(body)
						one.Part.Off += int64(i) << 32
						contents[one.Part.Off] = string(content)
						if err != nil {
							return err
						}
					}
					list = append(list, one)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			files, err := flatten(list, true)
			if err != nil {
				text.WriteString(err.Error())
			}
			slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
			for _, f := range files {
				fmt.Fprintf(&text, " %s=%s", f.Name, contents[f.Part.Off])
			}
			if got := strings.TrimSpace(text.String()); got != tt.want {
				t.Errorf("%s, and not %s", got, tt.want)
			}
		})
	}
}

// Which artifact of an index is the model.
func TestChoose(t *testing.T) {
	here := "linux/" + runtime.GOARCH
	for _, tt := range []struct {
		platforms []string
		want      int
	}{
		{nil, -1}, {[]string{""}, 0}, {[]string{"linux/s390x"}, 0}, {[]string{"", ""}, -1},
		{[]string{"linux/s390x", ""}, 1}, {[]string{"linux/s390x", "unknown/unknown"}, 0},
		{[]string{"linux/s390x", "unknown/unknown", here, "unknown/unknown"}, 2}, {[]string{"linux/s390x", "linux/mips"}, -1}, {[]string{here, here}, -1},
	} {
		m := &manifest{}
		for _, p := range tt.platforms {
			m.layers = append(m.layers, layer{platform: p})
		}
		if got := m.choose(); got != tt.want {
			t.Errorf("%q: %d", tt.platforms, got)
		}
	}
}
