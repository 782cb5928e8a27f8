package tree

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	iofs "io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"

	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/internal/testing/memory"
	"github.com/tensorfs/tensorfs/internal/testing/testlimit"
	"github.com/tensorfs/tensorfs/internal/testing/testmodel"
)

const testdata = "../../testdata"

// sample is a model of testdata: its files, and the one (or ".") to open.
type sample struct {
	name  string
	open  string
	files map[string][]byte
}

// maxSample is the size of the models that are mutated: reading one in every
// view must take milliseconds.
const maxSample = 800_000

// samples returns the golden and the hostile models, by the hash of their names,
// which stays the same when others are added.
func samples(t testing.TB) map[uint16]*sample {
	all := map[uint16]*sample{}
	add := func(s *sample) {
		total := 0
		for _, b := range s.files {
			total += len(b)
		}
		if total == 0 || total > maxSample {
			return
		}
		h := fnv.New32a()
		h.Write([]byte(s.name))
		all[uint16(h.Sum32())] = s
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(testdata, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	root := os.DirFS(testdata)
	err := iofs.WalkDir(root, ".", func(name string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, base := path.Split(name)
		switch {
		case d.IsDir():
			if configs, _ := iofs.Glob(root, name+"/*.safetensors"); len(configs) > 0 && !strings.Contains(name, "ollama") {
				s := &sample{name, ".", map[string][]byte{}}
				entries, err := iofs.ReadDir(root, name)
				if err != nil {
					return err
				}
				for _, e := range entries {
					if e.Type().IsRegular() {
						s.files[e.Name()] = read(name + "/" + e.Name())
					}
				}
				add(s)
			}
		case !d.Type().IsRegular():
		case strings.HasSuffix(base, ".safetensors"):
			add(&sample{name, base, map[string][]byte{base: read(name)}})
		case strings.HasSuffix(base, ".gguf"):
			s := &sample{name, base, map[string][]byte{base: read(name)}}
			if i := strings.Index(base, "-of-"); i > 5 {
				shards, _ := iofs.Glob(root, dir+base[:i-5]+"*.gguf")
				for _, shard := range shards {
					if b, err := iofs.ReadFile(root, shard); err == nil { // one is a directory
						s.files[path.Base(shard)] = b
					}
				}
			}
			add(s)
		case strings.Contains(name, "/manifests/"):
			store := name[:strings.Index(name, "manifests/")]
			manifest := read(name)
			s := &sample{name, name[len(store):], map[string][]byte{name[len(store):]: manifest}}
			for _, m := range digest.FindAllSubmatch(manifest, -1) {
				blob := "blobs/sha256-" + string(m[1])
				if b, err := iofs.ReadFile(root, store+blob); err == nil {
					s.files[blob] = b
				}
			}
			add(s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var digest = regexp.MustCompile(`sha256[:-]([0-9a-f]{64})`)

// nearest returns the sample that a number means: the next one at or after it.
func nearest(all map[uint16]*sample, keys []uint16, n uint16) *sample {
	i, _ := slices.BinarySearch(keys, n)
	return all[keys[i%len(keys)]]
}

// numbers are values that break arithmetic.
var numbers = []uint64{
	0, 1, 2, 7, 8, 16, 31, 32, 33, 36, 39, 63, 64, 100, 127, 128, 255, 256, 257, 1023, 4095, 4096, 1<<16 - 1, 1 << 16, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1,
	1<<53 + 1, 1<<62 - 1, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 32, 1<<64 - 1, 999_999_998, 1_000_000_000,
}

// texts replace strings.
var texts = []string{"", "..", "/", "../../x", "a/b", "\x1b[31m", "\u202e", "\u009b", "\n", "null", "[]", "{}", "-1", "1e400", "F16", "BF16", "I64", "U32", "F8_E4M3", "F4", "sha256:", "model", "weight"}

// edit is one change: 8 bytes of the fuzzer's input.
//
//	file | what | where (4, the top bit: in the first 2 KiB) | value (2)
func edit(files map[string][]byte, e []byte) {
	names := slices.Sorted(maps.Keys(files))
	if len(names) == 0 {
		return
	}
	name := names[int(e[0])%len(names)]
	b := files[name]
	where, value := binary.LittleEndian.Uint32(e[2:]), binary.LittleEndian.Uint16(e[6:])
	at := int(where & (1<<31 - 1))
	if where>>31 == 1 {
		at %= 2048
	}
	if len(b) > 0 {
		at %= len(b)
	} else {
		at = 0
	}
	number := numbers[int(value)%len(numbers)]
	switch e[1] % 12 {
	case 0:
		if at < len(b) {
			b[at] = byte(value)
		}
	case 1:
		if at < len(b) {
			b[at] ^= 1 << (value % 8)
		}
	case 2:
		if at+4 <= len(b) {
			binary.LittleEndian.PutUint32(b[at:], uint32(number))
		}
	case 3:
		if at+8 <= len(b) {
			binary.LittleEndian.PutUint64(b[at:], number)
		}
	case 4:
		b = b[:at]
	case 5:
		b = slices.Delete(b, at, min(at+int(value), len(b)))
	case 6:
		b = slices.Insert(b, at, bytes.Repeat([]byte{byte(value)}, int(value>>8))...)
	case 7: // another number in JSON
		if i := bytes.IndexAny(b[at:], "0123456789"); i >= 0 {
			i += at
			end := i
			for end < len(b) && '0' <= b[end] && b[end] <= '9' {
				end++
			}
			b = slices.Replace(b, i, end, []byte(fmt.Sprint(number))...)
		}
	case 8: // another string in JSON
		if i := bytes.IndexByte(b[at:], '"'); i >= 0 {
			i += at + 1
			if n := bytes.IndexByte(b[i:], '"'); n >= 0 {
				b = slices.Replace(b, i, i+n, []byte(texts[int(value)%len(texts)])...)
			}
		}
	case 9: // another text of the same length, as in GGUF
		copy(b[at:], texts[int(value)%len(texts)])
	case 10:
		delete(files, name)
		return
	case 11: // the bytes of another place
		if len(b) > 0 {
			from := int(value) * 7 % len(b)
			copy(b[at:], slices.Clone(b[from:min(from+16, len(b))]))
		}
	}
	files[name] = b
}

// mutant returns the files of a sample after the edits.
func mutant(s *sample, edits []byte) map[string][]byte {
	files := make(map[string][]byte, len(s.files))
	for name, b := range s.files {
		files[name] = slices.Clone(b)
	}
	for len(edits) >= 8 {
		edit(files, edits[:8])
		edits = edits[8:]
	}
	return files
}

// FuzzModel changes a model of testdata in a few places, opens what comes out,
// lays it out and reads every file of the tree.
func FuzzModel(f *testing.F) {
	all := samples(f)
	keys := slices.Sorted(maps.Keys(all))
	if len(keys) < 100 {
		f.Fatalf("only %d models", len(keys))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, k := range keys { // TestSamples has the models without edits
		edits := make([]byte, 8*(1+random.IntN(4)))
		for i := range edits {
			edits[i] = byte(random.Uint32())
		}
		f.Add(k, edits)
	}
	f.Fuzz(func(t *testing.T, which uint16, edits []byte) {
		if len(edits) > 8*16 {
			return
		}
		s := nearest(all, keys, which)
		files := mutant(s, edits)
		m, err := s.openInMemory(t, files)
		if err != nil {
			checkLine(t, err.Error())
			return
		}
		defer m.Close()
		s.check(t, m, files)
	})
}

// openInMemory opens a sample, or a mutant of it, and bounds what that allocates.
func (s *sample) openInMemory(t *testing.T, files map[string][]byte) (m *tensorfs.Model, err error) {
	t.Helper()
	src := memory.New(files)
	if n := testlimit.Allocated(func() { m, err = formats.OpenFS(src, s.open) }); n > maxOpening {
		t.Errorf("%s: %d bytes were allocated to open it", s.name, n)
	}
	return m, err
}

// check lays out a model of these files, bounds what whole models allocate, and reads every file.
func (s *sample) check(t *testing.T, m *tensorfs.Model, files map[string][]byte) {
	t.Helper()
	tree, size := New(m, Options{}), 0
	for _, b := range files {
		size += len(b)
	}
	holdCost(t, s.name, size, func() {
		for _, w := range tree.Whole {
			w.Files()
		}
	})
	checkTree(t, tree)
}

// TestSamples holds that the models which FuzzModel changes open as files in
// memory exactly where they open as files of a directory, and reads the latter.
func TestSamples(t *testing.T) {
	opened := 0
	for _, s := range samples(t) {
		if !testmodel.Sampled(s.name) {
			continue
		}
		dir := t.TempDir()
		if err := testmodel.Write(dir, s.files); err != nil {
			t.Fatal(err)
		}
		m, err := formats.Open(filepath.Join(dir, filepath.FromSlash(s.open)))
		inMemory, merr := s.openInMemory(t, s.files)
		if merr == nil {
			inMemory.Close()
		}
		if (err == nil) != (merr == nil) {
			t.Errorf("%s: as files %v, in memory %v", s.name, err, merr)
		}
		if err != nil {
			checkLine(t, err.Error())
			continue
		}
		opened++
		s.check(t, m, s.files)
		m.Close()
	}
	if opened < 60 {
		t.Errorf("only %d models open", opened)
	}
}

// maxOpening is what opening a sample may allocate. The samples are smaller than
// a megabyte, and so is what a sound one of them needs.
const maxOpening = 64 << 20

// checkLine checks that a message is one line of harmless text.
func checkLine(t *testing.T, line string) {
	t.Helper()
	if line == "" || !utf8.ValidString(line) || strings.ContainsFunc(line, unsafe) {
		t.Errorf("message %q", line)
	}
}

// unsafe reports whether a character does something to a terminal.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// checkTree reads every file and holds the tree against its index.
func checkTree(t *testing.T, tree *Tree) {
	t.Helper()
	sizes := map[string]int64{}
	err := tensorfs.Walk(tree.Root, func(p string, e tensorfs.Entry) error {
		if e.Name == "" || len(e.Name) > 255 || e.Name == "." || e.Name == ".." || strings.ContainsFunc(e.Name, unsafe) || strings.Contains(e.Name, "/") {
			t.Errorf("name %q", p)
		}
		if e.Data != nil {
			sizes[p] = e.Data.Size()
			checkFile(t, tree.Model, p, e)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var index struct {
		Views map[string]map[string]struct{ Bytes int64 }
	}
	e, err := tensorfs.Find(tree.Root, "index.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content(t, "index.json", e.Data), &index); err != nil {
		t.Fatalf("index.json: %v", err)
	}
	listed := 0
	for view, files := range index.Views {
		for name, f := range files {
			listed++
			if size, ok := sizes[view+"/"+name]; !ok || size != f.Bytes {
				t.Errorf("index.json has %s/%s with %d bytes; in the tree: %v, %d", view, name, f.Bytes, ok, size)
			}
		}
	}
	for p := range sizes {
		if view, _, ok := strings.Cut(p, "/"); ok && view != "metadata" && view != IndexDir && WholeHelp[view] == "" {
			listed--
		}
	}
	if listed != 0 {
		t.Errorf("index.json and the tree differ by %d files", listed)
	}
}

// parsers must accept the whole-model files that are made here.
var parsers = map[string]func(source.File) error{
	".gguf":        func(f source.File) error { _, err := gguf.Parse(f); return err },
	".safetensors": func(f source.File) error { _, err := safetensors.Parse(f); return err },
}

// maxRead bounds what is read of a file in one piece.
const maxRead = 2 << 20

func content(t *testing.T, p string, d tensorfs.Data) []byte {
	t.Helper()
	b := make([]byte, min(d.Size(), maxRead))
	if err := tensorfs.ReadFull(d, b, 0); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return b
}

// checkFile reads a file as a whole and in pieces, by each way that it has.
func checkFile(t *testing.T, m *tensorfs.Model, p string, e tensorfs.Entry) {
	t.Helper()
	size := e.Data.Size()
	if size < 0 {
		t.Fatalf("%s has %d bytes", p, size)
	}
	b := content(t, p, e.Data)
	for _, r := range [][2]int64{{0, 1}, {1, 700}, {int64(len(b)) / 3, 4099}, {int64(len(b)) - 5, 5}} {
		off, n := max(r[0], 0), r[1]
		if n = min(n, int64(len(b))-off); n <= 0 {
			continue
		}
		want := b[off : off+n]
		got := make([]byte, n)
		if err := tensorfs.ReadFull(e.Data, got, off); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes at %d are others alone (%v)", p, n, off, err)
		}
		mem, mapped, err := tensorfs.Slices(e.Data, nil, off, n)
		if joined := bytes.Join(mem, nil); err != nil || mapped && !bytes.Equal(joined, want) || !mapped && len(mem) > 0 {
			t.Errorf("%s: Slices(%d, %d): %v", p, off, n, err)
		}
	}
	if n, err := e.Data.ReadAt(make([]byte, 1), size); n != 0 || err != io.EOF {
		t.Errorf("%s: a read at the end: %d, %v", p, n, err)
	}
	if size > maxRead {
		tail := make([]byte, 999)
		if n, err := e.Data.ReadAt(tail, size-500); n != 500 || err != nil && err != io.EOF {
			t.Errorf("%s: the tail: %d, %v", p, n, err)
		}
	}
	// What is made here, and not passed on as it is stored.
	dir, base := path.Split(p)
	made := dir != "hf/" && dir != "mlx/" || m.Layout == "gguf" || base == description
	if strings.HasSuffix(p, ".json") && made && size <= maxRead && !json.Valid(b) {
		t.Errorf("%s is not JSON", p)
	}
	if parse := parsers[path.Ext(base)]; dir != "" && parse != nil && made && size <= maxRead {
		f, err := memory.New(map[string][]byte{"m": b}).OpenFile("m")
		if err == nil {
			err = parse(f)
		}
		if err != nil {
			t.Errorf("%s is refused: %v", p, err)
		}
	}
	if e.Attrs != nil {
		for _, a := range e.Attrs() {
			if a.Name == "user.tensorfs.shape" && !json.Valid(a.Value) {
				t.Errorf("%s: %s is %q", p, a.Name, a.Value)
			}
		}
	}
}
