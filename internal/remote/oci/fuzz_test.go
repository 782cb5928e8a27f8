package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"io/fs"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/testing/testremote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// FuzzManifest reads any text as a manifest: what is taken of it has digests, sizes
// and names that files can have.
func FuzzManifest(f *testing.F) {
	r := newFake(f)
	for _, m := range testremote.Models(f, testdata)[:2] {
		for way, push := range ways {
			push(f, r, way, "latest", m)
		}
	}
	for _, text := range r.manifests {
		f.Add(text)
	}
	index, _ := json.Marshal(map[string]any{"manifests": []any{map[string]any{"digest": digestOf(nil), "size": 1, "platform": map[string]any{"os": "linux"}}}})
	f.Add(index)
	store, err := cache.Open(cache.Options{Budget: -1})
	if err != nil {
		f.Fatal(err)
	}
	oneLine := func(t *testing.T, err error) {
		if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%q", err)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readManifest(text)
		if err != nil {
			oneLine(t, err)
			return
		}
		if len(m.layers) > maxLayers {
			t.Errorf("%d layers", len(m.layers))
		}
		list, err := m.files()
		if err != nil {
			oneLine(t, err)
			return
		}
		for _, x := range list {
			if !sha256Name().MatchString(x.Digest) || x.Size < 0 || x.Size > cache.MaxSize {
				t.Errorf("%+v", x)
			}
		}
		if list, err = flatten(slices.DeleteFunc(list, func(x file) bool { return x.Name == "" }), m.isImage()); err != nil {
			oneLine(t, err)
			return
		}
		list, folder := inFolder(list)
		ref := reference{registry: "host", repository: "a", tag: "latest"}
		a := &artifact{s: &session{ref: ref}, o: Options{Store: store}, answer: remote.Answer[artifactFiles]{Offline: "--offline"}, origins: map[string]web.Origin{}}
		l, err := a.listing(ref.String(), folder, list, time.Time{})
		if err != nil {
			oneLine(t, err)
			return
		}
		for _, x := range l.Items() {
			if !fs.ValidPath(x.Name) || strings.Contains(x.Name, `\`) {
				t.Errorf("%q", x.Name)
			}
		}
		if _, err := l.Choose(); err != nil {
			oneLine(t, err)
		}
	})
}

// FuzzArchive walks any bytes as an archive: files lie inside, do not overlap, and have the
// bytes that package tar gives for them, read in place and as a stream.
func FuzzArchive(f *testing.F) {
	files := map[string][]byte{"a": []byte("hello"), "dir/b": make([]byte, 1000), strings.Repeat("long/", 40) + "c": []byte("x"), "empty": nil, "models/.wh.x": nil, "models/y": []byte("y")}
	for _, format := range []tar.Format{tar.FormatPAX, tar.FormatGNU} {
		f.Add(archive(f, format, files, ""), false)
		f.Add(archive(f, format, files, "./x/"), false)
		f.Add(archive(f, format, files, ""), true)
	}
	f.Add(archive(f, tar.FormatUSTAR, map[string][]byte{"a": []byte("hello")}, ""), false)
	f.Add(members(f, "models/a", "a file", "models/b", "-> a", "models/c", "=> models/a"), true)
	f.Fuzz(func(t *testing.T, b []byte, image bool) {
		var found []file
		end := int64(0)
		err := inPlace(bytes.NewReader(b), int64(len(b)), image).walk(func(m member, body io.Reader) error {
			found = append(found, file{Name: m.name, Kind: m.kind, Link: m.link, Digest: "one"})
			if m.kind != "" {
				return nil
			}
			if m.off < end || m.size < 0 || m.size > int64(len(b))-m.off {
				t.Errorf("%+v of %d bytes, after %d", m, len(b), end)
			}
			end = m.off + m.size
			return nil
		})
		var streamed []file
		r := &stream{r: bytes.NewReader(b), ctx: t.Context(), limit: 1 << 40, sum: sha256.New()}
		serr := archiveReader{tar.NewReader(r), func() int64 { return r.off }, -1, image}.walk(func(m member, body io.Reader) error {
			streamed = append(streamed, file{Name: m.name, Kind: m.kind, Link: m.link, Digest: "one"})
			if m.kind != "" {
				return nil
			}
			got, err := io.ReadAll(body)
			if err == nil && !bytes.Equal(got, b[m.off:m.off+m.size]) {
				t.Errorf("%+v has other bytes", m)
			}
			return err
		})
		if err != nil || serr != nil {
			return
		}
		if !reflect.DeepEqual(found, streamed) {
			t.Errorf("in place %+v, and as a stream %+v", found, streamed)
		}
		list, err := flatten(found, image)
		if err != nil {
			return
		}
		for _, x := range list {
			if x.Kind != "" || remote.CheckName(x.Name) != "" {
				t.Errorf("%+v", x)
			}
		}
	})
}

// FuzzName takes any name apart: one that is taken is put together again, and its
// address leads to the registry.
func FuzzName(f *testing.F) {
	for _, s := range []string{"oci://ghcr.io/org/model:v1", "oci://localhost:5000/a@sha256:" + strings.Repeat("0a", 32), "oci://[::1]/a", "oci://docker.io/x", "oci://a@b/c", "oci://a/../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		r, err := parse(name)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q", err)
			}
			return
		}
		again, err := parse(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %+v, and %q is %+v: %v", name, r, r, again, err)
		}
		u := r.address("manifests/" + r.what())
		if u.Host != r.host() || u.User != nil || !fs.ValidPath(strings.TrimPrefix(u.Path, "/")) {
			t.Errorf("%q is at %s", name, u)
		}
		if a, err := netip.ParseAddr(u.Hostname()); u.Scheme != "https" && u.Hostname() != "localhost" && (err != nil || !a.IsLoopback()) {
			t.Errorf("%q is at %s", name, u)
		}
	})
}
