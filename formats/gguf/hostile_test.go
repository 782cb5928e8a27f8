package gguf

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
)

const hostileDir = "../../testdata/hostile-gguf"

// prepared holds the cases that are not in the directory as files: links, and
// what is large.
var prepared = map[string]func(t *testing.T, dir string) string{
	"split/ok-links-to-blobs/snapshot/m-00001-of-00003.gguf": func(t *testing.T, dir string) string {
		blobs, err := filepath.Abs(filepath.Join(hostileDir, "split/ok-links-to-blobs/blobs"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			name := "m-0000" + strconv.Itoa(i+1) + "-of-00003.gguf"
			if err := os.Symlink(filepath.Join(blobs, strings.Repeat("0", 63)+strconv.Itoa(i+1)), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(dir, "m-00001-of-00003.gguf")
	},
	"array-nested-50000-deep.gguf": func(t *testing.T, dir string) string {
		b := []byte("GGUF\x03\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" +
			"\x03\x00\x00\x00\x00\x00\x00\x00a.b\x09\x00\x00\x00")
		b = append(b, strings.Repeat("\x09\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", 50000)...)
		b = append(b, "\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"...)
		path := filepath.Join(dir, "array-nested-50000-deep.gguf")
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	},
}

// TestHostileFiles opens every malformed and every odd file, reads all that open, and bounds time
// and memory.
func TestHostileFiles(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(hostileDir, "verdicts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(table), "\n"), "\n")
	if len(lines) != 228 {
		t.Fatalf("%d cases", len(lines))
	}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, "\t")
		verdict, tensors, _ := strings.Cut(rest, "\t")
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(hostileDir, name)
			if f := prepared[name]; f != nil {
				path = f(t, t.TempDir())
			}
			var err error
			open := func() {
				var m *tensorfs.Model
				if m, err = Open(path); err != nil {
					return
				}
				if verdict == "accept" && strconv.Itoa(len(m.Tensors)) != tensors {
					t.Errorf("%d tensors, want %s", len(m.Tensors), tensors)
				}
				readModel(t, m)
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}
			testlimit.Work(t, 50, func() {
				if n := testlimit.Allocated(open); n > 64<<20 {
					t.Errorf("allocated %d bytes", n)
				}
			})
			if (err == nil) != (verdict == "accept") {
				t.Errorf("error %v, want %s", err, verdict)
			}
			if err != nil {
				t.Log(err)
				checkRefusal(t, filepath.Dir(path), err)
			}
		})
	}
}

// checkRefusal checks that an error calls a file malformed or unsupported, and has the form of
// every error.
func checkRefusal(t *testing.T, dir string, err error) {
	t.Helper()
	var fe *tensorfs.FormatError
	if !errors.As(err, &fe) {
		t.Errorf("%q is a %T", err, err)
	}
	checkLine(t, dir, err)
}

// checkLine checks that an error is one line of printable text that names a file in dir and the
// next step.
func checkLine(t *testing.T, dir string, err error) {
	t.Helper()
	dir, aerr := filepath.Abs(dir)
	if aerr != nil {
		t.Fatal(aerr)
	}
	s := err.Error()
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || len(s) > 1000 {
		t.Errorf("not one printable line: %q", s)
	}
	if !strings.HasPrefix(s, dir+string(filepath.Separator)) {
		t.Errorf("%q does not name the file", s)
	}
	if !strings.Contains(s, "; ") {
		t.Errorf("%q does not say what to do", s)
	}
}

// readModel reads every byte of every tensor and all metadata, and checks what
// later code trusts.
func readModel(t testing.TB, m *tensorfs.Model) {
	t.Helper()
	files := make(map[string]int64)
	for _, s := range m.Sources {
		st, err := os.Stat(s.Path)
		if err != nil {
			t.Fatal(err)
		}
		files[s.Name] = st.Size()
	}
	readAll(t, m, files)
}

// readAll is readModel with the sizes of the files, by their names below source/.
func readAll(t testing.TB, m *tensorfs.Model, files map[string]int64) {
	t.Helper()
	var extents []tensorfs.Extent
	for i := range m.Tensors {
		x := &m.Tensors[i]
		if n, err := io.Copy(io.Discard, io.NewSectionReader(x.Data, 0, x.Data.Size())); err != nil || n != x.Data.Size() {
			t.Errorf("%q: read %d of %d bytes: %v", x.Source, n, x.Data.Size(), err)
		}
		n, ok := tensorfs.Elements(x.Shape)
		if !ok || (n == 0) != (x.Data.Size() == 0) {
			t.Errorf("%q: %d bytes for shape %v", x.Source, x.Data.Size(), x.Shape)
		}
		for _, e := range tensorfs.Extents(x.Data) {
			if size, ok := files[e.File]; !ok || e.Offset < 0 || e.Bytes > size-e.Offset {
				t.Errorf("%q: extent %+v is outside of the model", x.Source, e)
			}
			if e.Bytes > 0 {
				extents = append(extents, e)
			}
		}
		if (x.DType == tensorfs.Unknown) && x.Opaque == "" {
			t.Errorf("%q: no reason", x.Source)
		}
	}
	slices.SortFunc(extents, func(a, b tensorfs.Extent) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	for i := 1; i < len(extents); i++ {
		if a, b := extents[i-1], extents[i]; a.File == b.File && a.Offset+a.Bytes > b.Offset {
			t.Errorf("extents %+v and %+v overlap", a, b)
		}
	}
	var text []byte
	for _, e := range m.Metadata {
		text = e.AppendText(text[:0])
		text = e.AppendJSON(text[:0])
	}
}
